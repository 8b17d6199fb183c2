"""The reading half of the log in SQLite, synchronous: for recovery, keyed look-ups and offline tools.

What a user may page through for long is read by `reading` instead, off the event loop.
"""

import sqlite3
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from threading import local
from typing import Any, Self, TypeAlias

import msgspec

from dexd.core.index_values import IndexKeyTypes, IndexType
from dexd.log import queries, search_reading, search_sql
from dexd.log.connection import open_reader
from dexd.log.errors import LogUnavailableError
from dexd.log.event_log import (
    Batch,
    FoundPage,
    IndexRow,
    IsOver,
    ListedRun,
    Projections,
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
from dexd.log.sqlite_errors import reading_error
from dexd.log.sqlite_parking import ParkingReader
from dexd.search.evaluation import Position
from dexd.search.predicates import CheckedQuery

Parameters: TypeAlias = Sequence[object] | dict[str, object]
Row: TypeAlias = tuple[Any, ...]

_NO_LIMIT = -1
"""What LIMIT takes for all; a tail is as long as the distance between two snapshots."""

_RUN_COLUMNS = len(RunRow.__struct_fields__)
_STREAM_COLUMNS = len(StreamRow.__struct_fields__)


class SqliteReader(ParkingReader):
    """Reads from any thread; every method sees one committed state of the log.

    Each thread that reads has a connection of its own until `close`, so that a long list in one does not hold up the
    look-ups of the event loop in another.
    """

    def __init__(self, path: Path) -> None:
        """Open the log.

        Raises:
            LogError: as `open_reader`.
        """
        self._path = path
        self._connections: list[sqlite3.Connection] = []
        self._of_thread = local()
        self._reader()

    @property
    def last_seq(self) -> int:
        return int(self._rows(queries.whole_log.LAST_SEQ, ())[0][0])

    @property
    def last_stream_id(self) -> int:
        return int(self._rows(queries.whole_log.LAST_STREAM_ID, ())[0][0])

    @property
    def last_at(self) -> int:
        return int(self._rows(queries.whole_log.LAST_AT, ())[0][0])

    @property
    def removed_events(self) -> int:
        return int(self._rows(queries.removals.REMOVED_EVENTS, ())[0][0])

    def streams_leaving(self) -> Sequence[int]:
        return [stream_id for (stream_id,) in self._rows(queries.removals.STREAMS_LEAVING, ())]

    def is_retained(self, stream_id: int) -> bool:
        return bool(self._rows(queries.runs.IS_RETAINED, (stream_id,))[0][0])

    def imported_streams(self) -> Sequence[int]:
        return [stream_id for (stream_id,) in self._rows(queries.removals.IMPORTED_STREAMS, ())]

    @property
    def projection_version(self) -> int:
        return int(self._rows(queries.whole_log.PROJECTION_VERSION, ())[0][0])

    def active_runs(self) -> Generator[StoredRun, None, None]:
        """Stream them from a connection of their own, whose snapshot holds back the WAL until the iterator is done."""
        with closing(open_reader(self._path)) as connection:
            try:
                connection.execute(queries.transactions.BEGIN_READING)
                events = (StoredEvent(*row) for row in connection.execute(queries.runs.ACTIVE_RUN_EVENTS))
                upcoming = next(events, None)
                for row in connection.execute(queries.runs.ACTIVE_RUNS):
                    tail = []
                    while upcoming is not None and upcoming.stream_id == row[0]:
                        tail.append(upcoming)
                        upcoming = next(events, None)
                    yield _stored_run(row, tail)
            except sqlite3.Error as error:
                raise self._error(error) from error

    def parked_runs(self, stream_ids: Sequence[int]) -> Sequence[Snapshot]:
        parameter = msgspec.json.encode(stream_ids).decode()
        return [Snapshot(*row) for row in self._rows(queries.parked.PARKED_RUNS, (parameter,))]

    def parked_runs_of(self, flow_ids: Sequence[str]) -> Sequence[Snapshot]:
        parameter = msgspec.json.encode(flow_ids).decode()
        return [Snapshot(*row) for row in self._rows(queries.parked.PARKED_RUNS_OF_FLOWS, (parameter,))]

    def latest_run(self, flow_id: str) -> StoredRun | None:
        return self._stored_run(queries.runs.LATEST_RUN, (flow_id,))

    def flow_ids_in_use(self, flow_ids: Sequence[str]) -> frozenset[str]:
        parameter = msgspec.json.encode(flow_ids).decode()
        return frozenset(row[0] for row in self._rows(queries.runs.FLOW_IDS_IN_USE, (parameter,)))

    def run_by_id(self, run_id: str) -> StoredRun | None:
        return self._stored_run(queries.runs.RUN_BY_ID, (run_id,))

    def newest_of_chain(self, chain_id: str) -> StoredRun | None:
        return self._stored_run(queries.runs.NEWEST_OF_CHAIN, {"chain_id": chain_id})

    def chain_streams(self, chain_id: str) -> Sequence[int]:
        return [stream_id for (stream_id,) in self._rows(queries.runs.CHAIN_STREAMS, {"chain_id": chain_id})]

    def last_run(self, flow_id: str, ordinal: int) -> StoredRun | None:
        return self._stored_run(queries.runs.LAST_RUN, (flow_id, ordinal))

    def run_by_start(self, flow_id: str, request_id: str) -> StoredRun | None:
        return self._stored_run(queries.runs.RUN_BY_START, {"flow_id": flow_id, "request_id": request_id})

    def run_rows(self, flow_id: str) -> Sequence[RunRow]:
        return [RunRow(*row) for row in self._rows(queries.runs.RUN_ROWS, (flow_id,))]

    def last_ordinal(self, flow_id: str) -> int:
        rows = self._rows(queries.removals.LAST_ORDINAL, (flow_id,))
        return int(rows[0][0]) if rows else 0

    def has_expired_ordinals(self, until: int) -> bool:
        return bool(self._rows(queries.removals.HAS_EXPIRED_ORDINALS, (until,))[0][0])

    def closed_runs(self, until: int, after: tuple[int, int], limit: int) -> Sequence[RunRow]:
        return [RunRow(*row) for row in self._rows(queries.runs.CLOSED_RUNS, (until, *after, limit))]

    def closed_streams(self, until: int, after: tuple[int, int], limit: int) -> Sequence[StreamRow]:
        return [stream_row(row) for row in self._rows(queries.streams.CLOSED_STREAMS, (until, *after, limit))]

    def list_runs(self, selection: RunFilter, limit: int) -> Sequence[ListedRun]:
        return [listed_run(row) for row in self._rows(queries.runs.LIST_RUNS, list_parameters(selection, limit))]

    @property
    def page_secret(self) -> bytes:
        return bytes(self._rows(queries.search.SIGNING_KEY, ())[0][0])

    def index_keys(self) -> IndexKeyTypes:
        return {key: IndexType(number) for key, number in self._rows(queries.search.INDEX_KEYS, ())}

    def index_rows(self, stream_id: int) -> Sequence[IndexRow]:
        try:
            return search_reading.index_rows(self._reader(), stream_id)
        except sqlite3.Error as error:
            raise self._error(error) from error

    def search(
        self, query: CheckedQuery, after: Position | None, limit: int, is_over: IsOver = never_over
    ) -> FoundPage:
        try:
            return search_reading.search(self._reader(), query, after, limit, is_over)
        except sqlite3.Error as error:
            raise self._error(error) from error

    def count(self, query: CheckedQuery, group_by: str = "", is_over: IsOver = never_over) -> Mapping[str, int]:
        try:
            return search_reading.count(self._reader(), query, group_by, is_over)
        except sqlite3.Error as error:
            raise self._error(error) from error

    def matching(self, query: CheckedQuery, is_over: IsOver = never_over) -> Sequence[RunRow]:
        try:
            return search_reading.matching(self._reader(), query, is_over)
        except sqlite3.Error as error:
            raise self._error(error) from error

    def pending_timers(self, stream_id: int) -> Sequence[TimerRow]:
        return [TimerRow(*row) for row in self._rows(queries.timers.PENDING_TIMERS, (stream_id,))]

    def open_streams(self) -> Sequence[StoredStream]:
        return self._stored_streams(queries.streams.OPEN_STREAMS, ())

    def stream_by_name(self, kind: str, name: str) -> StoredStream | None:
        found = self._stored_streams(queries.streams.STREAM_BY_NAME, (kind, name))
        return found[0] if found else None

    def list_streams(self, kind: str, before_stream_id: int, limit: int) -> Sequence[StreamRow]:
        rows = self._rows(queries.streams.LIST_STREAMS, (kind, before_stream_id, limit))
        return [stream_row(row) for row in rows]

    def refers_to(self, chain_id: str, digest: bytes) -> bool:
        return bool(self._rows(queries.blobs.REFERS_TO, {"chain_id": chain_id, "digest": digest}))

    def blobs_in_use(self, digests: Sequence[bytes]) -> frozenset[bytes]:
        return frozenset(row[0] for row in self._rows(queries.blobs.blobs_in_use(len(digests)), digests))

    def was_uploaded(self, session: bytes, digest: bytes) -> bool:
        return bool(self._rows(queries.blobs.WAS_UPLOADED, (session, digest)))

    def read_stream(
        self, stream_id: int, from_version: int, limit: int, types: Iterable[str] = ()
    ) -> Sequence[StoredEvent]:
        wanted = tuple(types)
        if wanted:
            parameters = (stream_id, from_version, msgspec.json.encode(wanted).decode(), limit)
            rows = self._rows(queries.events.READ_STREAM_OF_TYPES, parameters)
        else:
            rows = self._rows(queries.events.READ_STREAM, (stream_id, from_version, limit))
        return [StoredEvent(*row) for row in rows]

    def read_all(self, from_seq: int, limit: int) -> Sequence[StoredEvent]:
        return [StoredEvent(*row) for row in self._rows(queries.events.READ_ALL, (from_seq, limit))]

    def close(self) -> None:
        while self._connections:
            self._connections.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _stored_run(self, statement: str, key: Parameters) -> StoredRun | None:
        """Read a run with its tail; a Flow ID that was never used costs one look-up, as every first start does."""
        reader = self._reader()
        try:
            row = reader.execute(statement, key).fetchone()
            if row is None:
                return None
            if row[-1]:
                return _stored_run(row, ())
            # The row and its events must be of one commit. The first look was in no transaction, so it is repeated.
            reader.execute(queries.transactions.BEGIN_READING)
            try:
                row = reader.execute(statement, key).fetchone()
                if row is None:
                    # It was removed between the two looks.
                    return None
                tail = (row[0], (row[_RUN_COLUMNS + 1] or 0) + 1, _NO_LIMIT)
                events = reader.execute(queries.events.READ_STREAM, tail).fetchall()
            finally:
                reader.execute(queries.transactions.COMMIT)
        except sqlite3.Error as error:
            raise self._error(error) from error
        return _stored_run(row, [StoredEvent(*event) for event in events])

    def _stored_streams(self, statement: str, key: Parameters) -> list[StoredStream]:
        """Read streams with their tails, all as of one commit."""
        reader = self._reader()
        found: list[StoredStream] = []
        try:
            reader.execute(queries.transactions.BEGIN_READING)
            try:
                for row in reader.execute(statement, key).fetchall():
                    snapshot = None if row[_STREAM_COLUMNS] is None else Snapshot(*row[_STREAM_COLUMNS:])
                    tail = (row[0], 1 if snapshot is None else snapshot.version + 1, _NO_LIMIT)
                    events = [StoredEvent(*event) for event in reader.execute(queries.events.READ_STREAM, tail)]
                    found.append(StoredStream(stream_row(row), snapshot, events))
            finally:
                reader.execute(queries.transactions.COMMIT)
        except sqlite3.Error as error:
            raise self._error(error) from error
        return found

    def _rows(self, statement: str, parameters: Parameters) -> list[Row]:
        try:
            return self._reader().execute(statement, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _reader(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = self._of_thread.connection = open_reader(self._path)
            search_sql.register(connection.create_function)
            self._connections.append(connection)
        return connection

    def _error(self, error: sqlite3.Error) -> Exception:
        return reading_error(error, f"cannot read {self._path}")


class OfflineLog(SqliteReader):
    """A log that is looked at and never written, whether a server runs on it or not [SURF-23]."""

    def append(self, batch: Batch) -> None:
        raise LogUnavailableError(f"{self._path} is open for reading only; batch after {batch.expected_seq} refused")

    def remove_some(self, rows_max: int) -> bool:
        raise LogUnavailableError(f"{self._path} is open for reading only; removal of {rows_max} events refused")

    def replace_projections(self, projections: Projections, more: Iterable[Projections] = ()) -> None:
        del more  # is not even made
        raise LogUnavailableError(f"{self._path} is open for reading only; {len(projections.runs)} rows refused")


def listed_run(row: Row) -> ListedRun:
    """What a row of `queries.runs.LIST_RUNS` says."""
    return ListedRun(RunRow(*row[:_RUN_COLUMNS]), *row[_RUN_COLUMNS:])


def list_parameters(selection: RunFilter, limit: int) -> dict[str, object]:
    """Parameters of `queries.runs.LIST_RUNS`."""
    return {**msgspec.structs.asdict(selection), "limit": limit}


def stream_row(row: Row) -> StreamRow:
    """What a row of `queries.streams.LIST_STREAMS` says, or one that begins so."""
    stream_id, kind, name, status, created_at, is_closed, closed_at = row[:_STREAM_COLUMNS]
    return StreamRow(stream_id, kind, name, status, created_at, bool(is_closed), closed_at)


def _stored_run(row: Row, events: Sequence[StoredEvent]) -> StoredRun:
    has_snapshot = row[_RUN_COLUMNS] is not None
    snapshot = Snapshot(*row[_RUN_COLUMNS:-1]) if has_snapshot else None
    return StoredRun(RunRow(*row[:_RUN_COLUMNS]), snapshot, events, bool(row[-1]))
