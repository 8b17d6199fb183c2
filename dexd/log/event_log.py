"""The port: what a partition's log does, whatever engine is under it [ARCH-15].

Payloads are opaque bytes here; `dexd.codec.event_codec` makes and reads them. Appending is synchronous and is called by
one thread only; reading is safe from any thread and sees only committed batches.

The values are msgspec structs because one is built per event on the hot path, at a tenth of a frozen dataclass's cost.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec

from dexd.core.index_values import IndexKeyTypes
from dexd.log.parking import ParkedRuns, ParkingRow
from dexd.search.evaluation import Position
from dexd.search.predicates import CheckedQuery, Scalar

ORDINALS_FORGOTTEN_MAX = 256
"""Rows that one batch takes out of the ordinals at most, so that no commit is held up by many."""

IsOver: TypeAlias = Callable[[], bool]

FOUND_BYTES_MAX = 4 << 20
"""Texts of a page of search results, unless its first row alone has more [SEARCH-8]."""


def never_over() -> bool:
    """No reason to give up."""
    return False


class StoredEvent(msgspec.Struct, frozen=True, gc=False):
    """One row of the log."""

    seq: int
    """Global, ascending from 1; gap-free until runs are removed."""
    stream_id: int
    version: int
    """Gap-free in its stream, ascending from 1."""
    at: int
    type: str
    type_version: int
    payload: bytes


class RunRow(msgspec.Struct, frozen=True, gc=False):
    """Projection of one run, written in the transaction of the events that changed it [ARCH-10]."""

    stream_id: int
    run_id: str
    flow_id: str
    ordinal: int
    flow_type: str
    status: int
    started_at: int
    closed_at: int
    """0 while the run is open."""
    error_type: int = 0
    error_message: str = ""
    start_request_id: str = ""
    """Request that started the execution [START-3]."""
    first_run_id: str = ""
    """First run of the execution; empty when this is it."""
    chain_id: str = ""
    """First run of its chain, the runs that roll-over joins; empty when this is it."""
    parent_flow_id: str = ""
    schedule_id: str = ""
    last_error: str = ""
    """`type: detail`; of an open run as of the last search that looked at it [SEARCH-3]."""


class ListedRun(msgspec.Struct, frozen=True, gc=False):
    """A row, and what a list shows beside it."""

    row: RunRow
    history_events: int
    """Events of the run."""
    next_deadline: int
    """Earliest pending timer of the run, 0 if there is none."""


class TimerRow(msgspec.Struct, frozen=True, gc=False):
    """Projection of a Step execution that wakes up by itself: a Timer of its Wait, or a retry [ARCH-10]."""

    stream_id: int
    step_execution_id: str
    at: int
    """0 takes the row away."""


class BlobRow(msgspec.Struct, frozen=True, gc=False):
    """Projection: events of a stream refer to a large value, which is kept as long as any does [BLOB-4]."""

    stream_id: int
    digest: bytes
    size: int


class UploadRow(msgspec.Struct, frozen=True, gc=False):
    """A session has shown that it has a large value, and may refer to it [BLOB-3]. Derived from nothing."""

    session: bytes
    """Digest of the session's key."""
    digest: bytes
    at: int


class IndexKeyRow(msgspec.Struct, frozen=True, gc=False):
    """A key of search that somebody has named, which keeps its type for ever [ATTR-10]."""

    key: str
    type: int


class IndexRow(msgspec.Struct, frozen=True, gc=False):
    """Projection of one index value of a run [ATTR-11], or of what its Steps do [SEARCH-3]."""

    stream_id: int
    key: str
    values: tuple[Scalar, ...]
    """One, or the elements of an array; none takes the rows away."""
    is_text: bool = False
    """Searched by word."""


class FoundRun(msgspec.Struct, frozen=True, gc=False):
    """A row that a search found."""

    listed: ListedRun
    indexed: Sequence[IndexRow]
    """Its index values by key; what Steps do is not among them."""
    position: Position
    """Where it stands in the order of the search."""


