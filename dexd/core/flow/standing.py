"""How the calls of a Flow stand in a queue with those of others [ROUTE-7]."""

from dexd.core.flow.state import RunState, StepExecution
from dexd.core.values import PRIORITY_DEFAULT


def priority_of(run: RunState, step: StepExecution | None) -> int:
    """Priority of a Step's calls, or of an RPC's: the Step's own, else that of its Flow, else 3 [LIMIT-7.7]."""
    if step is not None and step.options is not None and step.options.priority is not None:
        return step.options.priority
    return PRIORITY_DEFAULT if run.standing is None else run.standing.priority
