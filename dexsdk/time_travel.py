"""Going back to an earlier point of an execution [TT-1..6]."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from dexsdk._durations import to_instant_ms
from dexsdk._names import check_name
from dexsdk.options import check_text
from dexsdk.step import StepRef
from dexsdk.step_execution import StepExecutionId


class TimeTravelType(Enum):
    """What names the point [TT-2]."""

    BEGINNING = "BEGINNING"
    """Where the execution began."""
    HISTORY_EVENT_TIME = "HISTORY_EVENT_TIME"
    """Before the first event at or after an instant."""
    STEP_TYPE = "STEP_TYPE"
    """Before the latest execution of a Step, which is redone from its first method."""
    STEP_EXECUTION_ID = "STEP_EXECUTION_ID"
    """Before a method of one Step execution, which is redone."""


class TimeTravelStepMethod(Enum):
    """Which method of a Step execution is redone [TT-2]."""

    WAIT_FOR = "WAIT_FOR"
    """``wait_for``: the Wait is made anew, with new timers."""
    EXECUTE = "EXECUTE"
    """``execute``: what the Wait gave and consumed is kept."""


_NEEDED: dict[TimeTravelType, tuple[str, ...]] = {
    TimeTravelType.BEGINNING: (),
    TimeTravelType.HISTORY_EVENT_TIME: ("history_event_time",),
    TimeTravelType.STEP_TYPE: ("step_type",),
    TimeTravelType.STEP_EXECUTION_ID: ("step_execution_id", "step_method"),
}
_SELECTORS = tuple(field for fields in _NEEDED.values() for field in fields)


@dataclass(frozen=True)
class TimeTravelOptions:
    """Where to go back to, and what becomes of external writes that came later.

    Exactly what the type needs must be given [TT-3]: nothing for BEGINNING, ``history_event_time``, ``step_type``, or
    ``step_execution_id`` with ``step_method``.
    """

    type: TimeTravelType
    history_event_time: datetime | None = None
    """Aware. What happened at it or later is undone."""
    step_type: str | StepRef[Any] | None = None
    step_execution_id: StepExecutionId | None = None
    step_method: TimeTravelStepMethod | None = None
    reason: str | None = None
    """Shown in history."""
    skip_writes_reapply: bool = False
    """Drop RPC effects, publications, Attribute writes and deletions of messages that came after the point, instead of
    applying them again in their old order [TT-5]."""
    request_id: str | None = None
    """None lets the SDK draw one."""

    def __post_init__(self) -> None:
        _check_kind(self.type, TimeTravelType, "type")
        for field in _SELECTORS:
            is_given = getattr(self, field) is not None
            if is_given != (field in _NEEDED[self.type]):
                verb = "does not take" if is_given else "needs"
                raise ValueError(f"time travel of type {self.type.name} {verb} {field}")
        if self.history_event_time is not None:
            to_instant_ms(self.history_event_time, "history_event_time")
        if self.step_type is not None:
            # The same rules as for a Step execution of it.
            StepExecutionId(self.step_type)
        if self.step_execution_id is not None:
            _check_kind(self.step_execution_id, StepExecutionId, "step_execution_id")
            _check_kind(self.step_method, TimeTravelStepMethod, "step_method")
        _check_kind(self.skip_writes_reapply, bool, "skip_writes_reapply")
        if self.request_id is not None:
            check_name(self.request_id, "request_id")
        if self.reason is not None:
            check_text(self.reason, "reason")


def _check_kind(value: object, kind: type[object], what: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{what} is {value!r}, a {kind.__name__} is needed")
