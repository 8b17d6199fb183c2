"""How a session opens, registers its queues and opens again [WIRE-4, QUEUE-*, READY-*, WIRE-10]."""

from dexpb.v1 import frames
from dexsdk._wire import UnknownFrame
from tests.unit.dexsdk_transport.session_script import FLOW_QUEUE, WORKER_QUEUE, SessionScript, output_of


def test_hello_says_who_the_worker_is_and_what_it_serves() -> None:
    """[WIRE-4]"""
    hello = SessionScript(limit=8, reserved=2).session.connect()
    assert (hello.protocol_min, hello.protocol_max) == (frames.PROTOCOL_MIN, frames.PROTOCOL_MAX)
    assert (hello.worker_id, hello.incarnation) == (WORKER_QUEUE, "incarnation-1")
    assert (hello.max_concurrent_tasks, hello.reserved_rpc_tasks) == (8, 2)
    assert [flow.flow_type for flow in hello.flows] == [FLOW_QUEUE]
    assert hello.running == ()


def test_each_queue_gets_its_idle_streams_after_welcome() -> None:
    """[QUEUE-1, CAP-1]: the worker queue and one queue per Flow type."""
    sent = SessionScript(idle_streams=2).welcome().send
    assert [frame.queue for frame in sent if isinstance(frame, frames.OpenStream)] == [
        WORKER_QUEUE,
        WORKER_QUEUE,
        FLOW_QUEUE,
        FLOW_QUEUE,
    ]
    assert len({frame.stream for frame in sent if isinstance(frame, frames.OpenStream)}) == 4


def test_nothing_is_sent_before_welcome() -> None:
    """[WIRE-4]: the server may still end the call instead."""
    script = SessionScript()
    script.session.connect()
    assert script.session.tick(script.now).send == []


def test_streams_stay_within_the_cap_of_the_server() -> None:
    """[QUEUE-3]"""
    script = SessionScript(idle_streams=4, max_streams=5)
    assert len(script.welcome().send) == 5


def test_worker_is_ready_once_every_queue_was_acknowledged() -> None:
    """[READY-1]"""
    script = SessionScript()
    first, second = script.welcome().send
    script.confirm([first])
    assert not script.readiness.is_ready
    script.confirm([second])
    assert script.readiness.is_ready


def test_reconnect_keeps_readiness() -> None:
    """[READY-5]"""
    script = SessionScript().connected()
    script.session.disconnect()
    state = script.readiness.state
    assert state.is_ready
    assert [queue.has_registered_stream for queue in state.queues] == [False, False]


def test_permanent_rejection_is_recorded_and_retried_with_backoff() -> None:
    """[QUEUE-4, READY-3]: the queue without a stream carries the error, the other one is not affected."""
    script = SessionScript()
    worker, flow = script.welcome().send
    script.confirm([worker])
    assert isinstance(flow, frames.OpenStream)
    refusal = frames.StreamRejected(flow.stream, "INVALID_ARGUMENT", "FLOW_TYPE_TOO_LONG", "limit 100", permanent=True)
    assert script.receive(refusal).send == []
    error = script.readiness.failure
    assert error is not None
    assert (error.queue, error.code, error.details) == (FLOW_QUEUE, "INVALID_ARGUMENT", "limit 100")
    assert script.tick_after(99).send == []
    (again,) = script.tick_after(1).send
    assert isinstance(again, frames.OpenStream)
    assert again.queue == FLOW_QUEUE


def test_backoff_of_a_rejected_queue_doubles() -> None:
    """[QUEUE-4]"""
    script = SessionScript()
    sent = script.welcome().send
    for delay_ms in (100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000):
        flow = sent[-1]
        assert isinstance(flow, frames.OpenStream)
        script.receive(frames.StreamRejected(flow.stream, "UNAVAILABLE", "X", "later", permanent=False))
        assert script.tick_after(delay_ms - 1).send == []
        sent = script.tick_after(1).send
    assert script.readiness.failure is None, "a transient rejection is no error"


def test_registration_clears_the_error_of_its_queue() -> None:
    """[READY-5]"""
    script = SessionScript()
    worker, flow = script.welcome().send
    script.confirm([worker])
    assert isinstance(flow, frames.OpenStream)
    script.receive(frames.StreamRejected(flow.stream, "INVALID_ARGUMENT", "X", "no", permanent=True))
    script.confirm(script.tick_after(100).send)
    assert script.readiness.is_ready
    assert script.readiness.state.queues[1].last_permanent_error is None


def test_rejected_surplus_stream_leaves_the_worker_ready() -> None:
    """[READY-3]: recorded, and nothing more."""
    script = SessionScript(idle_streams=2)
    *confirmed, surplus = script.welcome().send
    script.confirm(confirmed)
    assert isinstance(surplus, frames.OpenStream)
    script.receive(frames.StreamRejected(surplus.stream, "RESOURCE_EXHAUSTED", "X", "cap", permanent=True))
    assert script.readiness.is_ready
    assert script.readiness.failure is None
    error = script.readiness.state.queues[1].last_permanent_error
    assert error is not None
    assert error.code == "RESOURCE_EXHAUSTED"


