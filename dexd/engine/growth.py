"""Who wants to know when a stream has grown: readers that follow a history [HIST-5]."""

import asyncio
from collections.abc import Iterable

from dexd.log.event_log import StoredEvent


class Growth:
    """One future per followed stream, shared by all its followers."""

    __slots__ = ("_grown",)

    def __init__(self) -> None:
        self._grown: dict[int, asyncio.Future[None]] = {}

    def of(self, stream_id: int) -> asyncio.Future[None]:
        """Done when an event of the stream is committed after this call. To be awaited through asyncio.shield."""
        grown = self._grown.get(stream_id)
        if grown is None:
            grown = self._grown[stream_id] = asyncio.get_running_loop().create_future()
        return grown

    def committed(self, events: Iterable[StoredEvent]) -> None:
        """Wake the followers of streams with new events."""
        if not self._grown:
            return
        for stream_id in dict.fromkeys(event.stream_id for event in events):
            grown = self._grown.pop(stream_id, None)
            if grown is not None:
                grown.set_result(None)

    def wake_all(self) -> None:
        """Wake every follower, to look again or to learn that the server stops."""
        grown, self._grown = self._grown, {}
        for future in grown.values():
            future.set_result(None)
