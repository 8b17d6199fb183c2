"""How callers name one execution of a Step [ID-6]."""

from dataclasses import dataclass
from typing import Any

from dexsdk._names import check_owned_name
from dexsdk.step import StepRef


@dataclass(frozen=True)
class StepExecutionId:
    """One activation of a Step: its type and the number among those of the type, from 1."""

    step_type: str | StepRef[Any]
    """The type, a Step, or its class if the registered instances of it share one type."""
    number: int = 1

    def __post_init__(self) -> None:
        number: object = self.number
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"number of a Step execution is {number!r}, an int of at least 1 is needed")
        if isinstance(self.step_type, str):
            check_owned_name(self.step_type, "Step type")
