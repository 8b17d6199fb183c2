"""Cancellation of Step executions by a decision or an RPC [DEC-9..11]."""

from collections.abc import Collection

from dexd.core.events import StepCanceled
from dexd.core.flow.state import RunState
from dexd.core.ids import StepExecutionId

STEP_CANCELED = "STEP_CANCELED"
"""Why a Step execution ended: somebody canceled its type."""


def decide_cancel(
    run: RunState,
    step_types: Collection[str],
    sibling_types: Collection[str] = (),
    *,
    source: str = "",
    by: str,
    deciding: StepExecutionId | None = None,
) -> list[StepCanceled]:
    """Cancel the current executions of these types, in order of scheduling [DEC-10].

    Queued, waiting and backing-off executions are gone with the event; a running handler is told through its stream,
    and whatever it answers is refused [DEC-11].

    Args:
        run: Where they are.
        step_types: Types canceled in the whole Flow.
        sibling_types: Types canceled only among executions with the same source; a type that is also named for the
            whole Flow is canceled there [DEC-9].
        source: That source; executions without one have no siblings [ID-12].
        by: Who cancels, for history: a Step execution ID, or the source name of an RPC.
        deciding: The execution whose result this is; it ends by itself.
    """
    return [
        StepCanceled(step.step_execution_id, STEP_CANCELED, by)
        for step in run.steps.values()
        if step.step_execution_id != deciding
        and (step.step_type in step_types or (source and step.from_step == source and step.step_type in sibling_types))
    ]
