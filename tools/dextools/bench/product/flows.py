"""The Flows of the workloads."""

from dataclasses import dataclass, field
from time import perf_counter

from dexsdk import Context, Flow, Registry, Step, StepDecision, StepList, go_to, graceful_complete
from dextools.bench.product.echoes import EchoFlow
from dextools.bench.product.entities import ENTITY
from dextools.bench.product.fan_out import FanOutFlow
from dextools.bench.product.timers import SleepFlow

GROWTH_SPAN = 100
"""Steps over which the time per Step is taken, early and late."""

GROWTH_EARLY = 50
"""The early span begins here, when connections and caches are warm."""


class ChainStep(Step[int]):
    """Counts down to 0; the input is the number of Steps still to come."""

    async def execute(self, context: Context, input: int) -> StepDecision:  # noqa: ARG002  the SDK's signature
        if input == 0:
            return graceful_complete(True)
        return go_to(ChainStep, input - 1)


class ChainFlow(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(ChainStep())


@dataclass
class Growth:
    """Where a long Flow stands."""

    steps: int
    done: int = 0
    marks: list[float] = field(default_factory=list)
    """The worker's clock at the ends of the early and the late span, in seconds."""


def is_mark(growth: Growth) -> bool:
    """Whether a span begins or ends at this Step."""
    return growth.done in {
        GROWTH_EARLY,
        GROWTH_EARLY + GROWTH_SPAN,
        growth.steps - 1 - GROWTH_SPAN,
        growth.steps - 1,
    }


def growth_ratio(marks: list[float]) -> float:
    """Time per Step of the late span over time per Step of the early one."""
    early_start, early_end, late_start, late_end = marks
    return (late_end - late_start) / (early_end - early_start)


class GrowthStep(Step[Growth]):
    """Counts up and completes with the marks."""

    async def execute(self, context: Context, input: Growth) -> StepDecision:  # noqa: ARG002  the SDK's signature
        marks = [*input.marks, perf_counter()] if is_mark(input) else input.marks
        done = input.done + 1
        if done == input.steps:
            return graceful_complete(marks)
        return go_to(GrowthStep, Growth(input.steps, done, marks))


class GrowthFlow(Flow[Growth]):
    def get_steps(self) -> StepList[Growth]:
        return StepList.start_step(GrowthStep())


def registry() -> Registry:
    """What worker and client register."""
    flows = (ChainFlow(), GrowthFlow(), FanOutFlow(), SleepFlow(), ENTITY, EchoFlow())
    return Registry(flows, allow_async_handlers=True)
