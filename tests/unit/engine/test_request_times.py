"""Durations of requests by method [OBS-1]."""

from collections import Counter

from dexd.engine.request_times import REQUEST_BOUNDS_MS, Durations, RequestTimes


def test_durations_are_classed_with_inclusive_bounds() -> None:
    durations = Durations()
    durations.add(2.5, 3)
    durations.add(2.6, 1)
    durations.add(90_000.0, 2)
    assert durations.classes[1:3] == [3, 1]
    assert durations.classes[-1] == 2
    assert durations.total_ms == 3 * 2.5 + 2.6 + 180_000
    assert list(REQUEST_BOUNDS_MS) == sorted(REQUEST_BOUNDS_MS)


def test_every_place_of_a_message_is_drawn_equally_often_whatever_comes_between() -> None:
    times = RequestTimes([])
    places: Counter[int] = Counter()
    for _ in range(1_000):
        times.draw(3)
        places[times.draw(5)] += 1
    assert sorted(places) == [0, 1, 2, 3, 4]
    assert max(places.values()) - min(places.values()) < 20


def test_timed_answer_passes_what_it_gets_on_and_counts_for_all_of_its_message() -> None:
    times, answers = RequestTimes(["Publish"]), list[tuple[int, bytes]]()
    on_answer = times.timed("Publish", lambda number, answer: answers.append((number, answer)), stands_for=40)
    assert sum(times.by_method["Publish"].classes) == 0
    on_answer(7, b"done")
    assert answers == [(7, b"done")]
    assert sum(times.by_method["Publish"].classes) == 40
    assert times.by_method["Publish"].total_ms > 0
