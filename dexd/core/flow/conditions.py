"""Which candidate of a Wait wins, and which messages it takes [WAIT-5..9].

A candidate is a group of conditions that must hold together: all_of has one, any_combination one per combination,
any_of one per condition. Everything is computed from counts; the caller turns queue positions into messages.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from dexd.core.values import Condition, ConditionKind, Wait, WaitKind


class Win(msgspec.Struct, frozen=True, gc=False):
    """The winning candidate."""

    winners: tuple[int, ...]
    """Condition indexes, in declaration order."""
    positions: tuple[tuple[int, tuple[int, ...]], ...]
    """Channel condition index and the queue positions that it consumes, ascending."""


def evaluate(wait: Wait, fired: Sequence[int], queued: Mapping[str, int]) -> Win | None:
    """Give the first candidate that is satisfied, or None.

    Args:
        wait: An installed Wait; not of kind SKIP.
        fired: Indexes of its timers that fired or were skipped, and of its SubFlows that ended.
        queued: Messages per Channel key; a missing key means none.
    """
    is_fired = frozenset(fired)
    for candidate in candidates(wait):
        if _is_satisfied(wait.conditions, candidate, is_fired, queued):
            return Win(candidate, _consume(wait.conditions, candidate, queued))
    return None


def candidates(wait: Wait) -> Sequence[tuple[int, ...]]:
    """Candidates in the order in which they are tried.

    [WAIT-5] any_of: all Timers, then all Channel conditions, then all SubFlows, each in declaration order.
    [WAIT-6] any_combination: combinations in declaration order; all_of is one candidate holding everything.
    """
    if wait.kind is WaitKind.ANY_OF:
        timers = [(i,) for i, condition in enumerate(wait.conditions) if condition.kind is ConditionKind.TIMER]
        channels = [(i,) for i, condition in enumerate(wait.conditions) if condition.kind is ConditionKind.CHANNEL]
        sub_flows = [(i,) for i, condition in enumerate(wait.conditions) if condition.kind is ConditionKind.SUB_FLOW]
        return timers + channels + sub_flows
    if wait.kind is WaitKind.ANY_COMBINATION:
        return [tuple(sorted(group)) for group in wait.combinations]
    return [tuple(range(len(wait.conditions)))]


def _is_satisfied(
    conditions: Sequence[Condition], candidate: Sequence[int], fired: Collection[int], queued: Mapping[str, int]
) -> bool:
    """[WAIT-7] Timers fired, SubFlows ended, and all minimums reserved together from one count per queue."""
    needed: dict[str, int] = {}
    for index in candidate:
        condition = conditions[index]
        if condition.kind is not ConditionKind.CHANNEL:
            if index not in fired:
                return False
        else:
            needed[condition.channel] = needed.get(condition.channel, 0) + condition.at_least
    return all(queued.get(channel, 0) >= count for channel, count in needed.items())


def _consume(
    conditions: Sequence[Condition], candidate: Sequence[int], queued: Mapping[str, int]
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """[WAIT-8] Two passes in declaration order: first all minimums, then extras up to each upper bound."""
    channel_indexes = [i for i in candidate if conditions[i].kind is ConditionKind.CHANNEL]
    taken: dict[int, list[int]] = {i: [] for i in channel_indexes}
    next_position: dict[str, int] = {}

    def take(index: int, count: int) -> None:
        channel = conditions[index].channel
        start = next_position.get(channel, 0)
        taken[index].extend(range(start, start + count))
        next_position[channel] = start + count

    for index in channel_indexes:
        take(index, conditions[index].at_least)
    for index in channel_indexes:
        condition = conditions[index]
        left = queued.get(condition.channel, 0) - next_position.get(condition.channel, 0)
        extra = left if condition.at_most is None else min(left, condition.at_most - condition.at_least)
        take(index, extra)
    return tuple((index, tuple(positions)) for index, positions in taken.items() if positions)
