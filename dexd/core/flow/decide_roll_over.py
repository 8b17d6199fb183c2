"""When a run is continued by another one, and how that one begins [ROLL-2..4]."""

from dexd.core.events import FlowClosed, FlowContinued, FlowStarted
from dexd.core.flow.carrying import to_carried
from dexd.core.flow.decide_flow_retry import derived_run_id
from dexd.core.flow.state import RunState
from dexd.core.ids import RunId
from dexd.core.values import FlowStatus, RequestRecord

BEGINNING_EVENTS = 2
"""Events with which a run continues another one. They alone never make it long, however low the threshold is."""


def is_long(run: RunState, *, threshold: int) -> bool:
    """Whether an open run has reached its threshold: its own, else the server's; 0 is never [ROLL-2, CFG-1, CFG-3]."""
    config = run.config
    if config is not None and config.continue_as_new_threshold is not None:
        threshold = config.continue_as_new_threshold
    own_events = run.version - (BEGINNING_EVENTS if run.chain_id != run.run_id else 0)
    return run.is_open and 0 < threshold <= run.version and own_events > 0


def continuing_run_id(run: RunState) -> RunId:
    """The ID of the run that would continue this one."""
    return derived_run_id(f"{run.run_id}/continue")


def decide_roll_over(
    run: RunState, *, request: RequestRecord | None = None
) -> tuple[FlowClosed, FlowStarted, FlowContinued]:
    """Close an open run as CONTINUED_AS_NEW and begin the next one with all that it has, in one commit [ROLL-2].

    The first event is the last one of the run, the others the first two of the next one. Nobody may be told that the
    run closed: nothing of the execution ended.
    """
    next_run_id = continuing_run_id(run)
    closed = FlowClosed(FlowStatus.CONTINUED_AS_NEW, next_run_id=next_run_id)
    started = FlowStarted(
        run.flow_id,
        next_run_id,
        run.flow_type,
        run.ordinal,
        run.start_request_id,
        run.start_digest,
        run.seed,
    )
    return closed, started, FlowContinued(run.run_id, run.execution_id, to_carried(run), request)
