"""What a client waits for in an Attribute [WAITAPI-4]."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TypeAlias

from dexsdk._durations import Duration, optional_duration_ms, to_instant_ms

Comparable: TypeAlias = str | bool | int | float | Enum | datetime
"""Types that a value can be compared with; order needs int, float or datetime."""

_EQUAL, _NOT_EQUAL, _GREATER, _GREATER_OR_EQUAL, _LESS, _LESS_OR_EQUAL = range(6)
"""Numbers of the operators as they travel."""


@dataclass(frozen=True)
class AttributeMatch:
    """A comparison with an Attribute's value; made by its static methods.

    Ints and floats compare by exact value, a bool is no number; a missing value, and one of another kind,
    never match. All methods raise ValueError for a value that cannot be compared so.
    """

    operator: int
    value: Comparable

    def __post_init__(self) -> None:
        value: object = self.value
        if isinstance(value, datetime):
            to_instant_ms(value, "value of an AttributeMatch")
        elif not isinstance(value, str | bool | int | float | Enum):
            raise ValueError(
                f"an Attribute cannot be compared with {type(value).__name__}; allowed are str, bool, int, float, enum "
                "and an aware datetime"
            )
        is_ordered = isinstance(value, int | float | datetime) and not isinstance(value, bool | Enum)
        if self.operator not in (_EQUAL, _NOT_EQUAL) and not is_ordered:
            raise ValueError(f"{type(value).__name__} has no order here, which needs int, float or datetime")

    @staticmethod
    def equal(value: Comparable) -> "AttributeMatch":
        """The same value."""
        return AttributeMatch(_EQUAL, value)

    @staticmethod
    def not_equal(value: Comparable) -> "AttributeMatch":
        """Another value of the same kind."""
        return AttributeMatch(_NOT_EQUAL, value)

    @staticmethod
    def greater_than(value: float | datetime) -> "AttributeMatch":
        """A larger number or later instant."""
        return AttributeMatch(_GREATER, value)

    @staticmethod
    def greater_or_equal(value: float | datetime) -> "AttributeMatch":
        """This number or instant, or one after it."""
        return AttributeMatch(_GREATER_OR_EQUAL, value)

    @staticmethod
    def less_than(value: float | datetime) -> "AttributeMatch":
        """A smaller number or earlier instant."""
        return AttributeMatch(_LESS, value)

    @staticmethod
    def less_or_equal(value: float | datetime) -> "AttributeMatch":
        """This number or instant, or one before it."""
        return AttributeMatch(_LESS_OR_EQUAL, value)

    @property
    def is_instant(self) -> bool:
        """Whether values are compared as instants."""
        return isinstance(self.value, datetime)


@dataclass(frozen=True)
class WaitForAttributeOptions:
    """How long to wait for an Attribute."""

    timeout: Duration | None = None
    """None waits without limit, 0 checks once [WAITAPI-1]."""

    def __post_init__(self) -> None:
        optional_duration_ms(self.timeout, "timeout")
