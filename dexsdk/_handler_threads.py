"""Daemon threads for sync handlers [REG-2].

Not concurrent.futures: its threads are joined when the interpreter exits, so that one handler that never returns would
keep the program alive after the worker has given it up [DRAIN-1].
"""

import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TypeAlias

Work: TypeAlias = Callable[[], None]


class HandlerThreads:
    """Runs work in threads that are started when none is idle, so there are never more than work that runs at once."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._lock = Lock()
        self._idle_count = 0
        """Threads that wait, less the work that waits for one of them."""
        self._threads: list[Thread] = []

    def submit(self, work: Work) -> None:
        """Run the work soon; it may not raise."""
        with self._lock:
            if self._idle_count > 0:
                self._idle_count -= 1
            else:
                self._start_thread()
        self._queue.put(work)

    def close(self, timeout: float) -> None:
        """End all idle threads; one that is stuck in its work is left behind and ends after it.

        Args:
            timeout: Seconds to wait for all of them together.
        """
        deadline = time.monotonic() + timeout
        with self._lock:
            threads, self._threads = self._threads, []
        for _ in threads:
            self._queue.put(None)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _start_thread(self) -> None:
        thread = Thread(target=self._serve, name=f"dexsdk-handler-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            work()
            with self._lock:
                self._idle_count += 1
