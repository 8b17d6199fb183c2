"""Heartbeats on their way out of a worker [HB-2, HB-3]."""

import msgspec

from dexpb.v1 import frames
from dexsdk._delivery import Delivery
from dexsdk._handler_pulse import HandlerPulse
from tests.unit.dexsdk_transport.session_script import SessionScript


def beats(sent: list[frames.WorkerFrame]) -> list[bytes]:
    return [frame.value for frame in sent if isinstance(frame, frames.Heartbeat)]


def beating(script: SessionScript, timeout_ms: int = 0) -> Delivery:
    """A call whose handler has heartbeats."""
    delivery = script.run()
    delivery.assign = msgspec.structs.replace(delivery.assign, heartbeat_timeout_ms=timeout_ms)
    delivery.pulse = HandlerPulse(timeout_ms)
    return delivery


def test_hb_2_heartbeats_that_follow_closely_are_sent_as_one() -> None:
    script = SessionScript().connected()
    delivery = beating(script)
    delivery.heartbeat(b"1")
    assert beats(script.session.heartbeat(delivery, script.now)) == [b"1"]
    for value in (b"2", b"3", b"4"):
        delivery.heartbeat(value)
    assert beats(script.tick_after(500).send) == []
    assert beats(script.tick_after(500).send) == [b"4"]
    assert beats(script.tick_after(5_000).send) == [], "nothing new"


def test_hb_2_a_watched_handler_may_send_several_within_its_timeout() -> None:
    script = SessionScript().connected()
    delivery = beating(script, timeout_ms=400)
    sent = []
    for number in range(1, 9):
        delivery.heartbeat(b"%d" % number)
        sent += beats(script.tick_after(50).send)
    assert sent == [b"1", b"3", b"5", b"7"]


def test_hb_3_newest_value_leaves_before_the_failure_that_ends_the_attempt() -> None:
    script = SessionScript().connected()
    delivery = beating(script)
    delivery.heartbeat(b"1")
    script.session.heartbeat(delivery, script.now)
    delivery.heartbeat(b"2")
    failed = frames.Failed(delivery.stream, delivery.assign.token, frames.Failure("Boom"))
    sent = script.session.finish(delivery, failed, script.now)
    assert [type(frame) for frame in sent[:2]] == [frames.Heartbeat, frames.Failed]
    assert beats(sent) == [b"2"]


def test_hb_3_a_result_makes_the_newest_value_pointless() -> None:
    script = SessionScript().connected()
    delivery = beating(script)
    delivery.heartbeat(b"1")
    assert beats(script.finish(delivery)) == []


def test_hb_3_newest_value_is_sent_again_after_a_reconnect_because_it_may_not_have_arrived() -> None:
    script = SessionScript().connected()
    delivery = beating(script)
    delivery.heartbeat(b"1")
    script.session.heartbeat(delivery, script.now)
    script.session.disconnect()
    assert script.session.heartbeat(delivery, script.now) == [], "there is no session"
    assert beats(script.welcome().send) == [b"1"]


def test_deliv_3_a_heartbeat_shows_that_the_handler_has_started() -> None:
    script = SessionScript().connected()
    delivery = beating(script)
    delivery.heartbeat(b"")
    script.session.heartbeat(delivery, script.now)
    assert not [frame for frame in script.tick_after(10_000).send if isinstance(frame, frames.Accepted)]