class FoundPage(msgspec.Struct, frozen=True, gc=False):
    """Rows in the order of the search."""

    runs: Sequence[FoundRun]
    has_more: bool


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """Folded state of a stream at a version; replaces the stream's older snapshot."""

    stream_id: int
    version: int
    state_version: int
    """Version of the state's encoding; one that is not current is ignored and the stream is folded from its events."""
    payload: bytes


class StreamRow(msgspec.Struct, frozen=True, gc=False):
    """Projection of a stream that is not a run's, written in the transaction of its events [ARCH-10]."""

    stream_id: int
    kind: str
    """What it belongs to, as `schedule`."""
    name: str
    """Names at most one open stream of the kind."""
    status: int
    created_at: int
    is_closed: bool = False
    """A restart does not need it."""
    closed_at: int = 0
    """Since when; 0 while it is open."""


class Removal(msgspec.Struct, frozen=True, gc=False):
    """A closed run that leaves the log, with everything that belongs to it [KEEP-1, KEEP-3]."""

    stream_id: int
    flow_id: str
    ordinal: int
    """Kept as the last one of the Flow ID if no run of it is left [ID-10]."""
    ordinal_expires_at: int
    """Until when it is kept; 0 is for ever."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Everything of one transaction. Either all of it is durable after `append`, or none."""

    expected_seq: int
    """The log's last sequence number before this batch; another value means another writer: refused [ARCH-15]."""
    events: Sequence[StoredEvent]
    runs: Sequence[RunRow] = ()
    """Rows to insert, or to replace the run's row with; what names the run and its start never changes. At most one per
    run.
    """
    snapshots: Sequence[Snapshot] = ()
    timers: Sequence[TimerRow] = ()
    """Rows to put in place of those of the same Step executions; at most one per Step execution."""
    streams: Sequence[StreamRow] = ()
    """Rows to insert, or to replace the stream's row with; at most one per stream."""
    removals: Sequence[Removal] = ()
    """Runs that readers do not find any more from this commit on; `EventLog.remove_some` deletes their events."""
    forget_ordinals_until: int = 0
    """Ordinals that expire up to this instant are forgotten, `ORDINALS_FORGOTTEN_MAX` of them at most."""
    imported: Sequence[int] = ()
    """Streams of this batch that come from another log, with that one's instants."""
    parking: Sequence[ParkingRow] = ()
    """Runs that are parked from now on, or are not any more; at most one per run."""
    blobs: Sequence[BlobRow] = ()
    """Rows to insert unless they exist; the same one may come several times."""
    uploads: Sequence[UploadRow] = ()
    """Rows to put in place of those of the same session and value."""
    uploads_until: int = 0
    """Uploads of before this instant are forgotten first."""
    indexed: Sequence[IndexRow] = ()
    """Rows to put in place of those of the same runs and keys; at most one per run and key. Once another run goes on
    with the execution, the rows of the runs before it are gone.
    """
    index_keys: Sequence[IndexKeyRow] = ()
    """Keys that are new."""
    stream_removals: Sequence[int] = ()
    """Closed streams, not of runs, that leave the log as runs of `removals` do [KEEP-1]."""


class Projections(msgspec.Struct, frozen=True, gc=False):
    """Everything that is derived from the events, made anew."""

    version: int
    """Form of the rows, see `EventLog.projection_version`."""
    runs: Sequence[RunRow]
    snapshots: Sequence[Snapshot]
    timers: Sequence[TimerRow]
    streams: Sequence[StreamRow] = ()
    parking: Sequence[ParkingRow] = ()
    blobs: Sequence[BlobRow] = ()
    indexed: Sequence[IndexRow] = ()


class StoredStream(msgspec.Struct, frozen=True, gc=False):
    """What recovery needs of a stream that is not a run's: its row, its snapshot if any, and the events after it."""

    row: StreamRow
    snapshot: Snapshot | None
    events: Sequence[StoredEvent]


class StoredRun(msgspec.Struct, frozen=True, gc=False):
    """What recovery needs of one run: its row, its snapshot if any, and the events after it."""

    row: RunRow
    snapshot: Snapshot | None
    events: Sequence[StoredEvent]
    is_parked: bool = False
    """Whether the run is parked; there is no event after its snapshot then."""


