"""Which calls a session takes, declines, reports and cancels [CAP-*, RES-*, ROUTE-5, DELIV-*, DRAIN-*, WIRE-7]."""

import pytest

from dexpb.v1 import frames
from dexsdk._wire import UndecodableAssign
from tests.unit.dexsdk_transport.session_script import FLOW_QUEUE, WORKER_QUEUE, SessionScript, output_of


def declines(sent: list[frames.WorkerFrame]) -> list[str]:
    return [frame.reason for frame in sent if isinstance(frame, frames.Decline)]


def opened(sent: list[frames.WorkerFrame]) -> list[str]:
    return [frame.queue for frame in sent if isinstance(frame, frames.OpenStream)]


def test_call_on_an_idle_stream_starts() -> None:
    """[WIRE-2]"""
    script = SessionScript().connected()
    orders = script.receive(script.assign())
    assert len(orders.start) == 1
    assert script.slots.busy == 1


def test_replacement_of_the_last_idle_stream_goes_out_with_the_same_batch() -> None:
    """[CAP-1]: stream counts ramp by one per exchange."""
    script = SessionScript().connected()
    assert opened(script.receive(script.assign()).send) == [FLOW_QUEUE]


def test_no_stream_is_opened_while_all_slots_are_busy() -> None:
    """[CAP-2]: the worker keeps its idle streams; the freed stream is the next idle one."""
    script = SessionScript(limit=1).connected()
    orders = script.receive(script.assign())
    assert opened(orders.send) == []
    assert opened(script.finish(orders.start[0])) == []


def test_queue_that_ran_dry_at_capacity_gets_a_stream_when_a_slot_frees() -> None:
    """[CAP-1]"""
    script = SessionScript(limit=2).connected()
    first = script.run()
    second = script.receive(script.assign("Greet", stream=script.stream_of(WORKER_QUEUE)))
    assert opened(second.send) == []
    assert opened(script.finish(first)) == [WORKER_QUEUE]


def test_extra_call_at_capacity_is_declined() -> None:
    """[CAP-2]"""
    script = SessionScript(limit=1).connected()
    script.run()
    orders = script.receive(script.assign(stream=script.stream_of(WORKER_QUEUE)))
    assert declines(orders.send) == [frames.DECLINE_NO_CAPACITY]
    assert orders.start == []
    assert script.slots.reserve_declines == 0, "a full-capacity decline is not one for the reserve [RES-6]"


@pytest.mark.parametrize(
    ("name", "flow_type", "reason"),
    [
        ("Greet", "Unheard", frames.DECLINE_UNKNOWN_FLOW),
        ("Shout", FLOW_QUEUE, frames.DECLINE_UNKNOWN_STEP),
    ],
)
def test_unknown_names_are_declined_before_any_handler_runs(name: str, flow_type: str, reason: str) -> None:
    """[ROUTE-5]"""
    script = SessionScript().connected()
    orders = script.receive(script.assign(name, flow_type=flow_type))
    assert declines(orders.send) == [reason]
    assert orders.start == []


def test_unknown_rpc_is_declined() -> None:
    """[ROUTE-5]"""
    script = SessionScript().connected()
    assign = script.assign()
    rpc = frames.Token("run", "sys:rpc-1", frames.METHOD_RPC, 1, 1)
    unknown = frames.Assign(assign.stream, rpc, "f", FLOW_QUEUE, "write", b"", 1, 0, 0, 0)
    assert declines(script.receive(unknown).send) == [frames.DECLINE_UNKNOWN_RPC]


def test_undecodable_call_is_declined_and_its_neighbours_run() -> None:
    """[DELIV-5]"""
    script = SessionScript().connected()
    broken = UndecodableAssign(script.stream_of(WORKER_QUEUE), frames.Token("r", "Greet-1", 1, 1, 1))
    orders = script.receive(broken, script.assign())
    assert declines(orders.send) == [frames.DECLINE_UNDECODABLE]
    assert len(orders.start) == 1


