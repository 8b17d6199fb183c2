"""The Flows that a frozen log shows: every kind of event, and runs that are still open in every way a run can be.

All times and ids are given, so that a recording can be repeated. Each act uses Flow IDs of its own and ends with its
workers gone.
"""

from collections.abc import Awaitable, Callable

from dexd.codec.time_travel_requests import TimeTravelQuery
from dexd.core import commands as c
from dexd.core.forks.selectors import Selector, TimeTravelType
from dexd.core.ids import CallerId, FlowId, RequestId, RunId
from dexd.core.values import (
    Decision,
    DecisionKind,
    Failure,
    IdReusePolicy,
    RecoveryStep,
    Response,
    RetryPolicy,
    StepOptions,
    StepPlan,
    StopType,
    Wait,
    WaitForFailurePolicy,
    WaitKind,
)
from tests.histories.act import BEGIN, BEGIN_WAITING, HOUR, NEXT, NEXT_WAITING, ONCE, Act, channel, timer
from tests.histories.contents import index_values, large_values
from tests.histories.controls import deleted_messages, flow_retries, heartbeats, settings, skipped_timers
from tests.histories.relatives import parents_and_children, parents_that_wait
from tests.histories.streams import jobs, open_streams, schedules
from tests.unit.engine.rig import Answers, start_command


async def order_with_approval(act: Act) -> None:
    """Initial Attributes, a Wait over Timer and Channel, writes, publications, branches, completion."""
    worker = await act.worker()
    attributes = (("customer", b'"c-1"'), ("total", b"12"))
    await act.start("approval", BEGIN_WAITING, attributes=attributes)
    wait = Wait(WaitKind.ANY_OF, (timer(HOUR, "expired"), channel("approvals", 2, 3)))
    await act.complete(
        worker,
        worker.calls[0],
        wait=wait,
        locals=(("seen", b"0"),),
        publications=(("audit", b'"waiting"'),),
        recorded=(("asked", b'"boss"'),),
    )
    await act.publish("approval", "approvals", b'"yes"', request="p-1")
    await act.rig.advance(250)
    await act.publish("approval", "approvals", b'"yes"', b'"no"', b'"late"', request="p-2")
    decision = Decision(DecisionKind.GO_TO, (NEXT, StepPlan("Next", b"[2]", False, StepOptions(execute_timeout_ms=9))))
    await act.complete(
        worker, worker.calls[1], decision=decision, writes=(("total", None), ("paid", b"true")), recorded=(("k", b"1"),)
    )
    await act.decide(worker, worker.calls[2], DecisionKind.DEAD_END)
    await act.decide(worker, worker.calls[3], DecisionKind.GRACEFUL_COMPLETE)


async def timers(act: Act) -> None:
    """A Timer that fires, and a combination of conditions of which one group wins."""
    worker = await act.worker()
    await act.start("timer", BEGIN_WAITING)
    await act.complete(worker, worker.calls[0], wait=Wait(WaitKind.ALL_OF, (timer(1_000), timer(5_000))))
    await act.rig.advance(5_000)
    await act.decide(worker, worker.calls[1], DecisionKind.FORCE_COMPLETE)
    await act.start("combination", BEGIN_WAITING)
    conditions = (timer(HOUR, "expired"), channel("a"), channel("b", 1, None))
    await act.complete(worker, worker.calls[2], wait=Wait(WaitKind.ANY_COMBINATION, conditions, ((0, 1), (1, 2))))
    await act.publish("combination", "b", b"1", b"2", request="p-1")
    await act.publish("combination", "a", b"3", request="p-2")
    await act.complete(worker, worker.calls[3], decision=Decision(DecisionKind.FORCE_FAIL, reason="out of stock"))


