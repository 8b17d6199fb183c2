"""Which open runs leave memory: those that moved longest ago, and only while there are too many [ARCH-11]."""

import msgspec

from dexd.core.flow.state import RunState
from dexd.core.ids import RunId, StreamId
from dexd.engine.residents import RUN_BYTES, Residents, size_of
from tests.support.builders import scheduled, started
from tests.support.given import given

ANY = 1 << 40


def runs(count: int) -> list[RunState]:
    first = given(started()).run()
    return [
        msgspec.structs.replace(first, run_id=RunId(f"run-{number}"), stream_id=StreamId(number))
        for number in range(1, count + 1)
    ]


def resident(*present: RunState, runs_max: int, bytes_max: int = ANY) -> Residents:
    residents = Residents(runs_max=runs_max, bytes_max=bytes_max)
    for run in present:
        residents.add(run)
    return residents


def leave_all(
    residents: Residents, *, leavers_max: int = 100, staying: frozenset[int] = frozenset(), stirred: int | None = None
) -> list[int]:
    """Move the hand until it has nothing to do; gives who left, in order."""
    left: list[int] = []
    residents.stirred(len(residents) if stirred is None else stirred)
    while residents.wants_turn:
        leavers = residents.turn(lambda run: run.stream_id not in staying, leavers_max)
        assert len(leavers) <= leavers_max
        left += [run.stream_id for run in leavers]
    return left


def test_arch_11_nobody_leaves_while_there_is_room() -> None:
    residents = resident(*runs(5), runs_max=5)
    assert not residents.wants_turn
    for _ in range(20):
        assert residents.turn(lambda _: True, 100) == []
    assert len(residents) == 5


def test_arch_11_those_that_moved_longest_ago_leave_first_until_there_is_some_room() -> None:
    present = runs(100)
    residents = resident(*present, runs_max=100)
    for _ in range(100):
        residents.turn(lambda _: True, 100)
    for run in present[:40]:
        run.version += 1
    late = msgspec.structs.replace(present[0], stream_id=StreamId(101))
    residents.add(late)
    assert leave_all(residents) == [41, 42, 43, 44, 45, 46]
    assert len(residents) == 95


def test_arch_11_only_so_many_leave_at_once() -> None:
    residents = resident(*runs(50), runs_max=0)
    assert leave_all(residents, leavers_max=7) == list(range(1, 51))
    assert residents.size == 0


def test_arch_11_runs_at_work_stay_and_cost_little() -> None:
    """The hand looks no longer than is worth it, and goes on when something has happened."""
    residents = resident(*runs(40), runs_max=10)
    at_work = frozenset(range(1, 41))
    assert leave_all(residents, staying=at_work) == []
    asked: list[int] = []

    def refuse(run: RunState) -> bool:
        asked.append(run.stream_id)
        return False

    residents.turn(refuse, 100)
    assert len(asked) == 4, "it moves by the least when it finds nobody"
    assert leave_all(residents, stirred=0, staying=at_work) == []
    residents.stirred(1)
    assert residents.turn(lambda _: True, 100) != []
    assert residents.wants_turn


def test_arch_8_large_runs_leave_before_there_are_many() -> None:
    """Sizes are learned when the hand comes by."""
    present = runs(4)
    residents = resident(*present, runs_max=100, bytes_max=6 * RUN_BYTES)
    present[2].attribute_bytes = 5 * RUN_BYTES
    for _ in range(3):
        assert residents.turn(lambda _: True, 100) == []
    assert residents.wants_turn
    assert leave_all(residents) == [1, 2, 3]
    assert residents.size == RUN_BYTES


def test_arch_8_runs_that_end_are_not_counted() -> None:
    residents = resident(*runs(3), runs_max=2)
    residents.remove(1)
    residents.remove(99)
    assert not residents.wants_turn
    assert residents.size == 2 * RUN_BYTES


def test_arch_8_size_counts_messages_attributes_and_steps() -> None:
    idle, busy = given(started()).run(), given(started(), scheduled(input=b"x" * 5_000)).run()
    assert size_of(busy) > size_of(idle) + 5_000
    idle.pending_bytes, idle.attribute_bytes = 10, 1_000
    assert size_of(idle) == RUN_BYTES + 1_010
