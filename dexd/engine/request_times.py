"""How long requests take, by method; for metrics only, nothing is decided by it [OBS-1].

Two readings of the clock would be a noticeable part of what a request of a busy session costs. So of the requests that
came in one message one is timed, drawn evenly, and stands for all of them: counts and sums are right on average, and
the others cost nothing. A unary call, and a request that came alone, is always timed.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, ParamSpec

from dexd.engine.system import stopwatch_ms

REQUEST_BOUNDS_MS: Final = (1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1e3, 2.5e3, 5e3, 1e4, 6e4)
"""Upper bounds, inclusive, of the classes of durations; above the last is one more. A poll is held up to a minute."""

STRIDE: Final = 0.6180339887498949
"""Of the draws, as part of a message: the golden ratio, with which any number of them lies evenly."""

Answer = ParamSpec("Answer")


class Durations:
    """Those of one method."""

    __slots__ = ("classes", "total_ms")

    def __init__(self) -> None:
        self.classes = [0] * (len(REQUEST_BOUNDS_MS) + 1)
        self.total_ms = 0.0

    def add(self, took_ms: float, count: int) -> None:
        """So many requests took so long."""
        self.classes[bisect_left(REQUEST_BOUNDS_MS, took_ms)] += count
        self.total_ms += took_ms * count


class RequestTimes:
    """Durations since the server began, from a request's arrival until its answer is on its way."""

    __slots__ = ("_drawn", "by_method", "of_unknown")

    def __init__(self, methods: Iterable[str]) -> None:
        self.by_method = {method: Durations() for method in methods}
        self.of_unknown = Durations()
        """Of methods that do not exist, which a client may invent at will [ARCH-8]."""
        self._drawn = 0.0

    def draw(self, count: int) -> int:
        """Give the place of the request that is to be timed among so many that came in one message."""
        self._drawn = (self._drawn + STRIDE) % 1.0
        return int(self._drawn * count)

    def timed(self, method: str, on_answer: Callable[Answer, None], stands_for: int = 1) -> Callable[Answer, None]:
        """Give what is to be called in place of `on_answer`, for a request that arrives now.

        A request that is never answered, because its client has gone, does not count.
        """
        durations = self.by_method.get(method, self.of_unknown)
        return partial(_answered, durations, stopwatch_ms(), stands_for, on_answer)


def _answered(
    durations: Durations,
    began_ms: float,
    stands_for: int,
    on_answer: Callable[Answer, None],
    *answer: Answer.args,
    **named: Answer.kwargs,
) -> None:
    on_answer(*answer, **named)
    durations.add(stopwatch_ms() - began_ms, stands_for)