def test_running_calls_are_presented_again_on_their_streams() -> None:
    """[WIRE-10]"""
    script = SessionScript().connected()
    delivery = script.run()
    script.session.disconnect()
    hello = script.session.connect()
    assert hello.running == (frames.RunningCall(delivery.stream, FLOW_QUEUE, delivery.assign.token),)


def test_result_of_a_presented_call_is_sent_on_its_stream() -> None:
    """[WIRE-10]: the server lets it go on."""
    script = SessionScript().connected()
    delivery = script.run()
    script.session.disconnect()
    script.welcome()
    assert script.finish(delivery)[0] == output_of(delivery)


def test_unacknowledged_result_is_presented_and_sent_again() -> None:
    """[WIRE-10]: under a stream number of its own, because the old one may serve another call by now."""
    script = SessionScript().connected()
    delivery = script.run()
    script.finish(delivery)
    script.session.disconnect()
    (presented,) = script.session.connect().running
    assert presented.token == delivery.assign.token
    assert presented.stream not in script.open_streams
    sent = script.receive(frames.Welcome(1, "server-1", 20_000, 256, 1 << 24)).send
    assert sent[0] == frames.Output(presented.stream, delivery.assign.token, output=b"1")


def test_result_that_came_between_hello_and_welcome_is_sent_once_after_it() -> None:
    """[WIRE-10]"""
    script = SessionScript().connected()
    delivery = script.run()
    script.session.disconnect()
    script.session.connect()
    assert script.finish(delivery) == []
    sent = script.receive(frames.Welcome(1, "server-1", 20_000, 256, 1 << 24)).send
    assert sent.count(output_of(delivery)) == 1


def test_first_session_to_come_back_presents_the_calls_of_its_siblings() -> None:
    """[WIRE-3, WIRE-10]: a server that has just started cannot know that there is another session to wait for."""
    first, second = SessionScript().connected(), SessionScript().connected()
    running, answered = second.run(), second.run()
    second.finish(answered)
    sessions = (first.session, second.session)
    for session in sessions:
        session.disconnect()
    hello = first.session.connect(sessions)
    assert [call.token for call in hello.running] == [running.assign.token, answered.assign.token]
    assert first.session.holds(running)
    assert second.session.connect(sessions).running == ()


def test_calls_of_a_connected_sibling_stay_where_they_are() -> None:
    """[WIRE-3]"""
    first, second = SessionScript().connected(), SessionScript().connected()
    running = second.run()
    first.session.disconnect()
    assert first.session.connect((first.session, second.session)).running == ()
    assert second.session.holds(running)


def test_acknowledged_result_is_not_presented() -> None:
    """[WIRE-10]"""
    script = SessionScript().connected()
    delivery = script.run()
    script.finish(delivery)
    script.acknowledge(delivery)
    script.session.disconnect()
    assert script.session.connect().running == ()


def test_results_that_the_welcome_batch_settles_are_not_sent_again() -> None:
    """[WIRE-10]: an acknowledged one is done; a stale one is answered once, because its stream is busy until then."""
    script = SessionScript().connected()
    applied, stale = script.run(), script.run()
    script.finish(applied)
    script.finish(stale)
    script.session.disconnect()
    script.session.connect()
    sent = script.receive(
        frames.Welcome(1, "server-1", 20_000, 256, 1 << 24),
        frames.Ack(applied.stream, applied.assign.token, accepted=True),
        frames.Cancel(stale.stream, stale.assign.token, frames.CANCEL_STALE),
    ).send
    assert [frame.token for frame in sent if isinstance(frame, frames.Output)] == [stale.assign.token]
    assert script.session.is_quiet
    closed = [frame for frame in script.tick_after(1_000).send if isinstance(frame, frames.CloseStream)]
    assert {frame.stream for frame in closed} <= {applied.stream, stale.stream}, "both streams count as idle"


def test_stale_result_is_dropped() -> None:
    """[WIRE-10, DELIV-2]"""
    script = SessionScript().connected()
    delivery = script.run()
    script.finish(delivery)
    script.receive(frames.Cancel(delivery.stream, delivery.assign.token, frames.CANCEL_STALE))
    assert script.session.is_quiet


def test_refused_result_is_counted_and_dropped() -> None:
    """[DELIV-2]: the worker is told so."""
    script = SessionScript().connected()
    delivery = script.run()
    script.finish(delivery)
    script.receive(frames.Ack(delivery.stream, delivery.assign.token, accepted=False, reason="STALE"))
    assert script.session.refused_results == 1
    assert script.session.is_quiet


def test_unknown_frames_are_counted_and_never_fatal() -> None:
    """[WIRE-5]"""
    script = SessionScript().connected()
    assert script.receive(UnknownFrame(), frames.Ping(7)).send == [frames.Pong(7)]
    assert script.session.ignored_frames == 1
