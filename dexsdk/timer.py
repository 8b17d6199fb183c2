"""Durable timers as conditions of a Wait [TIMER-1..5]."""

from dataclasses import dataclass
from datetime import datetime

from dexpb.v1 import frames
from dexsdk._durations import Duration, to_duration_ms, to_instant_ms
from dexsdk._names import check_name
from dexsdk.condition import CONDITIONS_MAX, Condition


class Timer(Condition):
    """Fires once at an absolute instant, never early, whatever restarts in between."""

    def __init__(self, frame: frames.Condition, condition_id: str | None) -> None:
        """Use ``by_duration`` or ``at``."""
        super().__init__(condition_id)
        self._frame = frame

    @staticmethod
    def by_duration(duration: Duration, condition_id: str | None = None) -> "Timer":
        """Fire the given time after the commit that installs the Wait; 0 fires at installation [TIMER-1].

        Args:
            duration: A timedelta or seconds, 0 to 100 years; parts of a millisecond round up [TIMER-2].
            condition_id: Name of the condition, needed in combinations.
        """
        duration_ms = to_duration_ms(duration, "Timer duration")
        return Timer(frames.Condition(frames.CONDITION_TIMER, condition_id or "", duration_ms), condition_id)

    @staticmethod
    def at(instant: datetime, condition_id: str | None = None) -> "Timer":
        """Fire at an instant, at installation if it is past [TIMER-1].

        Args:
            instant: An aware datetime.
            condition_id: Name of the condition, needed in combinations.
        """
        at_ms = to_instant_ms(instant, "Timer instant")
        return Timer(frames.Condition(frames.CONDITION_TIMER, condition_id or "", at_ms=at_ms), condition_id)

    def to_frame(self) -> frames.Condition:
        """Give the timer as it travels."""
        return self._frame


@dataclass(frozen=True)
class TimerId:
    """Names one Timer of a Wait from outside [TIMER-8]."""

    condition_id: str | None = None
    index: int | None = None

    def __post_init__(self) -> None:
        if (self.condition_id is None) == (self.index is None):
            raise ValueError("a TimerId is either a condition ID or an index")
        if self.condition_id is not None:
            check_name(self.condition_id, "condition ID")
        elif isinstance(self.index, bool) or not isinstance(self.index, int) or not 0 <= self.index < CONDITIONS_MAX:
            raise ValueError(f"index of a Timer is {self.index!r}, allowed are 0 to {CONDITIONS_MAX - 1}")

    @staticmethod
    def by_condition_id(condition_id: str) -> "TimerId":
        """Name a Timer by its condition ID."""
        return TimerId(condition_id=condition_id)

    @staticmethod
    def by_condition_index(index: int) -> "TimerId":
        """Name a Timer by its position among the Wait's Timers, from 0."""
        return TimerId(index=index)
