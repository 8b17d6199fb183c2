"""Which point of an execution a client wants to go back to [TT-2]."""

from enum import IntEnum

import msgspec

from dexd.core.ids import StepExecutionId
from dexd.core.values import Method


class TimeTravelType(IntEnum):
    """What names the point."""

    BEGINNING = 0
    """Where the execution began."""
    HISTORY_EVENT_TIME = 1
    """Before the first event at or after an instant."""
    STEP_TYPE = 2
    """Before the first method of the latest execution of a Step."""
    STEP_EXECUTION_ID = 3
    """Before a method of one Step execution."""


class Selector(msgspec.Struct, frozen=True, gc=False):
    """The point; what its type does not need stays empty [TT-3]."""

    type: TimeTravelType
    at: int = 0
    step_type: str = ""
    step_execution_id: StepExecutionId = StepExecutionId("")
    method: Method | None = None
    """To be redone; None is the first one that the Step has."""
