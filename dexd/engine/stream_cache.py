"""Schedules and jobs that the kernel has not in memory: brought from the log, and let go for good [ARCH-11, KEEP-1]."""

from collections.abc import Iterable

from dexd.core.ids import StreamId
from dexd.core.kernel import Kernel
from dexd.core.streams import StreamKind, StreamState
from dexd.core.wanted import StreamRef
from dexd.engine.recovery import restore_stream
from dexd.log.event_log import EventLog, StreamRow


class StreamCache:
    """Brings closed streams that are not runs' from the log. Open ones never leave the kernel's memory."""

    __slots__ = ("_kernel", "_leaving", "_log")

    def __init__(self, log: EventLog, kernel: Kernel) -> None:
        self._log = log
        self._kernel = kernel
        self._leaving: set[StreamId] = set()
        """Streams that the log has until the commit under way, and nobody finds any more."""

    def look_up(self, wanted: StreamRef) -> None:
        """Bring what the kernel wants into memory, if the log has it."""
        state = self.restored(wanted.kind, wanted.name)
        if state is not None:
            self._kernel.adopt_stream(state)

    def restored(self, kind: StreamKind, name: str) -> StreamState | None:
        """The newest stream of that kind and name as the log has it, for reading; None if there is none."""
        stored = self._log.stream_by_name(kind, name)
        if stored is None or stored.row.stream_id in self._leaving:
            return None
        return restore_stream(self._log, stored)

    def let_go(self, rows: Iterable[StreamRow]) -> list[StreamId]:
        """Forget closed streams that are about to leave the log; until `have_left` nobody finds them."""
        stream_ids = [StreamId(row.stream_id) for row in rows]
        for stream_id in stream_ids:
            self._kernel.forget_stream(stream_id)
        self._leaving.update(stream_ids)
        return stream_ids

    def have_left(self, stream_ids: Iterable[StreamId]) -> None:
        """The log does not have these streams any more."""
        self._leaving.difference_update(stream_ids)
