"""What must hold in a kernel between two commands: nothing is forgotten, nothing is idle while it could work.

Used by unit, property and simulation tests and after recovery in tests; the server itself does not pay for it. All
checks compare derived state with the runs it is derived from, naively and independently of the code that keeps it.
"""

from collections.abc import Iterator

from dexd.core.flow.invariants import run_violations
from dexd.core.flow.state import RunState, StepExecution, StepPhase
from dexd.core.ids import TIMEOUT_HANDLER_ID, StepExecutionId, WorkerId
from dexd.core.kernel import Kernel
from dexd.core.matching.calls import Call, CallKey, CallStage
from dexd.core.matching.deadline_keys import AgeDue, HoldDue, PingDue
from dexd.core.matching.sessions import Session, Stream, Worker
from dexd.core.sub_flow_desk import running_children
from dexd.core.values import FlowStatus, Method


def violations(kernel: Kernel, *, now: int) -> list[str]:
    """Check a serving kernel after a command at `now`; an empty list means sound."""
    found = [fault for run in kernel.runs.values() for fault in run_violations(run)]
    found += _count_faults(kernel)
    found += _chain_faults(kernel)
    newest = [run for run in kernel.runs.values() if not _is_superseded(run)]
    found += [fault for run in newest for fault in _timeout_faults(kernel, run)]
    for run in kernel.runs.values():
        for step in run.steps.values():
            found += [f"{run.run_id} {step.step_execution_id}: {fault}" for fault in _step_faults(kernel, run, step)]
        found += [f"{run.run_id}: {fault}" for fault in _child_faults(kernel, run)]
    for call in kernel.dispatcher.calls.values():
        found += [f"call {call.call_id} of {call.run.run_id}: {fault}" for fault in _call_faults(kernel, call)]
    found += _delivered_faults(kernel)
    found += _held_faults(kernel)
    for worker in kernel.dispatcher.matcher.workers.values():
        found += [f"worker {worker.worker_id!r}: {fault}" for fault in _worker_faults(kernel, worker)]
    found += _idle_while_waiting(kernel, now=now)
    return found


def _count_faults(kernel: Kernel) -> Iterator[str]:
    open_runs = sum(run.is_open for run in kernel.runs.values())
    if kernel.open_run_count != open_runs:
        yield f"open_run_count is {kernel.open_run_count} with {open_runs} open runs"
    streams = sum(len(session.streams) for session in kernel.workforce.sessions.values())
    if kernel.workforce.stream_count != streams:
        yield f"stream_count is {kernel.workforce.stream_count} with {streams} streams"


def _is_superseded(run: RunState) -> bool:
    return run.status is FlowStatus.CONTINUED_AS_NEW


def _chain_faults(kernel: Kernel) -> Iterator[str]:
    """[ROLL-4] Whoever names a chain finds its newest run, and calls are about that run's state."""
    open_chains = [run.chain_id for run in kernel.runs.values() if run.is_open]
    if len(dict.fromkeys(open_chains)) != len(open_chains):
        yield f"a chain has several open runs: {open_chains} [ROLL-2]"
    for run in kernel.runs.values():
        if not _is_superseded(run) and kernel.newest_of_chain(run.chain_id) is not run:
            yield f"{run.run_id} is not the newest run of its chain {run.chain_id}"
    for call in kernel.dispatcher.calls.values():
        if call.run is not kernel.newest_of_chain(call.key[0]):
            yield f"call {call.call_id} is about run {call.run.run_id}, not the newest of its chain {call.key[0]}"
        if call.step is not None and call.run.steps.get(call.step.step_execution_id) is not call.step:
            yield f"call {call.call_id} has not the Step execution of run {call.run.run_id}"


def _timeout_faults(kernel: Kernel, run: RunState) -> Iterator[str]:
    if TIMEOUT_HANDLER_ID in run.steps:
        if run.timeout_at:
            yield f"{run.run_id}: its timeout handler runs before its time is over at {run.timeout_at} [TIME-3]"
        return
    armed = kernel.dispatcher.deadlines.armed_at((run.chain_id, TIMEOUT_HANDLER_ID))
    if armed != (run.timeout_at or None):
        yield f"{run.run_id}: its time is over at {run.timeout_at}, armed at {armed} [TIME-1, TIMER-10]"


def _child_faults(kernel: Kernel, run: RunState) -> Iterator[str]:
    """Whoever waits for a child is told of its end, or word is on its way [SUB-5, ARCH-14]."""
    for key, child, _ in running_children(run):
        if not (kernel.sub_flows.is_watching(child, key) or kernel.sub_flows.owes_word(run.chain_id)):
            yield f"{key.step_execution_id} waits for {child!r}, whose end nobody will tell [SUB-5]"


# ---- Steps have a reason to wake up [FLOW-11, INV-4] --------------------------------------------------------------


