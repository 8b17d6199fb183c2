"""Everything that waits for one commit: what is appended, and what is owed to the world afterwards [ARCH-3]."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from dexd.codec.event_codec import append_stored
from dexd.codec.state_codec import to_snapshot, to_stream_snapshot
from dexd.core.blobs import REFERENCE_MARK, references_in
from dexd.core.effects import Effect
from dexd.core.flow.state import RunState
from dexd.core.ids import RunId, StreamId
from dexd.core.members import FAILED
from dexd.core.outcome import RecordedEvent, RecordedStreamEvent
from dexd.core.rejections import Rejection
from dexd.core.streams import StreamState, summary_of
from dexd.core.values import FlowErrorType
from dexd.engine.ports import OnAnswer
from dexd.log.event_log import (
    Batch,
    BlobRow,
    IndexKeyRow,
    IndexRow,
    Removal,
    RunRow,
    Snapshot,
    StoredEvent,
    StreamRow,
    TimerRow,
    UploadRow,
)
from dexd.log.parking import ParkingRow


class OpenBatch:
    """Collects outcomes until the writer is free. Lists keep the order in which things were decided."""

    __slots__ = (
        "answers",
        "closed",
        "effects",
        "events",
        "expected_seq",
        "forget_ordinals_until",
        "index_keys",
        "indexed",
        "is_check",
        "last_seq",
        "leaving",
        "parked",
        "parking",
        "runs",
        "snapshots",
        "stream_removals",
        "streams",
        "timers",
        "uploads",
        "uploads_until",
    )

    def __init__(self, expected_seq: int) -> None:
        """`expected_seq` is the last sequence number of the batch before."""
        self.expected_seq = self.last_seq = expected_seq
        self.is_check = False
        """Somebody wants to know whether the log can be written, and how fast."""
        self.events: list[StoredEvent] = []
        self.effects: list[Effect] = []
        self.answers: list[tuple[OnAnswer[Any], Any]] = []
        self.runs: dict[int, RunRow] = {}
        """Rows to write, by stream; the last state of a run in this batch."""
        self.snapshots: dict[int, Snapshot] = {}
        self.timers: dict[tuple[int, str], TimerRow] = {}
        self.streams: dict[int, StreamRow] = {}
        """Rows of streams that are not runs'."""
        self.uploads: list[UploadRow] = []
        """Large values that sessions have shown to have; whoever has shown one waits for the commit."""
        self.uploads_until = 0
        """Uploads of before this instant are to be forgotten."""
        self.indexed: dict[tuple[int, str], IndexRow] = {}
        """Index rows to write, by stream and key."""
        self.index_keys: list[IndexKeyRow] = []
        self.closed: list[RunState] = []
        """Runs that ended; they may leave memory after the commit."""
        self.leaving: dict[RunId, Removal] = {}
        """Closed runs that leave the log [KEEP-1]."""
        self.stream_removals: list[StreamId] = []
        """Closed streams, not of runs, that leave the log."""
        self.forget_ordinals_until = 0
        self.parking: dict[int, ParkingRow] = {}
        self.parked: list[RunState] = []
        """Open runs that leave memory after the commit, unless something happens to them before."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits for it."""
        return not (self.events or self.effects or self.answers or self.parking or self.indexed or self.index_keys)

    @property
    def needs_commit(self) -> bool:
        """Whether it must go through the log before anything of it is released."""
        return bool(
            self.events
            or self.is_check
            or self.parking
            or self.leaving
            or self.stream_removals
            or self.forget_ordinals_until
            or self.uploads
            or self.uploads_until
            or self.indexed
            or self.index_keys
        )

    def record(self, events: Sequence[RecordedEvent | RecordedStreamEvent]) -> None:
        """Append events."""
        self.last_seq = append_stored(self.events, events, self.last_seq)

    def note_run(self, run: RunState) -> None:
        """Write the run's row as the run is now."""
        self.runs[run.stream_id] = row_of(run)

    def note_timer(self, row: TimerRow) -> None:
        """Write a timer row."""
        self.timers[row.stream_id, row.step_execution_id] = row

    def note_index(self, row: IndexRow) -> None:
        """Write an index row."""
        self.indexed[row.stream_id, row.key] = row

    def note_snapshot(self, run: RunState) -> None:
        """Write a snapshot of the run as it is now."""
        self.snapshots[run.stream_id] = to_snapshot(run)

    def note_stream(self, state: StreamState) -> None:
        """Write the row of a stream that is not a run's, as the stream is now."""
        self.streams[state.stream_id] = row_of_stream(state)

    def note_stream_snapshot(self, state: StreamState) -> None:
        """Write a snapshot of a stream that is not a run's, as it is now."""
        self.snapshots[state.stream_id] = to_stream_snapshot(state)

    def note_removal(self, row: RunRow, ordinal_expires_at: int) -> None:
        """Have a run leave the log."""
        removal = Removal(row.stream_id, row.flow_id, row.ordinal, ordinal_expires_at)
        self.leaving[RunId(row.run_id)] = removal

    def note_parked(self, run: RunState, row: ParkingRow) -> None:
        """Write all that is needed of the run while it is not in memory."""
        self.note_snapshot(run)
        self.parking[run.stream_id] = row
        self.parked.append(run)

    def to_append(self) -> Batch:
        """What the log gets."""
        return Batch(
            self.expected_seq,
            self.events,
            list(self.runs.values()),
            list(self.snapshots.values()),
            list(self.timers.values()),
            list(self.streams.values()),
            list(self.leaving.values()),
            self.forget_ordinals_until,
            parking=list(self.parking.values()),
            blobs=blob_rows(self.events),
            uploads=self.uploads,
            uploads_until=self.uploads_until,
            indexed=list(self.indexed.values()),
            index_keys=self.index_keys,
            stream_removals=self.stream_removals,
        )

    def refuse(self, rejection: Rejection) -> None:
        """Nothing of it was written: refuse whoever waits for an answer."""
        for on_answer, _ in self.answers:
            on_answer(rejection)


