"""Whether what follows a Step's result may leave before its commit [DUR-1, DUR-2]."""

from dexd.core.flow.state import RunState, StepExecution
from dexd.core.values import Method, StepDurability


def durability_of(run: RunState, step: StepExecution, default: StepDurability) -> StepDurability:
    """Durability of the Step's current method: its own, else that of the Flow, else the server's [CFG-3]."""
    options, config = step.options, run.config
    chosen = None
    if options is not None:
        is_wait_for = step.method is Method.WAIT_FOR
        chosen = options.wait_for_durability if is_wait_for else options.execute_durability
    if chosen is None and config is not None:
        chosen = config.step_durability
    return default if chosen is None else chosen