def test_steps_leave_the_reserve_to_rpcs() -> None:
    """[RES-3, RES-6]: limit 8 with reserve 2 runs at most 6 Steps; RPCs may use all 8 slots."""
    script = SessionScript(limit=8, reserved=2).connected()
    for _ in range(6):
        script.run()
    orders = script.receive(script.assign())
    assert declines(orders.send) == [frames.DECLINE_NO_CAPACITY]
    assert script.slots.reserve_declines == 1
    assert len(orders.reserve_declines) == 1
    script.confirm(orders.send)
    script.run("read")
    script.run("read")
    refused = script.receive(script.assign("read", stream=script.stream_of(WORKER_QUEUE)))
    assert declines(refused.send) == [frames.DECLINE_NO_CAPACITY]


def test_queue_that_declined_for_the_reserve_keeps_one_more_stream_for_30_s() -> None:
    """[RES-5]"""
    script = SessionScript(limit=2, reserved=1).connected()
    running = script.run()
    declined = script.receive(script.assign())
    assert opened(declined.send) == [FLOW_QUEUE]
    script.confirm(declined.send)
    script.finish(running)
    closed = [frame for frame in script.tick_after(29_000).send if isinstance(frame, frames.CloseStream)]
    assert len(closed) == 1, "the finished call's stream is surplus, the reserve's is not"
    assert [type(frame) for frame in script.tick_after(2_000).send] == [frames.CloseStream]


def test_fast_calls_are_never_reported_as_accepted_and_slow_ones_once() -> None:
    """[DELIV-3]"""
    script = SessionScript().connected()
    fast, slow = script.run(), script.run()
    script.finish(fast)
    sent = script.tick_after(1_000).send
    assert [frame for frame in sent if isinstance(frame, frames.Accepted)] == [
        frames.Accepted(slow.stream, slow.assign.token)
    ]
    assert not [frame for frame in script.tick_after(1_000).send if isinstance(frame, frames.Accepted)]


def test_call_that_waits_for_the_users_loop_is_not_reported_as_accepted() -> None:
    """[DELIV-3]: it is not started, so the server may offer it elsewhere."""
    script = SessionScript().connected()
    delivery = script.run()
    delivery.started_at = None
    assert script.tick_after(4_000).send == []


def test_ping_is_echoed_at_once() -> None:
    """[WIRE-7]"""
    assert SessionScript().connected().receive(frames.Ping(42)).send == [frames.Pong(42)]


def test_unasked_pong_every_20_s_while_a_call_runs() -> None:
    """[WIRE-7]"""
    script = SessionScript().connected()
    script.tick_after(60_000)
    delivery = script.run()
    delivery.is_accepted = True
    assert frames.Pong(0) not in script.tick_after(19_999).send
    assert frames.Pong(0) in script.tick_after(1).send
    assert frames.Pong(0) not in script.tick_after(19_999).send
    script.finish(delivery)
    assert frames.Pong(0) not in script.tick_after(60_000).send


def test_surplus_streams_are_closed_after_a_second_and_the_last_one_never() -> None:
    """[CAP-3, CAP-4]"""
    script = SessionScript(limit=8).connected()
    deliveries = [script.run() for _ in range(5)]
    for delivery in deliveries:
        script.finish(delivery)
    assert script.tick_after(999).send == []
    closed = [frame for frame in script.tick_after(1).send if isinstance(frame, frames.CloseStream)]
    assert len(closed) == 5
    script.receive(*(frames.StreamClosed(frame.stream) for frame in closed))
    assert script.tick_after(60_000).send == []
    assert script.readiness.is_ready
    assert all(queue.has_registered_stream for queue in script.readiness.state.queues)


