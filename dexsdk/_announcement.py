"""Lets threads and event loops wait for the same thing, each with a future of its own.

A waiter that is canceled or times out takes only its own future with it [READY-2].
"""

from concurrent.futures import Future
from threading import Lock


class Announcement:
    """Something that happens at most once, after which waiting ends at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiters: list[Future[None]] = []
        self._is_over = False
        self._error: BaseException | None = None

    @property
    def is_over(self) -> bool:
        """Whether it happened."""
        return self._is_over

    def waiter(self) -> "Future[None]":
        """Give a future that ends when the announcement is made, or has ended if it was."""
        future: Future[None] = Future()
        with self._lock:
            if not self._is_over:
                self._waiters.append(future)
                return future
        _settle(future, self._error)
        return future

    def make(self, error: BaseException | None = None) -> None:
        """End all waiting, now and later, with success or the error; later announcements change nothing."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            self._error = error
        self.fail_waiters(error)

    def fail_waiters(self, error: BaseException | None) -> None:
        """End only the waiting of those who wait now; later ones may still see it happen."""
        with self._lock:
            waiters, self._waiters = self._waiters, []
        for future in waiters:
            _settle(future, error)


def _settle(future: "Future[None]", error: BaseException | None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
