"""What a frozen log shows of the means to steer a Flow that runs, and of Flows that try again."""

from dexd.core import commands as c
from dexd.core.ids import FlowId, MessageId, RequestId, StepExecutionId
from dexd.core.outcome import PublishAccepted
from dexd.core.terms import ActiveStepSearchMode, FlowConfig, FlowRetry, FlowTerms, FlowTimeoutPolicy
from dexd.core.values import (
    Decision,
    DecisionKind,
    RetryPolicy,
    StepDurability,
    StepOptions,
    StepPlan,
    TimerId,
    Wait,
    WaitKind,
)
from tests.histories.act import BEGIN, BEGIN_WAITING, HOUR, NEXT, Act, channel, timer
from tests.unit.engine.rig import Answers

BEATING = StepOptions(heartbeat_timeout_ms=3_000, execute_retry=RetryPolicy(initial_interval_ms=500))


async def heartbeats(act: Act) -> None:
    """An attempt that shows life and then no more, and one that goes on where it stood."""
    worker = await act.worker()
    await act.start("beating", StepPlan("Begin", b"1", False, BEATING))
    for value in (b"", b"10", b"20"):
        call = worker.calls[0]
        worker.say(c.Heartbeat(worker.session, call.stream, call.call.token, value))
        await act.rig.advance(1_500)
    await act.rig.advance(4_000)
    call = worker.calls[1]
    worker.say(c.Heartbeat(worker.session, call.stream, call.call.token, b"30"))
    await act.rig.decided()
    await act.decide(worker, call, DecisionKind.FORCE_COMPLETE)


async def skipped_timers(act: Act) -> None:
    """One Timer is skipped before it is installed, one by name while it waits."""
    worker = await act.worker()
    await act.start("skipping", BEGIN_WAITING)
    step_id = StepExecutionId("Begin-1")
    for number, timer_id in enumerate((TimerId(index=1), TimerId("long"), TimerId("long"))):
        if number == 1:
            wait = Wait(WaitKind.ALL_OF, (timer(HOUR, "long"), timer(2 * HOUR)))
            await act.complete(worker, worker.calls[0], wait=wait)
        request = RequestId(f"skip-{number}")
        await act.rig.answer(c.SkipTimer(FlowId("skipping"), None, step_id, timer_id, request, b"digest"))
        await act.rig.decided()
    await act.decide(worker, worker.calls[1], DecisionKind.GRACEFUL_COMPLETE)


async def deleted_messages(act: Act) -> None:
    """A client, an execute and a transactional RPC take messages out of a Channel."""
    worker = await act.worker()
    await act.start("deleting", None)
    values = (b'"a"', b'"b"', b'"c"')
    publish = c.PublishMessages(FlowId("deleting"), None, "inbox", values, RequestId("p"), b"digest")
    published = await act.rig.answer(publish)
    assert isinstance(published, PublishAccepted)
    first, second, _ = published.message_ids
    delete = c.DeleteMessage(FlowId("deleting"), None, "inbox", MessageId(first), RequestId("delete"), b"digest")
    await act.rig.answer(delete)
    expires_at = act.rig.clock.at + 10_000
    act.rig.engine.invoke(
        lambda caller: c.InvokeRpc(
            caller,
            FlowId("deleting"),
            None,
            "get",
            b"1",
            RequestId("take"),
            b"rpc",
            10_000,
            expires_at,
            ("door",),
            is_transactional=True,
        ),
        Answers(),
    )
    await act.rig.decided()
    await act.complete(worker, worker.calls[0], output=b"1", deletions=(("inbox", second),), next_steps=(NEXT,))
    finish = Decision(DecisionKind.FORCE_COMPLETE_IF_CHANNELS_EMPTY, (NEXT,), b'"done"', channels=("inbox",))
    await act.complete(worker, worker.calls[1], decision=finish)
    await act.decide(worker, worker.calls[2], DecisionKind.DEAD_END)


async def settings(act: Act) -> None:
    """A Flow begins with settings and a timeout, is given others, and its time is over."""
    worker = await act.worker()
    config = FlowConfig(step_durability=StepDurability.ASYNC, record_rpc_io=True)
    terms = FlowTerms(timeout_ms=9_000, timeout_policy=FlowTimeoutPolicy.CANCEL, start_delay_ms=500, config=config)
    await act.start("configured", BEGIN_WAITING, terms=terms)
    await act.rig.advance(500)
    await act.complete(worker, worker.calls[0], wait=Wait(WaitKind.ANY_OF, (timer(HOUR), channel("go"))))
    changed = FlowConfig(ActiveStepSearchMode.ALL, 5_000)
    await act.rig.answer(c.UpdateFlowConfig(FlowId("configured"), None, changed, RequestId("config"), b"digest"))
    act.rig.engine.invoke(
        lambda caller: c.InvokeRpc(
            caller, FlowId("configured"), None, "get", b"[1]", RequestId("rpc"), b"rpc", 5_000, act.rig.clock.at + 5_000
        ),
        Answers(),
    )
    await act.rig.decided()
    await act.complete(worker, worker.calls[1], output=b"[2]", writes=(("seen", b"1"),))
    await act.rig.advance(10_000)


async def flow_retries(act: Act) -> None:
    """A Flow fails, begins again with what came from outside, and completes."""
    worker = await act.worker()
    retry = FlowRetry(RetryPolicy(initial_interval_ms=700, maximum_attempts=3), BEGIN, (("limit", b"3"),))
    await act.start("trying", BEGIN, terms=FlowTerms(retry=retry), attributes=retry.attributes)
    await act.publish("trying", "news", b'"kept"')
    await act.complete(worker, worker.calls[0], decision=Decision(DecisionKind.FORCE_FAIL, reason="not today"))
    await act.rig.advance(700)
    await act.decide(worker, worker.calls[1], DecisionKind.GRACEFUL_COMPLETE)