def test_streams_in_use_within_the_second_are_not_surplus() -> None:
    """[CAP-3]: no churn under load."""
    script = SessionScript(limit=8).connected()
    first, second = script.run(), script.run()
    for _ in range(10):
        for delivery in (first, second):
            script.finish(delivery)
        assert [frame for frame in script.tick_after(500).send if isinstance(frame, frames.CloseStream)] == []
        orders = script.receive(script.assign(stream=first.stream), script.assign(stream=second.stream))
        first, second = orders.start


def test_call_that_crossed_the_closing_of_its_stream_is_declined() -> None:
    """[CAP-3]"""
    script = SessionScript(limit=8).connected()
    script.finish(script.run())
    (close,) = [frame for frame in script.tick_after(1_000).send if isinstance(frame, frames.CloseStream)]
    orders = script.receive(script.assign(stream=close.stream))
    assert declines(orders.send) == [frames.DECLINE_NO_CAPACITY]


def test_draining_worker_declines_and_says_goodbye_once() -> None:
    """[DRAIN-1, DRAIN-2]"""
    script = SessionScript().connected()
    running = script.run()
    goodbye, asked = script.session.drain(script.now)
    assert goodbye == frames.Goodbye()
    assert isinstance(asked, frames.CloseStream)
    assert script.session.drain(script.now) == []
    orders = script.receive(script.assign())
    assert declines(orders.send) == [frames.DECLINE_DRAINING]
    assert script.finish(running) == [output_of(running)], "running calls still answer, no stream is opened"
    assert not script.session.is_quiet
    script.acknowledge(running)
    assert script.session.is_quiet


@pytest.mark.parametrize(("idle_streams", "round_trips"), [(1, 2), (2, 1)])
def test_queue_with_two_idle_streams_takes_two_calls_without_a_round_trip(idle_streams: int, round_trips: int) -> None:
    """[CAP-1, CAP-5]: with one, the second call of a backlog waits for another stream to be registered."""
    script = SessionScript(idle_streams=idle_streams).connected()
    free = [stream for stream, queue in script.open_streams.items() if queue == FLOW_QUEUE]
    needed, left = 0, 2
    while left:
        needed += 1
        orders = script.receive(*(script.assign(stream=stream) for stream in free[:left]))
        left -= len(orders.start)
        known = set(script.open_streams)
        script.confirm(orders.send)
        free = [stream for stream, queue in script.open_streams.items() if queue == FLOW_QUEUE and stream not in known]
    assert needed == round_trips


def test_worker_that_is_done_stays_until_nothing_can_be_on_the_wire_to_it() -> None:
    """[DRAIN-2]: a call that was assigned before the Goodbye arrived is declined, not lost with the session."""
    script = SessionScript().connected()
    _, asked = script.session.drain(script.now)
    assert isinstance(asked, frames.CloseStream)
    assert script.session.is_quiet
    assert not script.session.is_dismissed(script.now)
    orders = script.receive(script.assign())
    assert declines(orders.send) == [frames.DECLINE_DRAINING]
    script.receive(frames.StreamClosed(asked.stream))
    assert script.session.is_dismissed(script.now)


def test_worker_does_not_wait_for_ever_for_the_answer_to_its_goodbye() -> None:
    """[DRAIN-1]"""
    script = SessionScript().connected()
    script.session.drain(script.now)
    assert not script.session.is_dismissed(script.now + 4_999)
    assert script.session.is_dismissed(script.now + 5_000)


def test_worker_without_a_session_has_no_goodbye_to_wait_for() -> None:
    """[DRAIN-1]"""
    script = SessionScript().connected()
    script.session.drain(script.now)
    script.session.disconnect()
    assert script.session.is_dismissed(script.now)


def test_draining_worker_delivers_its_results_on_a_new_session() -> None:
    """[DRAIN-3, WIRE-10]: Hello, Goodbye before anything that frees a stream, the results, and no stream."""
    script = SessionScript().connected()
    running = script.run()
    script.session.drain(script.now)
    script.session.disconnect()
    script.finish(running)
    sent = script.welcome().send
    assert [type(frame) for frame in sent] == [frames.Goodbye, frames.CloseStream, frames.Output]


