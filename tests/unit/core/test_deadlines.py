"""The heap of keyed deadlines [TIMER-4, TIMER-7]."""

from dexd.core.deadlines import Deadlines


def due(deadlines: Deadlines[str], now: int) -> list[str]:
    popped = []
    while (key := deadlines.pop_due(now)) is not None:
        popped.append(key)
    return popped


def test_due_keys_come_by_instant_then_in_the_order_of_arming() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key, at in (("c", 5), ("a", 5), ("b", 3), ("later", 9)):
        deadlines.arm(key, at)
    assert due(deadlines, 5) == ["b", "c", "a"]
    assert deadlines.next_at() == 9


def test_moved_deadline_counts_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.arm("a", 5)
    deadlines.arm("a", 7)
    assert due(deadlines, 6) == []
    assert due(deadlines, 7) == ["a"]
    assert len(deadlines) == 0


def test_arming_again_for_the_same_instant_keeps_its_place() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.arm("a", 5)
    deadlines.arm("b", 5)
    deadlines.arm("a", 5)
    assert due(deadlines, 5) == ["a", "b"]


def test_disarmed_key_never_comes() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.arm("a", 5)
    deadlines.disarm("a")
    deadlines.disarm("unknown")
    assert deadlines.next_at() is None
    assert deadlines.armed_at("a") is None
    assert due(deadlines, 99) == []


def test_due_ones_are_counted_without_being_taken() -> None:
    """[OBS-1] Also when an instant was left and used again, so that the heap has it twice."""
    deadlines: Deadlines[str] = Deadlines()
    for key, at in (("a", 5), ("b", 5), ("c", 3), ("d", 9), ("e", 4)):
        deadlines.arm(key, at)
    deadlines.disarm("e")
    deadlines.disarm("c")
    deadlines.arm("c", 3)
    assert [deadlines.count_due(now) for now in (2, 3, 4, 5, 9)] == [0, 1, 1, 3, 4]
    assert due(deadlines, 9) == ["c", "a", "b", "d"]
    assert deadlines.count_due(9) == 0


def test_memory_is_bounded_by_what_is_armed() -> None:
    """[ARCH-8] Keys that move all the time leave no trail."""
    deadlines: Deadlines[str] = Deadlines()
    for at in range(100_000):
        deadlines.arm("moving", at)
    assert len(deadlines._instants) < 1_000
    assert deadlines.next_at() == 99_999
