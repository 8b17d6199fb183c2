"""Streams and workers that became free in this turn, and may take calls before it ends [ROUTE-7, ROUTE-8].

They wait until the turn's new calls are in their queues, so that a call that waited longer is not overtaken. Only the
Flow's own next call may go before, straight to the stream that its last one has just freed, if nothing else waits.
"""

from dexd.core.ids import WorkerId
from dexd.core.matching.calls import Call
from dexd.core.matching.matcher import Matcher
from dexd.core.matching.sessions import Stream, Worker


class FreedStreams:
    """Empty between two commands."""

    __slots__ = ("_matcher", "eased", "streams")

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self.streams: list[Stream] = []
        self.eased: dict[WorkerId, Worker] = {}
        """Workers that were full by their own numbers and are so no more."""

    def add(self, stream: Stream) -> None:
        """The worker answered on the stream."""
        self.vacate(stream)
        self.streams.append(stream)

    def vacate(self, stream: Stream) -> None:
        """Nothing occupies the stream any more; its worker may take a call on another one instead."""
        if stream.token is None:
            return
        worker = stream.session.worker
        stream.token = None
        if worker.is_full():
            self.eased[worker.worker_id] = worker
        worker.busy -= 1
        if worker.busy < worker.ranked_busy:
            self._matcher.rank_again(worker)

    def take_for(self, worker: Worker, call: Call) -> Stream | None:
        """The stream that the Flow's last call has just freed, unless another call waits for it [ROUTE-8].

        So a chain of Steps stays on its stream without making it idle in between.
        """
        if not self.streams:
            return None
        stream = self.streams[-1]
        if stream.session.worker is not worker or stream.session.is_draining:
            return None
        if stream.queue not in (call.run.flow_type, worker.own_queue) or not self._matcher.is_quiet(stream):
            return None
        return self.streams.pop()

    def take(self) -> tuple[list[Stream], list[Worker]]:
        """Take out the streams, and the workers for whose other streams calls may wait."""
        streams, self.streams = self.streams, []
        eased = [worker for worker in self.eased.values() if not self._matcher.is_quiet_for(worker)]
        self.eased.clear()
        return streams, eased