class RunFilter(msgspec.Struct, frozen=True, gc=False):
    """Selects rows for a list; empty fields match all."""

    flow_type: str = ""
    status: int = 0
    flow_id_prefix: str = ""
    before_stream_id: int = 0
    """Keyset position: only rows with a smaller stream ID; 0 starts at the newest."""


class EventLog(ParkedRuns, Protocol):
    """A partition's ordered log. Implementations pass tests/conformance/event_log."""

    @property
    def last_seq(self) -> int:
        """Sequence number of the newest committed event, 0 when the log is empty."""
        ...

    @property
    def last_stream_id(self) -> int:
        """Largest stream ID ever used, 0 when there is none."""
        ...

    @property
    def last_at(self) -> int:
        """Instant of the newest committed event, 0 when there is none; server time continues from it [TIMER-6]."""
        ...

    @property
    def projection_version(self) -> int:
        """Form in which the projections were last made anew, 0 if never; theirs who write them to compare [ARCH-10]."""
        ...

    def replace_projections(self, projections: Projections, more: Iterable[Projections] = ()) -> None:
        """Put these rows, and `more` of the same version, in place of all that there are, in one commit.

        `more` may read the log while it is written, and may raise; nothing is changed then. The events stay as they
        are.

        For the one who appends, before anything is appended. Raises as `append`.
        """
        ...

    @property
    def removed_events(self) -> int:
        """How many numbers up to `last_seq` are missing because their runs were removed."""
        ...

    def remove_some(self, rows_max: int) -> bool:
        """Delete up to so many events of removed runs in one commit; whether more are left.

        For the one who appends, between batches. Does not raise: what is not deleted now is deleted later, also after a
        restart, and if storage has failed, the next append says so.
        """
        ...

    def streams_leaving(self) -> Sequence[int]:
        """Streams of removed runs that have events still."""
        ...

    def is_retained(self, stream_id: int) -> bool:
        """Whether the stream is that of a run that readers find."""
        ...

    def imported_streams(self) -> Sequence[int]:
        """Streams that came from another log and are retained."""
        ...

    def append(self, batch: Batch) -> None:
        """Commit a batch with fsync. An empty one is a durable write too: it checks that the log can be written.

        Raises:
            SequenceConflictError: `expected_seq` is not the last sequence number, the events do not continue from it
                without a gap, or a version of a stream or a run ID exists already; nothing was written.
            LogUnavailableError: the write was refused and nothing was written; it may succeed later (locked).
            LogFullError: the disk is full and nothing was written; it may succeed later.
            LogFailedError: an I/O error or a failed fsync; what is durable is unknown, the process must end [ARCH-4].
        """
        ...

    def active_runs(self) -> Iterator[StoredRun]:
        """Every open run that is not parked, in the order of its start, ready to fold; all as of one commit."""
        ...

    def parked_runs(self, stream_ids: Sequence[int]) -> Sequence[Snapshot]:
        """Those of the runs that are parked, in any order, by one look-up for all of them.

        The snapshots are all there is of them. One that lacks its snapshot is there with `state_version` 0.
        """
        ...

    def parked_runs_of(self, flow_ids: Sequence[str]) -> Sequence[Snapshot]:
        """As `parked_runs`, of these Flow IDs."""
        ...

    def latest_run(self, flow_id: str) -> StoredRun | None:
        """The run with the highest ordinal of a Flow ID, ready to fold. A single keyed look-up when there is none."""
        ...

    def flow_ids_in_use(self, flow_ids: Sequence[str]) -> frozenset[str]:
        """Which of these Flow IDs have a retained run or a last ordinal, by one look-up for all of them."""
        ...

    def last_ordinal(self, flow_id: str) -> int:
        """The ordinal of the last execution of a Flow ID whose runs are all removed; 0 if it is not known [ID-10]."""
        ...

    def has_expired_ordinals(self, until: int) -> bool:
        """Whether the last ordinal of some Flow ID expires up to an instant."""
        ...

    def closed_runs(self, until: int, after: tuple[int, int], limit: int) -> Sequence[RunRow]:
        """Runs that closed up to an instant, in the order of their closing and then of their streams.

        `after` is the instant and stream behind which to begin.
        """
        ...

    def closed_streams(self, until: int, after: tuple[int, int], limit: int) -> Sequence[StreamRow]:
        """Streams that are not runs' and closed up to an instant; otherwise as `closed_runs`."""
        ...

    def run_by_id(self, run_id: str) -> StoredRun | None:
        """The run of that ID, ready to fold."""
        ...

    def newest_of_chain(self, chain_id: str) -> StoredRun | None:
        """The newest run of the chain that this run began, ready to fold; None if none is retained."""
        ...

    def chain_streams(self, chain_id: str) -> Sequence[int]:
        """Streams of the retained runs of a chain, oldest first."""
        ...

    def last_run(self, flow_id: str, ordinal: int) -> StoredRun | None:
        """The newest run of an execution, ready to fold."""
        ...

    def run_by_start(self, flow_id: str, request_id: str) -> StoredRun | None:
        """The run of a Flow ID that this request started, ready to fold. A keyed look-up or two."""
        ...

    def run_rows(self, flow_id: str) -> Sequence[RunRow]:
        """All retained runs of a Flow ID, newest first."""
        ...

    def list_runs(self, selection: RunFilter, limit: int) -> Sequence[ListedRun]:
        """The latest run of each execution, newest start first."""
        ...

    @property
    def page_secret(self) -> bytes:
        """What tokens of result pages are signed with; another one for each log [SEARCH-8]."""
        ...

    def index_keys(self) -> IndexKeyTypes:
        """Every key of search that was ever named, with its type [ATTR-10]."""
        ...

    def index_rows(self, stream_id: int) -> Sequence[IndexRow]:
        """All index rows of a run by key."""
        ...

    def search(
        self, query: CheckedQuery, after: Position | None, limit: int, is_over: IsOver = never_over
    ) -> FoundPage:
        """The latest runs of the executions that a query finds, in its order [SEARCH-7].

        Args:
            query: What to find.
            after: Position of the row before the page; None begins.
            limit: Rows at most; a page also ends at 4 MiB, but has one row if there is any [SEARCH-8].
            is_over: Asked now and then; True gives up.

        Raises:
            QueryTooSlowError: `is_over` said so.
            LogError: as all reading.
        """
        ...

    def count(self, query: CheckedQuery, group_by: str = "", is_over: IsOver = never_over) -> Mapping[str, int]:
        """How many executions a query finds: all under "", and those with each value of one of `GROUP_FIELDS`.

        A Flow without a value is in no group, one with several is in each. Raises as `search`.
        """
        ...

    def matching(self, query: CheckedQuery, is_over: IsOver = never_over) -> Sequence[RunRow]:
        """The latest runs of all executions that a query finds at this instant, in its order. Raises as `search`."""
        ...

    def pending_timers(self, stream_id: int) -> Sequence[TimerRow]:
        """Timer rows of a run, by Step execution ID."""
        ...

    def open_streams(self) -> Sequence[StoredStream]:
        """Every stream that is not a run's and not closed, in the order of creation, with what is needed to fold it."""
        ...

    def stream_by_name(self, kind: str, name: str) -> StoredStream | None:
        """The newest stream of that kind and name, closed or not, ready to fold."""
        ...

    def list_streams(self, kind: str, before_stream_id: int, limit: int) -> Sequence[StreamRow]:
        """Rows of a kind, newest first, with a smaller stream ID; 0 starts at the newest."""
        ...

    def refers_to(self, chain_id: str, digest: bytes) -> bool:
        """Whether events of a run of a chain refer to a large value."""
        ...

    def blobs_in_use(self, digests: Sequence[bytes]) -> frozenset[bytes]:
        """Which of these large values any event refers to."""
        ...

    def was_uploaded(self, session: bytes, digest: bytes) -> bool:
        """Whether there is an upload row of that session and value."""
        ...

    def read_stream(
        self, stream_id: int, from_version: int, limit: int, types: Iterable[str] = ()
    ) -> Sequence[StoredEvent]:
        """Events of one stream from a version on, optionally only of some types."""
        ...

    def read_all(self, from_seq: int, limit: int) -> Sequence[StoredEvent]:
        """Events of the whole log from a sequence number on."""
        ...

    def close(self) -> None:
        """Checkpoint and release everything; idempotent."""
        ...
