"""Waiting for registration and end from several threads and loops [READY-2]."""

import pytest

from dexsdk._announcement import Announcement


def test_all_waiters_end_and_later_ones_at_once() -> None:
    """[READY-2]"""
    announcement = Announcement()
    waiters = [announcement.waiter(), announcement.waiter()]
    announcement.make()
    assert all(waiter.result(0) is None for waiter in [*waiters, announcement.waiter()])


def test_failure_reaches_those_who_wait_now_and_leaves_it_open() -> None:
    """[READY-2, READY-3]"""
    announcement = Announcement()
    waiter = announcement.waiter()
    announcement.fail_waiters(KeyError("queue"))
    with pytest.raises(KeyError):
        waiter.result(0)
    later = announcement.waiter()
    assert not later.done()
    announcement.make()
    assert later.result(0) is None


def test_first_announcement_stays() -> None:
    """[READY-2]: once registered, later waits succeed for ever, also after a stop."""
    announcement = Announcement()
    announcement.make()
    announcement.make(RuntimeError("stopped"))
    assert announcement.waiter().result(0) is None


def test_canceled_wait_takes_only_itself_away() -> None:
    """[READY-2]"""
    announcement = Announcement()
    canceled, other = announcement.waiter(), announcement.waiter()
    canceled.cancel()
    announcement.make()
    assert other.result(0) is None