def test_server_directed_reconnect_lets_running_calls_finish_first() -> None:
    """[DRAIN-3]"""
    script = SessionScript().connected()
    running = script.run()
    orders = script.receive(frames.Reconnect("shutting down"), script.assign())
    assert declines(orders.send) == [frames.DECLINE_DRAINING]
    is_to_be_left = [script.session.is_to_be_left]
    script.finish(running)
    is_to_be_left.append(script.session.is_to_be_left)
    script.acknowledge(running)
    is_to_be_left.append(script.session.is_to_be_left)
    assert is_to_be_left == [False, False, True], "its result is to be acknowledged first"
    script.session.disconnect()
    assert len(opened(script.welcome().send)) == 2, "the next session takes calls again"


def test_canceled_handler_is_told_and_its_result_is_still_sent() -> None:
    """[DEC-11, LOST-3]"""
    script = SessionScript().connected()
    running = script.run()
    orders = script.receive(frames.Cancel(running.stream, running.assign.token, frames.CANCEL_STALE))
    assert orders.cancel == [running]
    assert script.finish(running)[0] == output_of(running)


def test_handler_that_ignores_its_cancellation_loses_its_slot_after_the_grace() -> None:
    """[STOP-4, LOST-3]: the late result is still sent, and moves nothing."""
    script = SessionScript().connected()
    running = script.run()
    token = running.assign.token
    script.receive(frames.Cancel(running.stream, token, frames.CANCEL_FLOW_CLOSED, grace_ms=30_000))
    assert script.tick_after(29_999).abandoned == []
    orders = script.tick_after(1)
    assert orders.abandoned == [running]
    failed = [frame for frame in orders.send if isinstance(frame, frames.Failed)]
    assert [(frame.stream, frame.token) for frame in failed] == [(running.stream, token)]
    assert script.slots.busy == 0
    successor = script.receive(script.assign(stream=running.stream)).start
    assert len(successor) == 1
    assert script.finish(running) == [output_of(running)]
    assert script.slots.busy == 1


def test_call_canceled_before_its_handler_started_frees_its_stream() -> None:
    """[DELIV-3]"""
    script = SessionScript().connected()
    delivery = script.run()
    script.receive(frames.Cancel(delivery.stream, delivery.assign.token, frames.CANCEL_STALE))
    (failed,) = script.session.skip(delivery, script.now)
    assert isinstance(failed, frames.Failed)
    assert script.slots.busy == 0


def test_call_that_the_drain_canceled_before_it_started_is_offered_elsewhere() -> None:
    """[DRAIN-1, DRAIN-2]"""
    script = SessionScript().connected()
    delivery = script.run()
    script.session.drain(script.now)
    assert script.session.cancel_running() == (delivery,)
    assert declines(script.session.skip(delivery, script.now)) == [frames.DECLINE_DRAINING]
    assert script.session.is_quiet


def test_frames_for_streams_that_nobody_knows_change_nothing() -> None:
    """[WIRE-5]"""
    script = SessionScript().connected()
    token = frames.Token("r", "c", 1, 1, 1)
    orders = script.receive(
        frames.StreamOpened(999),
        frames.StreamClosed(999),
        frames.StreamRejected(999, "INTERNAL", "X", "", permanent=True),
        frames.Cancel(999, token, frames.CANCEL_STALE),
        frames.Ack(999, token, accepted=True),
    )
    assert (orders.send, orders.start, orders.cancel) == ([], [], [])
    assert script.readiness.is_ready


def test_stream_taken_by_the_server_is_replaced() -> None:
    """[CAP-3]: each queue keeps its idle streams."""
    script = SessionScript().connected()
    assert opened(script.receive(frames.StreamClosed(script.stream_of(FLOW_QUEUE))).send) == [FLOW_QUEUE]
