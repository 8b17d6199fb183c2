"""Writes consistent batches for tests of the log, without kernel and codec."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from dexd.log.event_log import (
    Batch,
    BlobRow,
    EventLog,
    Removal,
    RunRow,
    Snapshot,
    StoredEvent,
    StreamRow,
    TimerRow,
    UploadRow,
)

RUNNING, COMPLETED = 1, 2

Restart: TypeAlias = Callable[[], EventLog]
"""Closes a log if it is open, and opens it again with what was committed."""


class LogAuthor:
    """Numbers events as the engine would; what it hands out counts as written."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self._versions: dict[int, int] = {}
        self._now = 1_000

    def event(self, stream_id: int, kind: str = "StepScheduled", payload: bytes = b"payload") -> StoredEvent:
        """The next event of a stream; its sequence number is set by `batch`."""
        self._now += 1
        version = self._versions[stream_id] = self._versions.get(stream_id, 0) + 1
        return StoredEvent(0, stream_id, version, self._now, kind, 1, payload)

    def batch(
        self,
        *events: StoredEvent,
        runs: Sequence[RunRow] = (),
        snapshots: Sequence[Snapshot] = (),
        timers: Sequence[TimerRow] = (),
        streams: Sequence[StreamRow] = (),
        removals: Sequence[Removal] = (),
    ) -> Batch:
        """Continue the log with these events."""
        last_seq = self.log.last_seq
        numbered = [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(events, last_seq + 1)]
        return Batch(last_seq, numbered, runs, snapshots, timers, streams, removals)

    def append(
        self,
        *events: StoredEvent,
        runs: Sequence[RunRow] = (),
        snapshots: Sequence[Snapshot] = (),
        timers: Sequence[TimerRow] = (),
        streams: Sequence[StreamRow] = (),
        removals: Sequence[Removal] = (),
    ) -> Batch:
        """Append a batch and give it back."""
        batch = self.batch(*events, runs=runs, snapshots=snapshots, timers=timers, streams=streams, removals=removals)
        self.log.append(batch)
        return batch

    def append_large(
        self,
        *events: StoredEvent,
        blobs: Sequence[BlobRow] = (),
        uploads: Sequence[UploadRow] = (),
        uploads_until: int = 0,
    ) -> None:
        """Append events with the large values that they refer to, and uploads."""
        batch = self.batch(*events)
        self.log.append(msgspec.structs.replace(batch, blobs=blobs, uploads=uploads, uploads_until=uploads_until))

    def append_forgetting(self, until: int) -> None:
        """Have the ordinals forgotten that expire until then."""
        self.log.append(Batch(self.log.last_seq, (), forget_ordinals_until=until))

    def append_stream_removals(self, *stream_ids: int) -> None:
        """Have streams that are not runs' leave the log."""
        self.log.append(Batch(self.log.last_seq, (), stream_removals=stream_ids))

    def start(self, row: RunRow, events: int = 1) -> None:
        """Append a run with a few events."""
        self.append(*(self.event(row.stream_id) for _ in range(events)), runs=[row])


def run_row(stream_id: int, *, flow_id: str = "", ordinal: int = 1, flow_type: str = "Order") -> RunRow:
    """An open run; every stream has its own Flow ID unless one is given."""
    started_at = 1_000 * stream_id
    return RunRow(
        stream_id, f"run-{stream_id}", flow_id or f"flow-{stream_id}", ordinal, flow_type, RUNNING, started_at, 0
    )


def closed(row: RunRow) -> RunRow:
    """The row after the run has completed."""
    return msgspec.structs.replace(row, status=COMPLETED, closed_at=row.started_at + 500)


def removal(row: RunRow, *, expires_at: int = 0) -> Removal:
    """What takes the run out of the log."""
    return Removal(row.stream_id, row.flow_id, row.ordinal, expires_at)
