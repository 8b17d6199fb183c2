"""How callers name one execution of a Step [ID-6]."""

from dataclasses import dataclass
from typing import Any

from dexpb.v1.frames import TIMEOUT_HANDLER
from dexsdk._names import check_owned_name
from dexsdk.step import StepRef


@dataclass(frozen=True)
class StepExecutionId:
    """One activation of a Step: its type and the number among those of the type, from 1."""

    step_type: str | StepRef[Any]
    """The type, a Step, or its class if the registered instances of it share one type; ``sys:timeout_handler`` names
    the Flow's timer and what handles it [TIME-1]."""
    number: int = 1

    def __post_init__(self) -> None:
        number: object = self.number
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"number of a Step execution is {number!r}, an int of at least 1 is needed")
        if isinstance(self.step_type, str) and self.step_type != TIMEOUT_HANDLER:
            check_owned_name(self.step_type, "Step type")
