"""What connected workers said of how Flow types begin, for callers without the Flow's code.

It is derived from Hellos and gone with the process; a start that names its start Step never needs it.
"""

from collections.abc import Mapping
from typing import Final

from dexd.core.rejections import Code, Rejection
from dexd.core.values import StepPlan

FLOW_TYPES_MAX: Final = 10_000
"""Flow types that are remembered, the newest announcements [ARCH-8]; a worker announces 256 at most."""


class FlowTypeDirectory:
    """Start Step by Flow type; the newest announcement wins, so that a rolling deployment takes over."""

    def __init__(self) -> None:
        self._start_steps: dict[str, StepPlan | None] = {}

    def learn(self, start_steps: Mapping[str, StepPlan | None]) -> None:
        """Take a worker's announcement; None stands for a Flow type without a start Step."""
        for flow_type, start_step in start_steps.items():
            self._start_steps.pop(flow_type, None)
            self._start_steps[flow_type] = start_step
        while len(self._start_steps) > FLOW_TYPES_MAX:
            del self._start_steps[next(iter(self._start_steps))]

    def start_step(self, flow_type: str) -> StepPlan | Rejection | None:
        """How the Flow type begins; None for one without a start Step."""
        if flow_type in self._start_steps:
            return self._start_steps[flow_type]
        return Rejection(
            Code.UNKNOWN_FLOW_TYPE,
            f"no worker has registered Flow type {flow_type!r}",
            {"flow_type": flow_type},
        )