def _step_faults(kernel: Kernel, run: RunState, step: StepExecution) -> Iterator[str]:
    key: CallKey = (run.chain_id, step.step_execution_id)
    call = kernel.dispatcher.calls.get(key)
    armed = kernel.dispatcher.deadlines.armed_at(key)
    if step.phase is StepPhase.READY:
        if call is None or not (call.is_queued or call.stage is CallStage.BLOCKED):
            yield "READY without a queued call [FLOW-11]"
    elif step.phase is StepPhase.RUNNING:
        if call is None or not call.is_delivered:
            yield "RUNNING without a delivered call [FLOW-11]"
        elif call.token != step.token(run.chain_id):
            yield f"RUNNING as {step.token(run.chain_id)}, the call's token is {call.token} [DELIV-2]"
    elif step.phase is StepPhase.BACKOFF:
        if call is None and armed != step.retry_at:
            yield f"BACKOFF until {step.retry_at}, armed at {armed} [FLOW-11]"
        elif call is not None and not (call.is_queued or call.stage is CallStage.BLOCKED):
            yield "BACKOFF with a call that is not queued [FLOW-11]"
    elif call is not None:
        yield "WAITING with an open call"
    elif armed != step.next_timer_at():
        yield f"WAITING for a timer at {step.next_timer_at()}, armed at {armed} [TIMER-10]"
    if call is not None and call.method is not step.method:
        yield f"its method is {step.method.name}, its call is for {call.method.name}"


def _call_faults(kernel: Kernel, call: Call) -> Iterator[str]:
    """Every open call is queued or delivered, and has a deadline that ends that."""
    if call.rpc is None and StepExecutionId(call.call_id) not in call.run.steps:
        yield "its Step execution is not active"
    if call.rpc is not None and call.is_queued and not call.rpc.callers:
        yield "an RPC that nobody waits for is queued"
    armed = kernel.dispatcher.deadlines.armed_at(call.key)
    yield from _lock_faults(kernel, call)
    if call.stage is CallStage.BLOCKED:
        if armed is not None:
            yield f"waits for locks, armed at {armed}"
    elif call.is_queued:
        expected = call.sticky_until if call.stage is CallStage.STICKY else call.queued_until
        if armed != expected:
            yield f"{call.stage.name} until {expected}, armed at {armed} [ROUTE-2, ROUTE-3]"
    elif not call.is_delivered:
        yield "neither queued nor delivered"
    elif armed is None or armed > call.method_deadline:
        yield f"{call.stage.name} with method deadline {call.method_deadline}, armed at {armed} [OPT-2]"
    if call.stage is CallStage.ASSIGNED:
        yield from _assigned_faults(kernel, call)


def _lock_faults(kernel: Kernel, call: Call) -> Iterator[str]:
    """[LOCK-2, LOCK-3] A call has all its locks or asks for all; it looks for a worker exactly when it may."""
    held = kernel.dispatcher.locks.held.get(call.key, ())
    if not call.lock_keys:
        if held or call.asks:
            yield f"wants no locks, holds {held}, asks for {call.asks} [LOCK-2]"
        return
    busy = {lock: key for key, names in kernel.dispatcher.locks.held.items() for lock in ((key[0], n) for n in names)}
    mine = [(call.run.chain_id, name) for name in call.lock_keys]
    if call.is_delivered and held != call.lock_keys:
        yield f"was handed over with the locks {held}, wants {call.lock_keys} [LOCK-2]"
    if call.is_queued and not held and call.asks != call.lock_keys:
        yield f"looks for a worker and asks for {call.asks}, wants {call.lock_keys} [LOCK-2]"
    is_free = held != () or not any(lock in busy for lock in mine)
    earlier = [
        other
        for other in kernel.dispatcher.calls.values()
        if call.rpc is None and other.rpc is None and other.run is call.run and other.ticket < call.ticket
    ]
    is_next = held != () or not any(name in other.asks for other in earlier for name in call.lock_keys)
    if call.is_queued and not (is_free and is_next):
        yield "looks for a worker although its locks are busy, or somebody else's turn [LOCK-3]"
    if call.stage is CallStage.BLOCKED and is_free and is_next:
        yield "waits for locks that are free [LOCK-3]"


def _held_faults(kernel: Kernel) -> Iterator[str]:
    found = {key: names for key, names in kernel.dispatcher.locks.held.items() if not key[1].startswith("sys:rpc-")}
    expected: dict[tuple[str, str], list[str]] = {}
    for run in kernel.runs.values():
        for name, step_id in run.locks.items():
            expected.setdefault((run.chain_id, step_id), []).append(name)
    if {key: sorted(names) for key, names in found.items()} != {k: sorted(names) for k, names in expected.items()}:
        yield f"Steps hold {found}, their runs say {expected} [LOCK-2]"