async def failures(act: Act) -> None:
    """Retries with backoff, a wait_for that is given up, a recovery Step, and a Flow that fails."""
    worker = await act.worker()
    options = StepOptions(
        wait_for_retry=ONCE,
        wait_for_failure=WaitForFailurePolicy.PROCEED,
        execute_retry=RetryPolicy(initial_interval_ms=500, maximum_attempts=2, jitter=0.5),
        recovery=RecoveryStep("Next", False, StepOptions(execute_retry=ONCE)),
    )
    await act.start("recovered", StepPlan("Begin", b"1", True, options))
    await act.fail(worker, worker.calls[0])
    await act.fail(worker, worker.calls[1])
    await act.rig.advance(1_000)
    await act.fail(worker, worker.calls[2], Failure("OSError", "again", retry_after_ms=10))
    await act.decide(worker, worker.calls[3], DecisionKind.FORCE_COMPLETE)
    await act.start("failed", StepPlan("Begin", b"1", False, StepOptions(execute_retry=ONCE)))
    await act.fail(worker, worker.calls[4])
    await act.start("slow", StepPlan("Begin", b"1", False, StepOptions(execute_timeout_ms=2_000, execute_retry=ONCE)))
    await act.rig.advance(2_000)


async def losses(act: Act) -> None:
    """A worker that is lost twice, one that comes too late, and one that declines."""
    first = await act.worker("w-1", 1)
    await act.start("lost", BEGIN)
    token = first.calls[0].call.token
    await act.lose(first)
    second = await act.worker("w-2", 1)
    await act.lose(second)
    third = await act.worker("w-3", 1)
    await act.rig.advance(1_000)
    late = Response(decision=Decision(DecisionKind.DEAD_END))
    third.say(c.CompleteCall(third.session, third.calls[0].stream, token, late))
    await act.rig.decided()
    call = third.calls[0]
    third.say(c.DeclineCall(third.session, call.stream, call.call.token, "NO_CAPACITY"))
    await act.rig.decided()
    fourth = await act.worker("w-4", 1)
    await act.decide(fourth, fourth.calls[0], DecisionKind.GRACEFUL_COMPLETE)


async def writes_from_outside(act: Act) -> None:
    """RPCs with every effect, Attributes, and messages that nobody takes."""
    worker = await act.worker()
    await act.start("outside", None)
    answers = Answers()

    def invoke(caller: CallerId) -> c.InvokeRpc:
        expires_at = act.rig.clock.at + 10_000
        return c.InvokeRpc(caller, FlowId("outside"), None, "get", b"1", RequestId("rpc"), b"rpc", 10_000, expires_at)

    act.rig.engine.invoke(invoke, answers)
    await act.rig.decided()
    await act.complete(
        worker,
        worker.calls[0],
        output=b"[7]",
        writes=(("seen", b"1"),),
        publications=(("news", b'"a"'), ("news", b'"b"')),
        recorded=(("why", b'"asked"'),),
        next_steps=(NEXT_WAITING,),
    )
    for number, value in enumerate((b'"x"', None, b'"y"')):
        write = c.SetAttribute(FlowId("outside"), None, "note", value, RequestId(f"set-{number}"), b"digest")
        await act.rig.answer(write)
    await act.publish("outside", "news", b'"c"')
    await act.complete(worker, worker.calls[1], wait=Wait(WaitKind.ALL_OF, (channel("news", 2, 2),)))
    await act.decide(worker, worker.calls[2], DecisionKind.DEAD_END)


async def stops(act: Act) -> None:
    """Stops of every type, one of them while a handler runs, whose result is refused."""
    worker = await act.worker()
    await act.start("canceled", BEGIN)
    await act.stop("canceled", StopType.CANCEL)
    await act.decide(worker, worker.calls[0], DecisionKind.DEAD_END)
    await act.start("stopped", BEGIN_WAITING)
    await act.complete(worker, worker.calls[1], wait=Wait(WaitKind.ALL_OF, (timer(HOUR), channel("wake"))))
    await act.stop("stopped", StopType.FAIL)
    await act.start("terminated", None)
    await act.stop("terminated", StopType.TERMINATE)


