"""The log in memory: the double of `SqliteLog` for tests and simulation, held to the same contract suite.

It is durable as long as it is referenced: a simulated crash drops everything else and keeps the log. It serves one
thread, which is what a simulation has.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from dexd.core.index_values import IndexKeyTypes
from dexd.log.continuity import check_continuity
from dexd.log.errors import SequenceConflictError
from dexd.log.event_log import (
    FOUND_BYTES_MAX,
    ORDINALS_FORGOTTEN_MAX,
    Batch,
    BlobRow,
    FoundPage,
    FoundRun,
    IndexRow,
    IsOver,
    ListedRun,
    Projections,
    Removal,
    RunFilter,
    RunRow,
    Snapshot,
    StoredEvent,
    StoredRun,
    StoredStream,
    StreamRow,
    TimerRow,
    never_over,
)
from dexd.log.memory_search import MemorySearch
from dexd.log.parking import ChildWait, ParkedCounts, ParkedDeadline, ParkingRow
from dexd.log.search_facts import texts_bytes
from dexd.log.search_sql import STEP_KEYS
from dexd.search.evaluation import Position
from dexd.search.predicates import CheckedQuery


class MemoryLog:
    """An EventLog without a file."""

    def __init__(self) -> None:
        self._events: list[StoredEvent] = []
        self._streams: dict[int, list[StoredEvent]] = {}
        self._runs: dict[int, RunRow] = {}
        self._stream_ids: dict[str, int] = {}
        """Stream of each run ID."""
        self._flows: dict[str, list[int]] = {}
        """Streams of the runs of each Flow ID, in the order in which they were first written."""
        self._snapshots: dict[int, Snapshot] = {}
        self._timers: dict[int, dict[str, TimerRow]] = {}
        """Timer rows of each stream by Step execution."""
        self._others: dict[int, StreamRow] = {}
        """Rows of streams that are not runs', by stream."""
        self._parked: dict[int, ParkingRow] = {}
        self._blobs: dict[int, dict[bytes, BlobRow]] = {}
        """Large values that each stream refers to."""
        self._uploads: dict[tuple[bytes, bytes], int] = {}
        """When each session uploaded each large value."""
        self._search = MemorySearch()
        self._projection_version = 0
        self._last_seq = 0
        self._last_stream_id = 0
        self._last_at = 0
        self._leaving: dict[int, None] = {}
        """Streams of removed runs that have events still."""
        self._removed_events = 0
        self._ordinals: dict[str, tuple[int, int]] = {}
        """Last ordinal of Flow IDs without runs, and when it expires."""
        self._imported: dict[int, None] = {}

    @property
    def last_seq(self) -> int:
        return self._last_seq

    @property
    def last_stream_id(self) -> int:
        return self._last_stream_id

    @property
    def last_at(self) -> int:
        return self._last_at

    @property
    def removed_events(self) -> int:
        return self._removed_events

    def streams_leaving(self) -> Sequence[int]:
        return sorted(self._leaving)

    def is_retained(self, stream_id: int) -> bool:
        return stream_id in self._runs

    def imported_streams(self) -> Sequence[int]:
        return sorted(self._imported)

    @property
    def projection_version(self) -> int:
        return self._projection_version

    def replace_projections(self, projections: Projections, more: Iterable[Projections] = ()) -> None:
        parts = [projections, *more]
        self._runs, self._stream_ids, self._flows, self._snapshots, self._timers = {}, {}, {}, {}, {}
        self._others, self._parked, self._blobs = {}, {}, {}
        self._projection_version = projections.version
        keys, self._search = self._search.keys, MemorySearch()
        self._search.keys = keys
        for part in parts:
            self._keep(part.runs, part.snapshots, part.timers, part.indexed)
            self._keep_streams(part.streams)
            self._park(part.parking)
            self._keep_blobs(part.blobs)

    def append(self, batch: Batch) -> None:
        """Check all of the batch before any of it is kept, which is what makes it atomic."""
        check_continuity(batch, self.last_seq)
        self._check_versions(batch.events)
        self._check_run_ids(batch.runs)
        self._check_names(batch.streams)
        for event in batch.events:
            self._events.append(event)
            self._streams.setdefault(event.stream_id, []).append(event)
            self._last_stream_id = max(self._last_stream_id, event.stream_id)
            self._last_at = event.at if not batch.imported else max(self._last_at, event.at)
        self._last_seq += len(batch.events)
        self._search.learn(batch.index_keys)
        self._keep(batch.runs, batch.snapshots, batch.timers, batch.indexed)
        self._keep_streams(batch.streams)
        self._park(batch.parking)
        self._imported.update(dict.fromkeys(batch.imported))
        self._forget_ordinals(batch.forget_ordinals_until)
        self._keep_blobs(batch.blobs)
        if batch.uploads_until:
            self._uploads = {key: at for key, at in self._uploads.items() if at >= batch.uploads_until}
        self._uploads.update({(row.session, row.digest): row.at for row in batch.uploads})
        for removal in batch.removals:
            self._take_out(removal)
        for removal in batch.removals:
            if removal.flow_id not in self._flows:
                ordinal, _ = self._ordinals.get(removal.flow_id, (0, 0))
                self._ordinals[removal.flow_id] = max(ordinal, removal.ordinal), removal.ordinal_expires_at
        for stream_id in batch.stream_removals:
            self._leaving[stream_id] = None
            for rows in (self._others, self._snapshots, self._blobs):
                rows.pop(stream_id, None)

    def remove_some(self, rows_max: int) -> bool:
        gone: set[int] = set()
        for stream_id in sorted(self._leaving):
            events = self._streams.get(stream_id, [])
            room = rows_max - len(gone)
            gone.update(event.seq for event in events[:room])
            self._streams[stream_id] = events[room:]
            if self._streams[stream_id]:
                break
            del self._streams[stream_id], self._leaving[stream_id]
        if gone:
            self._events = [event for event in self._events if event.seq not in gone]
            self._removed_events += len(gone)
        return bool(self._leaving)

    def active_runs(self) -> Iterator[StoredRun]:
        open_streams = [stream_id for stream_id, row in sorted(self._runs.items()) if not row.closed_at]
        return iter([self._stored_run(stream_id) for stream_id in open_streams if stream_id not in self._parked])

    def parked_runs(self, stream_ids: Sequence[int]) -> Sequence[Snapshot]:
        parked = [stream_id for stream_id in sorted(stream_ids) if stream_id in self._parked]
        return [self._snapshots.get(stream_id) or Snapshot(stream_id, 0, 0, b"") for stream_id in parked]

    def parked_runs_of(self, flow_ids: Sequence[str]) -> Sequence[Snapshot]:
        return self.parked_runs([stream_id for flow_id in flow_ids for stream_id in self._flows.get(flow_id, ())])

    def parked_counts(self) -> ParkedCounts:
        return ParkedCounts(len(self._parked), sum(len(row.waits) for row in self._parked.values()))

    def parked_deadlines(self, after: ParkedDeadline, limit: int) -> Sequence[ParkedDeadline]:
        deadlines = sorted(ParkedDeadline(row.wakes_at, row.stream_id) for row in self._parked.values() if row.wakes_at)
        return [deadline for deadline in deadlines if deadline > after][:limit]

    def parking_of(self, stream_id: int) -> ParkingRow:
        return self._parked.get(stream_id) or ParkingRow(stream_id, is_parked=False)

    def waits_for(self, child_flow_ids: Sequence[str]) -> Sequence[ChildWait]:
        waits = [wait for _, row in sorted(self._parked.items()) for wait in row.waits]
        return [wait for wait in waits if wait.child_flow_id in child_flow_ids]

    def latest_run(self, flow_id: str) -> StoredRun | None:
        rows = self.run_rows(flow_id)
        return self._stored_run(rows[0].stream_id) if rows else None

    def flow_ids_in_use(self, flow_ids: Sequence[str]) -> frozenset[str]:
        return frozenset(flow_id for flow_id in flow_ids if flow_id in self._flows or flow_id in self._ordinals)

    def last_ordinal(self, flow_id: str) -> int:
        return self._ordinals.get(flow_id, (0, 0))[0]

    def has_expired_ordinals(self, until: int) -> bool:
        return any(0 < expires_at <= until for _, expires_at in self._ordinals.values())

    def closed_runs(self, until: int, after: tuple[int, int], limit: int) -> Sequence[RunRow]:
        closed = (row for row in self._runs.values() if row.closed_at and row.closed_at <= until)
        return sorted((row for row in closed if _closing(row) > after), key=_closing)[:limit]

    def closed_streams(self, until: int, after: tuple[int, int], limit: int) -> Sequence[StreamRow]:
        closed = (row for row in self._others.values() if row.closed_at and row.closed_at <= until)
        return sorted((row for row in closed if _closing(row) > after), key=_closing)[:limit]

    def run_by_id(self, run_id: str) -> StoredRun | None:
        stream_id = self._stream_ids.get(run_id)
        return None if stream_id is None else self._stored_run(stream_id)

    def newest_of_chain(self, chain_id: str) -> StoredRun | None:
        streams = self.chain_streams(chain_id)
        return self._stored_run(streams[-1]) if streams else None

    def chain_streams(self, chain_id: str) -> Sequence[int]:
        return [stream_id for stream_id, row in sorted(self._runs.items()) if chain_id in (row.run_id, row.chain_id)]

    def last_run(self, flow_id: str, ordinal: int) -> StoredRun | None:
        streams = (row.stream_id for row in self.run_rows(flow_id) if row.ordinal == ordinal)
        stream_id = next(streams, None)
        return None if stream_id is None else self._stored_run(stream_id)

    def run_by_start(self, flow_id: str, request_id: str) -> StoredRun | None:
        started = (row.stream_id for row in self.run_rows(flow_id) if row.start_request_id == request_id)
        stream_id = next(started, None)
        return None if stream_id is None else self._stored_run(stream_id)

    def run_rows(self, flow_id: str) -> Sequence[RunRow]:
        rows = [self._runs[stream_id] for stream_id in self._flows.get(flow_id, ())]
        return sorted(rows, key=_age, reverse=True)

    def list_runs(self, selection: RunFilter, limit: int) -> Sequence[ListedRun]:
        latest = {(row.flow_id, row.ordinal): stream_id for stream_id, row in sorted(self._runs.items())}
        rows = (self._runs[stream_id] for stream_id in sorted(latest.values(), reverse=True))
        return [self._listed(row) for row in islice((row for row in rows if _is_selected(row, selection)), limit)]

    @property
    def page_secret(self) -> bytes:
        return b"of a log in memory"

    def index_keys(self) -> IndexKeyTypes:
        return dict(self._search.keys)

    def index_rows(self, stream_id: int) -> Sequence[IndexRow]:
        return self._search.rows_of(stream_id)

    def search(
        self, query: CheckedQuery, after: Position | None, limit: int, is_over: IsOver = never_over
    ) -> FoundPage:
        wanted = self._search.positions(query, self._latest_runs(), after, is_over)
        found: list[FoundRun] = []
        room = FOUND_BYTES_MAX
        for position in wanted[:limit]:
            run = self._found_run(position)
            room -= texts_bytes(run)
            if found and room < 0:
                break
            found.append(run)
        return FoundPage(found, len(found) < len(wanted))

    def count(self, query: CheckedQuery, group_by: str = "", is_over: IsOver = never_over) -> Mapping[str, int]:
        return self._search.count(query, group_by, self._latest_runs(), is_over)

    def matching(self, query: CheckedQuery, is_over: IsOver = never_over) -> Sequence[RunRow]:
        return [
            self._runs[int(position[-1] or 0)]
            for position in self._search.positions(query, self._latest_runs(), None, is_over)
        ]

    def pending_timers(self, stream_id: int) -> Sequence[TimerRow]:
        return [row for _, row in sorted(self._timers.get(stream_id, {}).items())]

    def open_streams(self) -> Sequence[StoredStream]:
        return [self._stored_stream(row) for _, row in sorted(self._others.items()) if not row.is_closed]

    def stream_by_name(self, kind: str, name: str) -> StoredStream | None:
        newest = next((row for row in self._newest_streams(kind) if row.name == name), None)
        return None if newest is None else self._stored_stream(newest)

    def list_streams(self, kind: str, before_stream_id: int, limit: int) -> Sequence[StreamRow]:
        rows = (row for row in self._newest_streams(kind) if not before_stream_id or row.stream_id < before_stream_id)
        return list(islice(rows, limit))

    def refers_to(self, chain_id: str, digest: bytes) -> bool:
        return any(digest in self._blobs.get(stream_id, ()) for stream_id in self.chain_streams(chain_id))

    def blobs_in_use(self, digests: Sequence[bytes]) -> frozenset[bytes]:
        in_use = {digest for of_stream in self._blobs.values() for digest in of_stream}
        return frozenset(digest for digest in digests if digest in in_use)

    def was_uploaded(self, session: bytes, digest: bytes) -> bool:
        return (session, digest) in self._uploads

    def read_stream(
        self, stream_id: int, from_version: int, limit: int, types: Iterable[str] = ()
    ) -> Sequence[StoredEvent]:
        wanted = frozenset(types)
        events = (event for event in self._streams.get(stream_id, ()) if event.version >= from_version)
        return list(islice((event for event in events if not wanted or event.type in wanted), limit))

    def read_all(self, from_seq: int, limit: int) -> Sequence[StoredEvent]:
        start = bisect_left(self._events, from_seq, key=_seq)
        return self._events[start : start + limit]

    def close(self) -> None:
        """Keep everything: a restarted server is given the same log."""

    def _take_out(self, removal: Removal) -> None:
        stream_id = removal.stream_id
        self._leaving[stream_id] = None
        self._snapshots.pop(stream_id, None)
        self._timers.pop(stream_id, None)
        self._imported.pop(stream_id, None)
        self._blobs.pop(stream_id, None)
        self._search.forget(stream_id)
        row = self._runs.pop(stream_id, None)
        if row is None:
            return
        del self._stream_ids[row.run_id]
        streams = self._flows[row.flow_id]
        streams.remove(stream_id)
        if not streams:
            del self._flows[row.flow_id]

    def _forget_ordinals(self, until: int) -> None:
        expired = (item for item in self._ordinals.items() if 0 < item[1][1] <= until)
        oldest = sorted(expired, key=lambda item: item[1][1])[:ORDINALS_FORGOTTEN_MAX]
        for flow_id, _ in oldest:
            del self._ordinals[flow_id]

    def _check_versions(self, events: Sequence[StoredEvent]) -> None:
        last_versions: dict[int, int] = {}
        for event in events:
            stream = self._streams.get(event.stream_id)
            last = last_versions.get(event.stream_id, stream[-1].version if stream else 0)
            if event.version <= last:
                raise SequenceConflictError(f"stream {event.stream_id} has a version {event.version} already")
            last_versions[event.stream_id] = event.version

    def _check_run_ids(self, rows: Sequence[RunRow]) -> None:
        for row in rows:
            if self._stream_ids.get(row.run_id, row.stream_id) != row.stream_id:
                raise SequenceConflictError(f"run {row.run_id} is stream {self._stream_ids[row.run_id]} already")

    def _check_names(self, rows: Sequence[StreamRow]) -> None:
        named = {(row.kind, row.name): row.stream_id for row in self._others.values() if not row.is_closed}
        for row in rows:
            key = (row.kind, row.name)
            if row.is_closed:
                named.pop(key, None)
            elif named.setdefault(key, row.stream_id) != row.stream_id:
                raise SequenceConflictError(f"{row.kind} {row.name!r} is open already")

    def _newest_streams(self, kind: str) -> Iterator[StreamRow]:
        return (row for _, row in sorted(self._others.items(), reverse=True) if row.kind == kind)

    def _keep_streams(self, rows: Iterable[StreamRow]) -> None:
        for row in rows:
            self._others[row.stream_id] = row
            self._last_stream_id = max(self._last_stream_id, row.stream_id)

    def _stored_stream(self, row: StreamRow) -> StoredStream:
        snapshot = self._snapshots.get(row.stream_id)
        folded = 0 if snapshot is None else snapshot.version
        return StoredStream(
            row, snapshot, [event for event in self._streams.get(row.stream_id, ()) if event.version > folded]
        )

    def _keep(
        self,
        runs: Sequence[RunRow],
        snapshots: Iterable[Snapshot],
        timers: Iterable[TimerRow],
        indexed: Iterable[IndexRow],
    ) -> None:
        for row in runs:
            self._keep_run(row)
        for snapshot in snapshots:
            self._snapshots[snapshot.stream_id] = snapshot
        for timer in timers:
            of_stream = self._timers.setdefault(timer.stream_id, {})
            if timer.at:
                of_stream[timer.step_execution_id] = timer
            else:
                of_stream.pop(timer.step_execution_id, None)
        self._search.keep(indexed)
        for row in runs:
            for earlier in self._flows[row.flow_id] if row.first_run_id else ():
                if earlier < row.stream_id and self._runs[earlier].ordinal == row.ordinal:
                    self._search.forget(earlier)

    def _park(self, rows: Iterable[ParkingRow]) -> None:
        for row in rows:
            self._parked.pop(row.stream_id, None)
            if row.is_parked and row.stream_id in self._runs:
                self._parked[row.stream_id] = row

    def _keep_blobs(self, blobs: Iterable[BlobRow]) -> None:
        for row in blobs:
            self._blobs.setdefault(row.stream_id, {})[row.digest] = row

    def _keep_run(self, row: RunRow) -> None:
        if row.stream_id not in self._runs:
            self._flows.setdefault(row.flow_id, []).append(row.stream_id)
            self._stream_ids[row.run_id] = row.stream_id
            self._last_stream_id = max(self._last_stream_id, row.stream_id)
        self._runs[row.stream_id] = row

    def _latest_runs(self) -> list[RunRow]:
        latest = {(row.flow_id, row.ordinal): row for _, row in sorted(self._runs.items())}
        return list(latest.values())

    def _found_run(self, position: Position) -> FoundRun:
        row = self._runs[int(position[-1] or 0)]
        indexed = [entry for entry in self._search.rows_of(row.stream_id) if entry.key not in STEP_KEYS.values()]
        return FoundRun(self._listed(row), indexed, position)

    def _listed(self, row: RunRow) -> ListedRun:
        stream = self._streams.get(row.stream_id)
        next_deadline = min((timer.at for timer in self.pending_timers(row.stream_id)), default=0)
        return ListedRun(row, stream[-1].version if stream else 0, next_deadline)

    def _stored_run(self, stream_id: int) -> StoredRun:
        snapshot = self._snapshots.get(stream_id)
        folded = 0 if snapshot is None else snapshot.version
        tail = [event for event in self._streams.get(stream_id, ()) if event.version > folded]
        if stream_id in self._parked:
            return StoredRun(self._runs[stream_id], snapshot, (), is_parked=True)
        return StoredRun(self._runs[stream_id], snapshot, tail)


def _seq(event: StoredEvent) -> int:
    return event.seq


def _closing(row: RunRow | StreamRow) -> tuple[int, int]:
    return row.closed_at, row.stream_id


def _age(row: RunRow) -> tuple[int, int]:
    return row.ordinal, row.stream_id


def _is_selected(row: RunRow, selection: RunFilter) -> bool:
    return (
        selection.flow_type in ("", row.flow_type)
        and selection.status in (0, row.status)
        and row.flow_id.startswith(selection.flow_id_prefix)
        and (not selection.before_stream_id or row.stream_id < selection.before_stream_id)
    )
