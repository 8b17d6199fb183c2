"""Why a Step execution that wants a worker has none: its locks come first, then the workers [HIST-6, ROUTE-3..5]."""

from dexd.core.explain.blockers import Blocker, BlockerKind, instant_text
from dexd.core.explain.waits import channel_name
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.matching.calls import NOT_ACCEPTED, Call, CallStage
from dexd.core.matching.dispatcher import Dispatcher
from dexd.core.matching.sessions import Worker


def queue_blocker(
    run: RunState, step: StepExecution, call: Call | None, dispatcher: Dispatcher, *, since: int
) -> Blocker:
    """The one reason why no worker has the Step's call."""
    if call is not None and call.stage is CallStage.BLOCKED:
        return _lock_blocker(step, call, dispatcher, since=since)
    return worker_blocker(run, step, call, dispatcher, since=since)


def _lock_blocker(step: StepExecution, call: Call, dispatcher: Dispatcher, *, since: int) -> Blocker:
    locks = dispatcher.locks
    held = locks.holder(call.key[0], call.asks)
    if held is not None:
        key, holder = held
        text = f"lock on Attribute {channel_name(key)} held by {holder}"
    else:
        # Free itself, but an older request that shares a lock with this one waits for another [LOCK-3].
        text = f"locks asked for earlier by {locks.asked_before(call)}"
    return Blocker(step.step_execution_id, BlockerKind.LOCK, text, since)


def worker_blocker(
    run: RunState, step: StepExecution, call: Call | None, dispatcher: Dispatcher, *, since: int
) -> Blocker:
    """NO_WORKER when nobody who is connected could run the Step, WORKERS_BUSY when somebody could."""
    workers = dispatcher.matcher.workers.values()
    named = [worker for worker in workers if run.flow_type in worker.capabilities]
    serving = [worker for worker in named if worker.has_streams()]
    capable = [
        worker
        for worker in serving
        if worker.can_run(run.flow_type, step.step_type, is_rpc=False) and not _is_out(worker, call)
    ]
    if not capable:
        text = _nobody(run, step, len(serving), len(named) - len(serving))
        return Blocker(step.step_execution_id, BlockerKind.NO_WORKER, text, since)
    if call is not None and call.stage is CallStage.STICKY:
        text = (
            f"Worker {run.last_worker!r}, which served the Flow last, is at capacity; "
            f"any other may run the Step from {instant_text(call.sticky_until)} on"
        )
        return Blocker(step.step_execution_id, BlockerKind.WORKERS_BUSY, text, since, call.sticky_until)
    busy = sum(worker.busy for worker in capable)
    room = sum(worker.max_concurrent_tasks for worker in capable)
    text = f"all Workers at capacity: {len(capable)} know the Step and run {busy} of {room} tasks"
    return Blocker(step.step_execution_id, BlockerKind.WORKERS_BUSY, text, since)


def has_worker(run: RunState, step: StepExecution, dispatcher: Dispatcher) -> bool:
    """Whether a connected worker could run the Step."""
    return any(
        worker.has_streams() and worker.can_run(run.flow_type, step.step_type, is_rpc=False)
        for worker in dispatcher.matcher.workers.values()
    )


def _is_out(worker: Worker, call: Call | None) -> bool:
    """Whether it said that it does not know the Step, whatever it had announced [ROUTE-5]."""
    return call is not None and call.excluded.get(worker.worker_id, NOT_ACCEPTED) != NOT_ACCEPTED


def _nobody(run: RunState, step: StepExecution, serving: int, idle: int) -> str:
    if serving:
        return f"no Worker knows Step {step.step_type!r} of Flow type {run.flow_type!r} ({serving} serve the type)"
    leaving = f" ({idle} take no more calls)" if idle else ""
    return f"no Worker for Flow type {run.flow_type!r} is connected{leaving}; Step {step.step_type!r} needs one"
