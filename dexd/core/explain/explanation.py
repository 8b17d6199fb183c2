"""Explains one Flow: for each active Step why it does not get on [HIST-6]."""

from dexd.core.explain.blockers import Blocker, BlockerKind, Explanation, instant_text, method_name, quoted
from dexd.core.explain.queueing import has_worker, queue_blocker, worker_blocker
from dexd.core.explain.waits import wait_blockers
from dexd.core.flow.decide_failure import NO_WORKER_AVAILABLE
from dexd.core.flow.state import RunState, StepExecution, StepPhase
from dexd.core.ids import StepExecutionId
from dexd.core.matching.calls import Call, CallStage
from dexd.core.matching.dispatcher import Dispatcher

BLOCKERS_MAX = 1_000
"""Once there are so many no further Step execution is explained; each is explained as a whole."""


def explain(run: RunState, dispatcher: Dispatcher, *, now: int) -> Explanation:
    """[HIST-6] Say what every active Step execution waits for; a Flow without Steps says so.

    A look at what is decided now; it changes nothing and costs one walk over the Steps and the connected workers.
    """
    if not run.steps:
        return Explanation((_no_steps(run),))
    blockers: list[Blocker] = []
    for number, step in enumerate(run.steps.values()):
        if len(blockers) >= BLOCKERS_MAX:
            return Explanation(tuple(blockers), len(run.steps) - number)
        blockers += step_blockers(run, step, dispatcher, now=now)
    return Explanation(tuple(blockers))


def step_blockers(run: RunState, step: StepExecution, dispatcher: Dispatcher, *, now: int) -> list[Blocker]:
    """The reasons of one Step execution, at least one."""
    call = dispatcher.calls.get((run.chain_id, step.step_execution_id))
    if step.phase is StepPhase.WAITING:
        assert step.wait is not None
        return wait_blockers(run, step, step.wait)
    if step.phase is StepPhase.RUNNING:
        return [_running(step, call, dispatcher)]
    if step.phase is StepPhase.READY:
        return [queue_blocker(run, step, call, dispatcher, since=step.phase_since or step.scheduled_at)]
    if step.retry_at <= now:
        return [queue_blocker(run, step, call, dispatcher, since=step.retry_at)]
    if step.failure is None:
        return [_begins_later(run, step)]
    retry = _retry(step)
    if step.failure.error_type == NO_WORKER_AVAILABLE and not has_worker(run, step, dispatcher):
        return [worker_blocker(run, step, None, dispatcher, since=step.phase_since or step.scheduled_at), retry]
    return [retry]


def _no_steps(run: RunState) -> Blocker:
    nobody = StepExecutionId("")
    if not run.is_open:
        text = f"no active Step: the Flow is {run.status.name} since {instant_text(run.closed_at)}"
        return Blocker(nobody, BlockerKind.NO_STEPS, text, run.closed_at)
    until = f", until its timeout at {instant_text(run.timeout_at)}" if run.timeout_at else ""
    text = f"no active Step: the Flow goes on when an RPC schedules one, and ends when it is stopped{until}"
    return Blocker(nobody, BlockerKind.NO_STEPS, text, 0, run.timeout_at)


def _running(step: StepExecution, call: Call | None, dispatcher: Dispatcher) -> Blocker:
    tries = f"(attempt {step.attempt}, delivery {step.delivery})"
    until = step.deadline
    if call is not None and call.stage is CallStage.DETACHED:
        until = dispatcher.deadlines.armed_at(call.key) or until
        text = (
            f"{method_name(step)} was running on Worker {step.worker_id!r}, whose session is lost; "
            f"handed out again at {instant_text(until)} unless it comes back {tries}"
        )
    else:
        text = f"{method_name(step)} running on Worker {step.worker_id!r} until {instant_text(until)} at most {tries}"
    return Blocker(step.step_execution_id, BlockerKind.RUNNING, text, step.dispatched_at, until)


def _begins_later(run: RunState, step: StepExecution) -> Blocker:
    until = instant_text(step.retry_at)
    if run.flow_attempt > 1:
        text = f"attempt {run.flow_attempt} of the Flow begins at {until}, after the run before it failed"
        return Blocker(step.step_execution_id, BlockerKind.RETRY, text, step.scheduled_at, step.retry_at)
    text = f"start delay until {until}"
    return Blocker(step.step_execution_id, BlockerKind.START_DELAY, text, step.scheduled_at, step.retry_at)


def _retry(step: StepExecution) -> Blocker:
    failure = step.failure
    assert failure is not None
    error = f"{failure.error_type}: {quoted(failure.detail)}" if failure.detail else failure.error_type
    text = f"retry at {instant_text(step.retry_at)} (attempt {step.attempt} of {method_name(step)}) after {error}"
    return Blocker(step.step_execution_id, BlockerKind.RETRY, text, step.failed_at, step.retry_at)
