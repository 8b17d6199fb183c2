"""Threads of sync handlers [REG-2, DRAIN-1]."""

import threading

from dexsdk._handler_threads import HandlerThreads


def test_works_that_wait_for_each_other_run_at_once() -> None:
    """[REG-2]: handlers of different executions run concurrently."""
    threads = HandlerThreads()
    meeting = threading.Barrier(4, timeout=10)

    def meet() -> None:
        meeting.wait()

    for _ in range(3):
        threads.submit(meet)
    meeting.wait()
    threads.close(timeout=10)


def test_idle_threads_are_used_again() -> None:
    """[REG-2]: no more threads than handlers that ran at once."""
    threads = HandlerThreads()
    names: set[str] = set()
    for _ in range(50):
        done = threading.Event()

        def work(done: threading.Event = done) -> None:
            names.add(threading.current_thread().name)
            done.set()

        threads.submit(work)
        assert done.wait(10)
    threads.close(timeout=10)
    # One work may be submitted before the thread of the last one has counted itself as idle again.
    assert len(names) <= 2


def test_close_leaves_a_stuck_thread_behind_and_ends_the_others() -> None:
    """[DRAIN-1]"""
    threads = HandlerThreads()
    stuck, is_stuck = threading.Event(), threading.Event()
    finished = threading.Event()
    others: list[threading.Thread] = []

    def hang() -> None:
        is_stuck.set()
        stuck.wait(10)

    def note() -> None:
        others.append(threading.current_thread())
        finished.set()

    threads.submit(hang)
    assert is_stuck.wait(10)
    threads.submit(note)
    assert finished.wait(10)
    threads.close(timeout=0.05)
    others[0].join(10)
    assert not others[0].is_alive()
    stuck.set()