async def executions_of_one_id(act: Act) -> None:
    """An ID that is started again after the end, and again in the middle."""
    for number, policy in enumerate((IdReusePolicy.ALLOW_IF_NOT_RUNNING, IdReusePolicy.ALLOW_TERMINATE_IF_RUNNING) * 2):
        await act.rig.answer(
            start_command(
                "again",
                run_id=RunId(f"run-again-{number}"),
                request_id=RequestId(f"start-again-{number}"),
                id_reuse_policy=policy,
                start_step=None,
            )
        )
        if number == 1:
            await act.stop("again", StopType.CANCEL)


async def roll_over(act: Act) -> None:
    """A Flow that waits is continued by another run, which takes its message."""
    worker = await act.worker()
    await act.start("long", BEGIN_WAITING)
    await act.complete(worker, worker.calls[0], wait=Wait(WaitKind.ANY_OF, (timer(HOUR), channel("go"))))
    await act.rig.answer(c.ContinueAsNew(FlowId("long"), None, RequestId("continue"), b"digest"))
    await act.publish("long", "go", b'"on"')
    await act.decide(worker, worker.calls[1], DecisionKind.GRACEFUL_COMPLETE)


async def time_travels(act: Act) -> None:
    """A Flow that has ended goes on from its beginning, with what came from outside, and then once more."""
    worker = await act.worker()
    await act.start("trip", BEGIN_WAITING)
    await act.complete(worker, worker.calls[0], wait=Wait(WaitKind.ANY_OF, (timer(HOUR), channel("go"))))
    await act.publish("trip", "go", b'"first"')
    await act.decide(worker, worker.calls[1], DecisionKind.FORCE_COMPLETE)
    for number, is_dropping_writes in enumerate((False, True)):
        await act.rig.advance(50)
        query = TimeTravelQuery(
            FlowId("trip"),
            RunId(f"run-trip-{number}"),
            Selector(TimeTravelType.STEP_TYPE, step_type="Begin"),
            "wrong turn",
            is_dropping_writes,
            RequestId(f"travel-{number}"),
            b"digest",
        )
        await act.rig.read(act.rig.engine.time_travels.begin, query)
        await act.rig.decided()
    # Its call would go to a worker of another act.
    await act.stop("trip")


async def still_open(act: Act) -> None:
    """Runs that wait for a Timer, for a Channel, for a child, for a retry, and for a worker."""
    await open_streams(act)
    await parents_that_wait(act)
    worker = await act.worker("w-open", 3)
    await act.start("parked", BEGIN_WAITING)
    await act.complete(worker, worker.calls[0], wait=Wait(WaitKind.ANY_OF, (timer(24 * HOUR), channel("wake"))))
    await act.start("listening", BEGIN_WAITING)
    await act.complete(worker, worker.calls[1], wait=Wait(WaitKind.ALL_OF, (channel("wake", 3, None),)))
    await act.publish("listening", "wake", b"1", b"2")
    slow = StepOptions(execute_retry=RetryPolicy(initial_interval_ms=2 * HOUR, maximum_interval_ms=2 * HOUR))
    await act.start("backing-off", StepPlan("Begin", b"1", False, slow))
    await act.fail(worker, worker.calls[2])
    await act.start("running", BEGIN)
    await act.start("running-wait-for", BEGIN_WAITING)
    await act.start("ready", BEGIN)


ACTS: tuple[Callable[[Act], Awaitable[None]], ...] = (
    order_with_approval,
    timers,
    failures,
    losses,
    writes_from_outside,
    stops,
    executions_of_one_id,
    roll_over,
    time_travels,
    heartbeats,
    skipped_timers,
    deleted_messages,
    settings,
    flow_retries,
    parents_and_children,
    index_values,
    large_values,
    schedules,
    jobs,
    still_open,
)
"""In the order of the recording; the last one leaves handlers running when the server is killed."""
