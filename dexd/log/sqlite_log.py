"""The log in SQLite: one connection writes, a commit is durable when `append` returns [ARCH-5].

`append` and the checkpoints are called by one thread, `LogWriter`'s; the reading half is inherited and serves any
thread. Whatever has gone wrong, an append leaves all of its batch or nothing.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Self

import msgspec

from dexd.log import queries
from dexd.log.checkpointer import Checkpointer
from dexd.log.connection import Synchronous, open_writer
from dexd.log.continuity import check_continuity
from dexd.log.errors import LogError, LogFailedError
from dexd.log.event_log import ORDINALS_FORGOTTEN_MAX, Batch, IndexRow, Projections, RunRow, TimerRow
from dexd.log.sqlite_errors import writing_error
from dexd.log.sqlite_parking import Statement, parking_statements
from dexd.log.sqlite_reader import SqliteReader
from dexd.search.words import indexed_words

_PAYLOAD_OF = attrgetter("payload")

_ROW_BYTES = 100
"""About what a row takes beside its payload, its share of the indexes included."""


class SqliteLog(SqliteReader):
    """An EventLog in a file."""

    @classmethod
    def open(cls, path: Path, synchronous: Synchronous = "full") -> Self:
        """Open, create or upgrade the log; the caller holds the lock of its data directory [ARCH-6].

        Raises:
            LogError: as `open_writer`.
        """
        writer = open_writer(path, synchronous)
        try:
            return cls(path, writer)
        except BaseException:
            writer.close()
            raise

    def __init__(self, path: Path, writer: sqlite3.Connection) -> None:
        """Take over a connection made by `open_writer`."""
        super().__init__(path)
        self._writer = writer
        self._checkpointer = Checkpointer(writer, path)
        self._end = self.last_seq
        self._is_removing = bool(self.streams_leaving())
        """Whether events of removed runs may be left."""
        self._failure: LogFailedError | None = None

    def append(self, batch: Batch) -> None:
        self._refuse_after_failure()
        check_continuity(batch, self._end)
        try:
            self._write(list(_statements(batch)) or [(queries.transactions.PROBE, ())])
        except sqlite3.Error as error:
            raise self._failed(error, f"batch after {batch.expected_seq} not written") from error
        self._end += len(batch.events)
        self._is_removing = self._is_removing or bool(batch.removals or batch.stream_removals)
        self._checkpointer.count(_size_bytes(batch))

    def replace_projections(self, projections: Projections, more: Iterable[Projections] = ()) -> None:
        self._refuse_after_failure()
        try:
            with self._transaction():
                for text in queries.whole_log.REMOVE_PROJECTIONS:
                    self._writer.execute(text)
                for part in chain((projections,), more):
                    for text, parameters in _projection_statements(part):
                        self._writer.execute(text, parameters)
                self._writer.execute(queries.whole_log.NOTE_PROJECTIONS, (projections.version,))
        except sqlite3.Error as error:
            raise self._failed(error, "projections not written") from error

    def remove_some(self, rows_max: int) -> bool:
        """Delete from the first streams on; bounded in rows, and so in time, because commits wait meanwhile."""
        if not self._is_removing or self._failure is not None:
            return False
        try:
            removed = self._remove_events(rows_max)
        except sqlite3.Error as error:
            self._failed(error, "events of removed runs not deleted")
            return False
        self._checkpointer.count(removed * _ROW_BYTES)
        return self._is_removing

    def _remove_events(self, rows_max: int) -> int:
        with self._transaction():
            removed = self._writer.execute(queries.removals.REMOVE_EVENTS, (rows_max,)).rowcount
            self._writer.execute(queries.removals.COUNT_REMOVED, (removed,))
            self._writer.execute(queries.removals.END_REMOVALS)
            (has_more,) = self._writer.execute(queries.removals.HAS_REMOVALS).fetchone()
        self._is_removing = bool(has_more)
        return removed

    def checkpoint_if_due(self) -> None:
        """Keep the WAL within its bound; called between commits, as is `checkpoint`.

        Neither raises: commits are safe in the WAL, and if storage has failed, the next append says so.
        """
        self._checkpoint(self._checkpointer.checkpoint_if_due)

    def checkpoint(self) -> None:
        """Copy the WAL into the database in an idle moment, so that no lone commit has to."""
        self._checkpoint(self._checkpointer.checkpoint)

    def close(self) -> None:
        super().close()
        # Closing the last connection checkpoints and removes the WAL.
        self._writer.close()

    def _write(self, statements: list[Statement]) -> None:
        """Execute all or nothing; a lone statement is its own transaction, which saves two turns of the lock."""
        if len(statements) == 1:
            self._writer.execute(*statements[0])
            return
        with self._transaction():
            for text, parameters in statements:
                self._writer.execute(text, parameters)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._writer.execute(queries.transactions.BEGIN)
            yield
            self._writer.execute(queries.transactions.COMMIT)
        finally:
            # SQLite has rolled back by itself after some errors, and not after others.
            if self._writer.in_transaction:
                self._writer.execute(queries.transactions.ROLLBACK)

    def _checkpoint(self, run: Callable[[], None]) -> None:
        if self._failure is None:
            try:
                run()
            except sqlite3.Error as error:
                self._failed(error, "checkpoint failed")
            except OSError as error:
                self._failure = LogFailedError(f"{self._path}: the WAL is gone: {error}")

    def _failed(self, error: sqlite3.Error, context: str) -> LogError:
        failure = writing_error(error, f"{self._path}: {context}")
        if isinstance(failure, LogFailedError):
            self._failure = failure
        return failure

    def _refuse_after_failure(self) -> None:
        # A second fsync after a failed one may report success for pages that the kernel has dropped.
        if self._failure is not None:
            raise LogFailedError(f"storage has failed before: {self._failure}")


def _statements(batch: Batch) -> Iterator[Statement]:
    """The statements that write a batch, each with as many rows as possible."""
    if batch.imported:
        yield queries.whole_log.KEEP_END, ()
        yield queries.removals.NOTE_IMPORTS, (msgspec.json.encode(batch.imported).decode(),)
    yield from _inserts(queries.events.insert_events, batch.events)
    yield from _inserts(queries.runs.put_runs, batch.runs)
    yield from _inserts(queries.snapshots.put_snapshots, batch.snapshots)
    if batch.timers:
        yield from _inserts(queries.timers.put_timers, [row for row in batch.timers if row.at])
        yield from _removals([row for row in batch.timers if not row.at])
    if batch.streams:
        yield from _inserts(queries.streams.put_streams, batch.streams)
    if batch.parking:
        yield from parking_statements(batch.parking)
    if batch.forget_ordinals_until:
        yield queries.removals.FORGET_ORDINALS, (batch.forget_ordinals_until, ORDINALS_FORGOTTEN_MAX)
    if batch.blobs:
        yield from _inserts(queries.blobs.put_blobs, batch.blobs)
    if batch.uploads_until:
        yield queries.blobs.FORGET_UPLOADS, (batch.uploads_until,)
    if batch.uploads:
        yield from _inserts(queries.blobs.put_uploads, batch.uploads)
    if batch.index_keys:
        yield from _inserts(queries.search.put_index_keys, batch.index_keys)
    if batch.indexed:
        yield from _index_statements(batch.indexed)
    yield from _supersessions(batch.runs)
    yield from _goodbyes(batch)


def _projection_statements(projections: Projections) -> Iterator[Statement]:
    yield from _inserts(queries.runs.put_runs, projections.runs)
    yield from _inserts(queries.snapshots.put_snapshots, projections.snapshots)
    yield from _inserts(queries.timers.put_timers, projections.timers)
    yield from _inserts(queries.streams.put_streams, projections.streams)
    if projections.parking:
        yield from parking_statements(projections.parking)
    yield from _inserts(queries.blobs.put_blobs, projections.blobs)
    yield from _index_statements(projections.indexed)
    yield from _supersessions(projections.runs)


def _goodbyes(batch: Batch) -> Iterator[Statement]:
    """Behind everything else of the batch, which may have added rows to the same runs."""
    if batch.removals or batch.stream_removals:
        yield queries.whole_log.KEEP_END, ()
    if batch.removals:
        runs = msgspec.json.encode([msgspec.structs.astuple(removal) for removal in batch.removals]).decode()
        yield from ((statement, (runs,)) for statement in queries.removals.REMOVE_RUNS)
    if batch.stream_removals:
        streams = msgspec.json.encode(batch.stream_removals).decode()
        yield from ((statement, (streams,)) for statement in queries.removals.REMOVE_STREAMS)


def _removals(rows: Sequence[TimerRow]) -> Iterator[Statement]:
    return _by_name(queries.timers.REMOVE_TIMERS, [(row.stream_id, row.step_execution_id) for row in rows])


def _index_statements(rows: Sequence[IndexRow]) -> Iterator[Statement]:
    values = [row for row in rows if not row.is_text]
    texts = [row for row in rows if row.is_text]
    yield from _by_name(queries.search.REMOVE_INDEX_VALUES, [(row.stream_id, row.key) for row in values])
    elements = [
        (row.stream_id, row.key, position, value) for row in values for position, value in enumerate(row.values)
    ]
    yield from _many(queries.search.put_index_values, elements)
    yield from _by_name(queries.search.REMOVE_INDEX_TEXTS, [(row.stream_id, row.key) for row in texts])
    words = [(row.stream_id, row.key, value, indexed_words(str(value))) for row in texts for value in row.values]
    yield from _many(queries.search.put_index_texts, words)


def _by_name(text: str, pairs: Sequence[tuple[int, str]]) -> Iterator[Statement]:
    if pairs:
        yield text, (msgspec.json.encode(pairs).decode(),)


def _supersessions(rows: Sequence[RunRow]) -> Iterator[Statement]:
    for row in rows:
        if row.first_run_id:
            for text in queries.search.SUPERSEDE:
                yield text, (row.flow_id, row.ordinal, row.stream_id)


def _inserts(text_of: Callable[[int], str], rows: Sequence[msgspec.Struct]) -> Iterator[Statement]:
    tuples = map(msgspec.structs.astuple, rows)
    for count in queries.many_rows.row_counts(len(rows)):
        yield text_of(count), list(chain.from_iterable(islice(tuples, count)))


def _many(text_of: Callable[[int], str], rows: Sequence[tuple[object, ...]]) -> Iterator[Statement]:
    remaining = iter(rows)
    for count in queries.many_rows.row_counts(len(rows)):
        yield text_of(count), list(chain.from_iterable(islice(remaining, count)))


def _size_bytes(batch: Batch) -> int:
    payloads = sum(map(len, map(_PAYLOAD_OF, batch.events))) + sum(map(len, map(_PAYLOAD_OF, batch.snapshots)))
    rows = len(batch.events) + len(batch.runs) + len(batch.snapshots) + len(batch.timers)
    return payloads + _ROW_BYTES * (rows + len(batch.streams) + len(batch.parking) + len(batch.indexed))
