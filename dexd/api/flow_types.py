"""What connected workers said of how Flow types begin, for callers without the Flow's code.

It is derived from Hellos and gone with the process; a start that names its start Step never needs it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dexd.core.values import StepPlan

FLOW_TYPES_MAX: Final = 10_000
"""Flow types that are remembered, the newest announcements [ARCH-8]; a worker announces 256 at most."""


class FlowTypeDirectory:
    """Start Step by Flow type; the newest announcement wins, so that a rolling deployment takes over."""

    def __init__(self) -> None:
        self._start_steps: dict[str, StepPlan | None] = {}
        self.start_steps: Mapping[str, StepPlan | None] = MappingProxyType(self._start_steps)
        """How each known Flow type begins; None for one without a start Step."""

    def learn(self, start_steps: Mapping[str, StepPlan | None]) -> None:
        """Take a worker's announcement."""
        for flow_type, start_step in start_steps.items():
            self._start_steps.pop(flow_type, None)
            self._start_steps[flow_type] = start_step
        while len(self._start_steps) > FLOW_TYPES_MAX:
            del self._start_steps[next(iter(self._start_steps))]
