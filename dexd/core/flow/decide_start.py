"""Starting an execution: one serial decision per Flow ID [START-2]."""

from dexd.core.commands import StartFlow
from dexd.core.events import FlowStarted
from dexd.core.flow.state import RunState
from dexd.core.outcome import StartFlowAccepted
from dexd.core.rejections import Code, Rejection
from dexd.core.terms import FlowTerms
from dexd.core.values import FlowStatus, IdReusePolicy


def decide_start(
    latest: RunState | None, command: StartFlow, *, now: int, known: RunState | None = None, last_ordinal: int = 0
) -> FlowStarted | StartFlowAccepted | Rejection:
    """Start, repeat an earlier answer, or refuse.

    1. The request ID of the latest execution, or of `known`, an earlier one: same content is the same start, whatever
       its status; other content is REQUEST_CONFLICT [START-3].
    2. The reuse policy decides by the latest execution's status [START-4, START-5].
    3. A new execution gets the next ordinal [GEN-3]; `last_ordinal` is that of the last one if all have been removed
       [ID-10].

    With ALLOW_TERMINATE_IF_RUNNING the caller terminates the open execution in the same commit.
    """
    if latest is not None:
        if latest.start_request_id == command.request_id:
            return _repeat(latest, command)
        if known is not None:
            return _repeat(known, command)
        if not _allows(command.id_reuse_policy, latest.status):
            return _already_started(latest, command.id_reuse_policy)
    ordinal = 1 + (last_ordinal if latest is None else latest.ordinal)
    terms = command.terms
    eligible_at, timeout_at = (0, 0) if terms is None else schedule_of(terms, delay_ms=terms.start_delay_ms, now=now)
    return FlowStarted(
        command.flow_id,
        command.run_id,
        command.flow_type,
        ordinal,
        command.request_id,
        command.digest,
        command.seed,
        command.attributes,
        command.standing,
        terms,
        eligible_at,
        timeout_at,
        command.indexed,
    )


def schedule_of(terms: FlowTerms, *, delay_ms: int, now: int) -> tuple[int, int]:
    """When the start Step may run, and when the Flow's time is over; 0 is at once, and never [START-7, TIME-1].

    The time counts from the moment the start Step is eligible.
    """
    eligible_at = now + delay_ms
    return (eligible_at if delay_ms else 0), (eligible_at + terms.timeout_ms if terms.timeout_ms else 0)


def _repeat(started: RunState, command: StartFlow) -> StartFlowAccepted | Rejection:
    if started.start_digest == command.digest:
        return StartFlowAccepted(started.execution_id)
    return Rejection(
        Code.REQUEST_CONFLICT,
        f"request {command.request_id!r} started Flow {started.flow_id!r} before, with another Flow type, input or "
        "initial Attributes",
        {"flow_id": started.flow_id, "request_id": command.request_id, "run_id": started.run_id},
    )


def _allows(policy: IdReusePolicy, status: FlowStatus) -> bool:
    if status is FlowStatus.RUNNING:
        return policy is IdReusePolicy.ALLOW_TERMINATE_IF_RUNNING
    if policy is IdReusePolicy.ALLOW_IF_PREVIOUS_FAILED:
        return status is not FlowStatus.COMPLETED
    return policy is not IdReusePolicy.DISALLOW


def _already_started(latest: RunState, policy: IdReusePolicy) -> Rejection:
    return Rejection(
        Code.FLOW_ALREADY_STARTED,
        f"Flow {latest.flow_id!r} is {latest.status.name} in run {latest.run_id}; reuse policy {policy.name} refuses "
        "another start",
        {"flow_id": latest.flow_id, "run_id": latest.run_id, "status": latest.status.name},
    )
