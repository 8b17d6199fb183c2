"""New Step executions: numbers are counted per Step type in the run and never reused [ID-6]."""

from collections.abc import Iterable

from dexd.core.events import StepScheduled
from dexd.core.flow.state import RunState
from dexd.core.ids import StepExecutionId
from dexd.core.values import RecoveryError, StepPlan


def decide_schedule(
    run: RunState, plans: Iterable[StepPlan], *, from_step: str, recovery_error: RecoveryError | None = None
) -> list[StepScheduled]:
    """Schedule Steps in order; `from_step` is their common source [ID-12]."""
    counters: dict[str, int] = {}
    scheduled: list[StepScheduled] = []
    for plan in plans:
        number = counters.get(plan.step_type, run.counters.get(plan.step_type, 0)) + 1
        counters[plan.step_type] = number
        scheduled.append(
            StepScheduled(
                StepExecutionId(f"{plan.step_type}-{number}"),
                plan.step_type,
                number,
                from_step,
                plan.input,
                plan.has_wait_for,
                plan.options,
                recovery_error,
            )
        )
    return scheduled