_PAYLOAD_OF = attrgetter("payload")


def blob_rows(events: Sequence[StoredEvent]) -> list[BlobRow]:
    """Which large values events refer to; a search in their encoded form, because hardly any does [BLOB-4]."""
    if b"".join(map(_PAYLOAD_OF, events)).find(REFERENCE_MARK) < 0:  # the usual case, in one go
        return []
    return [
        BlobRow(event.stream_id, reference.digest, reference.size)
        for event in events
        if event.payload.find(REFERENCE_MARK) >= 0  # with bytes, `in` raises and catches an error first
        for reference in references_in(event.payload)
    ]


def row_of(run: RunState) -> RunRow:
    """The row of a run as it is now [ARCH-10]."""
    terms = run.terms
    parent, schedule = (None, None) if terms is None else (terms.parent, terms.schedule)
    return RunRow(
        run.stream_id,
        run.run_id,
        run.flow_id,
        run.ordinal,
        run.flow_type,
        int(run.status),  # a plain number is bound at once, a member of an enumeration after a search for its adapter
        run.started_at,
        run.closed_at,
        int(run.error_type),
        run.error_message,
        run.start_request_id,
        run.first_run_id,
        run.chain_id if run.chain_id != run.run_id else "",
        "" if parent is None else parent.flow_id,
        "" if schedule is None else schedule.schedule_id,
        last_error_of(run),
    )


def last_error_of(run: RunState) -> str:
    """`type: detail` of the newest failed attempt, or of what else the Flow FAILED with [SEARCH-3]."""
    if run.status is FAILED and run.error_type not in _ERRORS_OF_STEPS:
        return f"{run.error_type.name}: {run.error_message}"
    error = run.last_error
    return "" if error is None else f"{error.error_type}: {error.detail}"


_ERRORS_OF_STEPS = (FlowErrorType.WORKER_API_FAILED, FlowErrorType.INVALID_USER_FLOW_CODE)
"""Why a Flow FAILED that a failed attempt tells more about."""


def row_of_stream(state: StreamState) -> StreamRow:
    """The row of a stream that is not a run's, as it is now [ARCH-10]."""
    summary = summary_of(state)
    return StreamRow(
        state.stream_id,
        summary.kind,
        summary.name,
        summary.status,
        summary.created_at,
        is_closed=summary.is_closed,
        closed_at=summary.closed_at,
    )
