"""Starting an execution: one serial decision per Flow ID [START-2]."""

from dexd.core.commands import StartFlow
from dexd.core.events import FlowStarted
from dexd.core.flow.state import RunState
from dexd.core.outcome import StartFlowAccepted
from dexd.core.rejections import Code, Rejection
from dexd.core.values import FlowStatus, IdReusePolicy


def decide_start(latest: RunState | None, command: StartFlow) -> FlowStarted | StartFlowAccepted | Rejection:
    """Start, repeat an earlier answer, or refuse.

    1. The request ID of the latest retained execution: same content is the same start, whatever its status; other
       content is REQUEST_CONFLICT [START-3].
    2. The reuse policy decides by the latest execution's status [START-4, START-5].
    3. A new execution gets the next ordinal [GEN-3].

    With ALLOW_TERMINATE_IF_RUNNING the caller terminates the open execution in the same commit.
    """
    if latest is not None:
        if latest.start_request_id == command.request_id:
            return _repeat(latest, command)
        if not _allows(command.id_reuse_policy, latest.status):
            return _already_started(latest, command.id_reuse_policy)
    return FlowStarted(
        command.flow_id,
        command.run_id,
        command.flow_type,
        1 if latest is None else latest.ordinal + 1,
        command.request_id,
        command.digest,
        command.seed,
        command.attributes,
        command.standing,
    )


def _repeat(latest: RunState, command: StartFlow) -> StartFlowAccepted | Rejection:
    if latest.start_digest == command.digest:
        return StartFlowAccepted(latest.run_id)
    return Rejection(
        Code.REQUEST_CONFLICT,
        f"request {command.request_id!r} started Flow {latest.flow_id!r} before, with another Flow type, input or "
        "initial Attributes",
        {"flow_id": latest.flow_id, "request_id": command.request_id, "run_id": latest.run_id},
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