def _assigned_faults(kernel: Kernel, call: Call) -> Iterator[str]:
    stream = call.stream
    if stream is None:
        yield "ASSIGNED without a stream"
    elif stream.session.streams.get(stream.number) is stream and stream.token != call.token:
        yield f"ASSIGNED to stream {stream.number}, which is occupied by {stream.token}"
    elif kernel.workforce.sessions.get(stream.session.session_id) is not stream.session:
        yield "ASSIGNED to a session that has ended [WIRE-11]"
    elif stream.session.worker.worker_id != call.worker_id:
        yield f"ASSIGNED to {call.worker_id!r} on a stream of {stream.session.worker.worker_id!r}"


def _delivered_faults(kernel: Kernel) -> Iterator[str]:
    expected: dict[WorkerId, dict[tuple[str, str], None]] = {}
    for call in kernel.dispatcher.calls.values():
        if call.is_delivered:
            expected.setdefault(call.worker_id, {})[call.key] = None
    found = {worker_id: dict.fromkeys(calls) for worker_id, calls in kernel.dispatcher.delivered.items()}
    if found != expected:
        yield f"the index of delivered calls is {found}, the calls give {expected}"


# ---- workers ----------------------------------------------------------------------------------------------------


def _worker_faults(kernel: Kernel, worker: Worker) -> Iterator[str]:
    if not worker.sessions:
        yield "known without a session"
    streams = [stream for session in worker.sessions.values() for stream in session.streams.values()]
    busy = sum(stream.token is not None for stream in streams)
    if worker.busy != busy:
        yield f"busy is {worker.busy} with {busy} occupied streams"
    for session in worker.sessions.values():
        yield from _session_faults(kernel, session)
    idle = [stream for queue in worker.idle.values() for stream in queue.values()]
    expected = [stream for stream in streams if stream.token is None and not stream.session.is_draining]
    if worker.is_drained:
        expected = []
    if sorted(map(_name, idle)) != sorted(map(_name, expected)):
        yield f"idle streams are {list(map(_name, idle))}, should be {list(map(_name, expected))}"
    for queue in worker.idle:
        for is_rpc in (False, True):
            is_listed = worker.worker_id in kernel.dispatcher.matcher.idle_worker_ids(queue, is_rpc=is_rpc)
            # One that can take nothing is left out until it frees a slot or its pause ends.
            may_be_listed = queue != worker.own_queue
            must_be_listed = may_be_listed and not (worker.is_full() or worker.hold_ms)
            if (is_listed and not may_be_listed) or (must_be_listed and not is_listed):
                yield f"queue {queue!r}: listed as having idle streams is {is_listed}"


def _session_faults(kernel: Kernel, session: Session) -> Iterator[str]:
    if kernel.workforce.sessions.get(session.session_id) is not session:
        yield f"session {session.session_id} has ended"
    if kernel.dispatcher.deadlines.armed_at(PingDue(session.session_id)) is None:
        yield f"session {session.session_id} is not pinged [WIRE-7]"
    is_watched = kernel.dispatcher.deadlines.armed_at(AgeDue(session.session_id)) is not None
    if session.is_retiring and not (session.is_draining and is_watched):
        yield f"session {session.session_id} was asked to go, and may stay or get calls [DRAIN-3]"


def _name(stream: Stream) -> tuple[int, int]:
    return (stream.session.session_id, stream.number)


# ---- matching ---------------------------------------------------------------------------------------------------


def _idle_while_waiting(kernel: Kernel, *, now: int) -> Iterator[str]:
    """No stream is idle while a call waits that it may take [ROUTE-1..7]."""
    matcher = kernel.dispatcher.matcher
    if kernel.dispatcher.is_shutting_down:
        return
    waiting_for: dict[tuple[str, str], WorkerId] = {
        call.key: worker_id for worker_id in matcher.workers for call in matcher.sticky_calls(worker_id)
    }
    for call in kernel.dispatcher.calls.values():
        if call.stage is CallStage.STICKY and call.key not in waiting_for:
            yield f"call {call.call_id} of {call.run.run_id} waits for a worker that has gone [ROUTE-1]"
        if not call.is_queued:
            continue
        for worker in matcher.workers.values():
            if call.stage is CallStage.STICKY and waiting_for.get(call.key) != worker.worker_id:
                continue
            if _is_eligible(kernel, worker, call, now=now):
                yield f"call {call.call_id} of {call.run.run_id} waits, {worker.worker_id!r} is idle [ROUTE-7]"


def _is_eligible(kernel: Kernel, worker: Worker, call: Call, *, now: int) -> bool:
    is_rpc = call.method is Method.RPC
    due = kernel.dispatcher.deadlines.armed_at(HoldDue(worker.worker_id))
    if due is not None and due <= now:
        return False  # the next Tick offers to it, at once
    if worker.worker_id in call.excluded or not worker.can_run(call.run.flow_type, call.name, is_rpc=is_rpc):
        return False
    queues = {call.run.flow_type: None}
    if call.stage is CallStage.STICKY:
        queues[worker.own_queue] = None
    return not worker.is_held(is_rpc=is_rpc, now=now) and any(queue in worker.idle for queue in queues)
