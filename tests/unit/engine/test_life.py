"""Start, sessions, RPC callers, capacity and stop of the engine."""

import asyncio
from collections.abc import Callable

from dexd.codec.flow_queries import FlowWaitQuery, RunKey, StepWaitQuery, WatchQuery
from dexd.core import commands as c
from dexd.core.effects import AskReconnect
from dexd.core.ids import CallerId, FlowId, RequestId, StepExecutionId
from dexd.core.outcome import StartFlowAccepted
from dexd.core.rejections import Code
from dexd.core.values import Condition, ConditionKind, DecisionKind, Method, StepPlan, Wait, WaitKind
from tests.unit.engine.rig import Answers, Rig, start_command, stop_command


def to_rpc(flow_id: str = "f") -> Callable[[CallerId], c.InvokeRpc]:
    return lambda caller: c.InvokeRpc(
        caller, FlowId(flow_id), None, "get", b"1", RequestId("q"), b"digest", 10_000, 2_000_000
    )


async def test_nothing_is_accepted_before_start() -> None:
    """[WIRE-11] Commands are taken once the server listens."""
    rig = Rig(is_serving=False)
    assert (await rig.start()).code is Code.SHUTTING_DOWN
    rig.engine.start()
    assert isinstance(await rig.start(), StartFlowAccepted)


async def test_callers_who_give_up_a_health_check_harm_nobody() -> None:
    """[OBS-4] the first leaves before the mailbox is reached, the second while the write is under way."""
    rig = Rig()
    await rig.engine.settled()
    rig.writer.is_automatic = False
    for turns in (1, 3):
        check = asyncio.create_task(rig.engine.check_commit())
        for _ in range(turns):
            await asyncio.sleep(0)
        check.cancel()
        await asyncio.wait((check,))
        assert check.cancelled()
    rig.writer.commit()
    rig.writer.is_automatic = True
    assert isinstance(await rig.start(), StartFlowAccepted)
    assert rig.engine.health.condition == "SERVING"


async def test_restart_goes_on_where_the_log_ends() -> None:
    """[ARCH-2, TIMER-3] Open runs are folded into memory, their timers armed, their calls offered again."""
    first = Rig()
    worker = await first.worker()
    await first.start("timer", start_step=StepPlan("Begin", b"", True))
    await first.start("call")
    wait = Wait(WaitKind.ALL_OF, (Condition(ConditionKind.TIMER, duration_ms=5_000),))
    worker.wait(worker.calls[0], wait)
    await first.decided()

    second = Rig(first.log)
    assert second.engine.health.open_runs == 2
    # It is back without presenting the call that it ran, which is therefore lost and offered again [WIRE-11].
    restarted = await second.worker()
    await second.advance(4_999)
    assert [call.call.flow_id for call in restarted.calls] == ["call"]
    await second.advance(1)
    assert [call.call.flow_id for call in restarted.calls] == ["call", "timer"]


async def test_timer_wakes_an_idle_engine() -> None:
    """[TIMER-4, TIMER-7] Without any command; long sleeps are capped and repeated."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start(start_step=StepPlan("Begin", b"", True))
    wait = Wait(WaitKind.ALL_OF, (Condition(ConditionKind.TIMER, duration_ms=15_000),))
    worker.wait(worker.calls[0], wait)
    await rig.decided()
    await rig.advance(14_999)
    assert len(worker.calls) == 1
    await rig.advance(1)
    assert [call.call.token.method for call in worker.calls] == [Method.WAIT_FOR, Method.EXECUTE]


async def test_rpc_is_answered_with_its_output() -> None:
    """[RPC-1] The answer comes through the worker."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    answers = Answers()
    rig.engine.invoke(to_rpc(), answers)
    await rig.decided()
    worker.complete(worker.calls[1], output=b"[7]")
    await rig.decided()
    assert answers.only == b"[7]"


async def test_rpc_of_an_unknown_flow_is_refused() -> None:
    """[ERR-A] FLOW_NOT_FOUND."""
    rig = Rig()
    answers = Answers()
    rig.engine.invoke(to_rpc("unknown"), answers)
    await rig.decided()
    assert answers.only.code is Code.FLOW_NOT_FOUND


