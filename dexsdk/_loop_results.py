"""Results of handlers on one event loop: those of one turn leave together.

A handler that ends pays for a place in a queue only; the lock of the worker, the streams that its end frees and the way
to the writing thread are paid once per turn.
"""

from collections import deque
from collections.abc import Callable

from dexsdk._delivery import Delivery, DeliverySink, Ended, Result


class LoopResults:
    """Results on their way from one loop to the worker's sessions."""

    def __init__(self, call_soon: Callable[[Callable[[], object]], object]) -> None:
        """Take the loop's way to run something in its next turn."""
        self._call_soon = call_soon
        self._ended: deque[tuple[DeliverySink, Ended]] = deque()

    def put(self, sink: DeliverySink, delivery: Delivery, result: Result | None) -> None:
        """Have a result handed in soon; called on the loop."""
        if not self._ended:
            self._call_soon(self.hand_in)
        self._ended.append((sink, (delivery, result)))

    def hand_in(self) -> None:
        """Hand in all results now.

        Any thread may do so, because a handler that blocks the loop must not keep the results of others back. Each
        result is taken out once, whoever does it.
        """
        by_sink: dict[DeliverySink, list[Ended]] = {}
        while self._ended:
            try:
                sink, ended = self._ended.popleft()
            except IndexError:  # Another thread was faster.
                break
            by_sink.setdefault(sink, []).append(ended)
        for sink, group in by_sink.items():
            sink.finish(group)
