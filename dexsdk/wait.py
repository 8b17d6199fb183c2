"""What ``wait_for`` returns: which conditions let ``execute`` run [WAIT-1..12]."""

from collections.abc import Iterable, Sequence

from dexpb.v1 import frames
from dexsdk.condition import CONDITIONS_MAX, Condition
from dexsdk.errors import ValueTooLargeError

COMBINATIONS_MAX = 100
"""Combinations in one Wait [WAIT-12]."""


class ConditionCombination:
    """A group of conditions that must be met together; one alternative of ``Wait.any_combination_of``."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        """Use ``of``."""
        self.conditions = tuple(conditions)

    @staticmethod
    def of(*conditions: Condition) -> "ConditionCombination":
        """Group conditions; each needs an ID, unique in the group [WAIT-3].

        Raises:
            ValueError: no condition, a condition without ID, or one ID twice.
        """
        _check_group(conditions, "a combination")
        for position, condition in enumerate(conditions):
            if condition.condition_id is None:
                raise ValueError(f"condition {position} of a combination has no condition_id")
        return ConditionCombination(conditions)


class Wait:
    """Which conditions let ``execute`` run; immutable."""

    def __init__(
        self, kind: int, conditions: Sequence[Condition] = (), combinations: Sequence[tuple[int, ...]] = ()
    ) -> None:
        """Use the static methods."""
        self.kind = kind
        self.conditions = tuple(conditions)
        self.combinations = tuple(combinations)
        """Groups of indexes into ``conditions``."""

    @staticmethod
    def skip_immediately() -> "Wait":
        """Go to ``execute`` at once."""
        return Wait(frames.WAIT_SKIP)

    @staticmethod
    def until(condition: Condition) -> "Wait":
        """Wait for one condition."""
        return Wait.all_of(condition)

    @staticmethod
    def all_of(*conditions: Condition) -> "Wait":
        """Wait until all conditions are met together; conditions on one Channel never share a message [WAIT-7].

        Raises:
            ValueError: no condition, or two with one ID.
            ValueTooLargeError: more than 1,000 conditions.
        """
        _check_group(conditions, "Wait.all_of")
        return Wait(frames.WAIT_ALL_OF, conditions)

    @staticmethod
    def any_of(*conditions: Condition) -> "Wait":
        """Wait for the first condition to be met; due Timers win over queued messages [WAIT-5].

        Raises:
            ValueError: no condition, or two with one ID.
            ValueTooLargeError: more than 1,000 conditions.
        """
        _check_group(conditions, "Wait.any_of")
        return Wait(frames.WAIT_ANY_OF, conditions)

    @staticmethod
    def any_combination_of(*combinations: ConditionCombination) -> "Wait":
        """Wait for the first combination, in the order given, that is met as a whole [WAIT-6].

        One condition object may stand in several combinations; two objects may not share an ID [WAIT-3].

        Raises:
            ValueError: no combination, or two conditions with one ID.
            ValueTooLargeError: more than 100 combinations or 1,000 conditions.
        """
        if not combinations:
            raise ValueError("Wait.any_combination_of needs at least one combination")
        if len(combinations) > COMBINATIONS_MAX:
            raise ValueTooLargeError.of("combinations", "Wait", len(combinations), COMBINATIONS_MAX)
        conditions = _distinct(condition for group in combinations for condition in group.conditions)
        _check_group(conditions, "Wait.any_combination_of")
        index_by_identity = {id(condition): index for index, condition in enumerate(conditions)}
        groups = [tuple(index_by_identity[id(condition)] for condition in group.conditions) for group in combinations]
        return Wait(frames.WAIT_ANY_COMBINATION, conditions, groups)

    def to_frame(self) -> frames.Wait:
        """Give the Wait as it travels."""
        return frames.Wait(self.kind, tuple(condition.to_frame() for condition in self.conditions), self.combinations)


def _distinct(conditions: Iterable[Condition]) -> list[Condition]:
    """Drop repeats of the same object, keeping the first place."""
    return list({id(condition): condition for condition in conditions}.values())


def _check_group(conditions: Sequence[Condition], what: str) -> None:
    if not conditions:
        raise ValueError(f"{what} needs at least one condition")
    if len(conditions) > CONDITIONS_MAX:
        raise ValueTooLargeError.of("conditions", what, len(conditions), CONDITIONS_MAX)
    seen: set[str] = set()
    for position, condition in enumerate(conditions):
        if not isinstance(condition, Condition):
            raise ValueError(f"{what} takes conditions, argument {position} is {type(condition).__name__}")
        if condition.condition_id is None:
            continue
        if condition.condition_id in seen:
            raise ValueError(f"{what} has two conditions with the ID {condition.condition_id!r}")
        seen.add(condition.condition_id)