async def test_abandoned_rpc_is_not_answered() -> None:
    """[WAITAPI-6] The caller is gone; the handler that runs already may finish."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    answers = Answers()
    abandon = rig.engine.invoke(to_rpc(), answers)
    await rig.decided()
    abandon()
    abandon()
    worker.complete(worker.calls[1], output=b"[7]")
    await rig.decided()
    assert answers.all == []
    assert rig.fatal == []


async def test_lost_session_is_told_to_the_kernel_once() -> None:
    """[WIRE-11] Its calls are offered elsewhere when the wait for its return is over."""
    rig = Rig()
    worker = await rig.worker("gone")
    await rig.start()
    assert len(worker.calls) == 1
    rig.engine.close_session(worker.session, "reset")
    rig.engine.close_session(worker.session, "reset")
    await rig.decided()
    assert rig.engine.health.connected_workers == 0
    other = await rig.worker("other")
    await rig.advance(5_000)
    assert [call.call.token.delivery for call in other.calls] == [2]
    assert len(worker.calls) == 1


async def test_full_mailbox_refuses_requests_and_holds_sessions_back() -> None:
    """[ARCH-8] RESOURCE_EXHAUSTED with a retry hint for clients; workers wait for room and lose nothing."""
    rig = Rig(mailbox_max=3)
    await rig.decided()
    answers = [Answers() for _ in range(4)]
    for number in range(4):
        rig.engine.request(start_command(f"f{number}"), answers[number])
    assert answers[3].only.code is Code.MAILBOX_FULL
    assert answers[3].only.retry_after_ms == 1_000
    await rig.engine.room()
    await rig.engine.settled()
    assert [type(got.only) for got in answers[:3]] == [StartFlowAccepted] * 3


async def test_stop_refuses_answers_and_commits() -> None:
    """[DRAIN-4] Sends Reconnect, answers every waiting call, commits what was decided; timers do not hold it up."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    flow, step, rpc, late = Answers(), Answers(), Answers(), Answers()
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FlowId("f"), 60_000, None), flow)
    rig.engine.reads.wait_for_step(StepWaitQuery(FlowId("f"), StepExecutionId("Begin-1"), 60_000), step)
    rig.engine.invoke(to_rpc(), rpc)
    await rig.decided()
    decided = Answers()
    rig.engine.request(start_command("g"), decided)
    await rig.engine.stop("SIGTERM")
    assert isinstance(decided.only, StartFlowAccepted)
    for answers in (flow, step, rpc):
        assert answers.only.code is Code.SHUTTING_DOWN
    assert any(isinstance(effect, AskReconnect) for effect in worker.effects)
    assert worker.end is not None
    assert worker.end.rejection.code is Code.SHUTTING_DOWN
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FlowId("f"), 60_000, None), late)
    rig.engine.reads.wait_for_step(StepWaitQuery(FlowId("f"), StepExecutionId("Begin-1"), 60_000), late)
    assert [answer.code for answer in late.all] == [Code.SHUTTING_DOWN] * 2
    assert (await rig.start("h")).code is Code.SHUTTING_DOWN
    assert rig.alarms.waiting == []
    rig.engine.close()


async def test_result_that_arrives_while_stopping_is_committed() -> None:
    """[DRAIN-3] What a worker still delivers is not thrown away."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    worker.decide(worker.calls[0], DecisionKind.FORCE_COMPLETE, b"1")
    await rig.engine.stop("SIGTERM")
    assert [event.type for event in rig.log.read_all(1, 99)][-1] == "FlowClosed"


async def test_watch_ends_with_a_refusal_when_the_server_stops() -> None:
    """[DRAIN-4] Nobody waits in vain."""
    rig = Rig()
    await rig.start()
    entries = rig.engine.reads.watch_history(WatchQuery(RunKey(FlowId("f"), None), 1))
    kinds = [(await anext(entries)).kind for _ in range(2)]  # type: ignore[union-attr] # no refusal yet
    assert kinds == ["FlowStarted", "StepScheduled"]
    last = anext(entries)
    await rig.engine.stop("SIGTERM")
    refusal = await last
    assert refusal.code is Code.SHUTTING_DOWN  # type: ignore[union-attr] # the refusal is the last item


async def test_stop_of_a_closed_flow_is_looked_up_in_the_log() -> None:
    """[STOP-2] A closed run that memory has forgotten is restored, asked, and forgotten again."""
    first = Rig()
    await first.start()
    await first.answer(stop_command("f"))
    second = Rig(first.log)
    again = await second.answer(stop_command("f"))
    assert again.applied
    repeated = await second.start()
    assert repeated == StartFlowAccepted(start_command().run_id)
