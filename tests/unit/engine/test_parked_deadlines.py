"""The deadlines of parked runs: all in the log, the next ones in memory, in order [ARCH-11, INV-5]."""

from random import Random

import pytest

from dexd.engine import parked_deadlines
from dexd.engine.parked_deadlines import ParkedDeadlines
from dexd.log.event_log import Batch
from dexd.log.memory_log import MemoryLog
from dexd.log.parking import ParkedDeadline, ParkingRow
from tests.support.log_author import LogAuthor, run_row


class Yard:
    """Parks runs in a log and tells the deadlines, as the engine does."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.author = LogAuthor(self.log)
        self.in_memory: set[int] = set()
        self.reads = 0
        self.deadlines = ParkedDeadlines(self, self.in_memory.__contains__)  # type: ignore[arg-type] # it asks one thing

    def parked_deadlines(self, after: ParkedDeadline, limit: int) -> list[ParkedDeadline]:
        self.reads += 1
        return list(self.log.parked_deadlines(after, limit))

    def park(self, stream_id: int, at: int) -> None:
        if self.log.run_by_id(f"run-{stream_id}") is None:
            self.author.start(run_row(stream_id))
        self._note(ParkingRow(stream_id, is_parked=True, wakes_at=at))
        self.in_memory.discard(stream_id)
        if at:
            self.deadlines.add(ParkedDeadline(at, stream_id))

    def take(self, stream_id: int) -> None:
        """The run comes back and moves."""
        self.in_memory.add(stream_id)
        self.deadlines.remove(stream_id)
        self._note(ParkingRow(stream_id, is_parked=False))

    def _note(self, row: ParkingRow) -> None:
        self.log.append(Batch(self.log.last_seq, (), parking=[row]))

    def due(self, now: int, limit: int = 100) -> list[tuple[int, int]]:
        popped = self.deadlines.pop_due(now, limit)
        self.in_memory.update(deadline.stream_id for deadline in popped)
        return [(deadline.at, deadline.stream_id) for deadline in popped]


@pytest.fixture
def yard(monkeypatch: pytest.MonkeyPatch) -> Yard:
    monkeypatch.setattr(parked_deadlines, "WINDOW", 4)
    return Yard()


def test_inv_5_due_ones_come_in_order_and_once(yard: Yard) -> None:
    for stream_id, at in ((1, 30), (2, 10), (3, 20), (4, 10), (5, 0)):
        yard.park(stream_id, at)
    assert yard.deadlines.next_at() == 10
    assert yard.due(9) == []
    assert yard.due(20, limit=2) == [(10, 2), (10, 4)]
    assert yard.due(20) == [(20, 3)]
    assert yard.due(20) == []
    assert yard.deadlines.next_at() == 30


def test_arch_11_memory_holds_the_next_ones_only(yard: Yard) -> None:
    for stream_id in range(1, 101):
        yard.park(stream_id, 1_000 + stream_id)
    assert yard.deadlines.next_at() == 1_001
    assert len(yard.deadlines) <= 8
    popped = [yard.due(2_000, limit=3) for _ in range(40)]
    assert [entry for page in popped for entry in page] == [(1_000 + number, number) for number in range(1, 101)]
    assert yard.deadlines.next_at() is None


def test_arch_11_run_that_came_back_does_not_wake_up_twice(yard: Yard) -> None:
    for stream_id in (1, 2, 3):
        yard.park(stream_id, 10 * stream_id)
    assert yard.deadlines.next_at() == 10
    yard.take(1)
    assert yard.deadlines.next_at() == 20
    yard.park(1, 25)
    assert yard.due(100) == [(20, 2), (25, 1), (30, 3)]


def test_arch_11_run_parked_again_with_another_deadline_has_only_that(yard: Yard) -> None:
    yard.park(1, 10)
    yard.take(1)
    yard.park(1, 50)
    assert yard.deadlines.next_at() == 50
    yard.take(1)
    yard.park(1, 0)
    assert yard.deadlines.next_at() is None


def test_arch_11_deadlines_beyond_what_memory_knows_are_left_to_the_log(yard: Yard) -> None:
    for stream_id in range(1, 7):
        yard.park(stream_id, 10 * stream_id)
    assert yard.deadlines.next_at() == 10
    reads = yard.reads
    yard.park(7, 1_000)
    yard.park(8, 15)
    assert yard.due(16) == [(10, 1), (15, 8)]
    assert yard.reads == reads
    assert yard.due(5_000) == [(20, 2), (30, 3), (40, 4), (50, 5), (60, 6), (1_000, 7)]


def test_inv_5_any_order_of_parking_waking_and_coming_back(yard: Yard) -> None:
    """Compared with a naive list."""
    random = Random(7)
    now, naive = 0, dict[int, int]()
    for _ in range(3_000):
        stream_id = random.randint(1, 40)
        if random.random() < 0.5:
            if stream_id not in naive:
                naive[stream_id] = now + random.randint(1, 200)
                yard.park(stream_id, naive[stream_id])
        elif random.random() < 0.5:
            if naive.pop(stream_id, None) is not None:
                yard.take(stream_id)
        else:
            now += random.randint(0, 30)
            expected = sorted((at, stream) for stream, at in naive.items() if at <= now)
            found = []
            while page := yard.due(now, limit=3):
                found += page
            assert found == expected
            for _, woken in expected:
                del naive[woken]
        assert yard.deadlines.next_at() == min(naive.values(), default=None)
        assert len(yard.deadlines) <= 8


def test_due_ones_in_memory_are_counted_without_being_taken(yard: Yard) -> None:
    """[OBS-1]"""
    for stream_id, at in ((1, 30), (2, 10), (3, 20), (4, 10)):
        yard.park(stream_id, at)
    assert yard.deadlines.next_at() == 10
    assert [yard.deadlines.count_due(now) for now in (9, 10, 25, 30)] == [0, 2, 3, 4]
    assert yard.due(30) == [(10, 2), (10, 4), (20, 3), (30, 1)]
    assert yard.deadlines.count_due(30) == 0
