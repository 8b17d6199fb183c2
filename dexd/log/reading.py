"""Reads that may take long, off the event loop: lists and pages of history, through connections of aiosqlite.

Each call is one statement, so its snapshot is gone before a slow caller looks at the first row; readers never hold the
WAL back for longer than a page takes [ARCH-5]. A call sees every commit that was acknowledged before it [SEARCH-7].
"""

import asyncio
import sqlite3
from asyncio import LifoQueue
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import aiosqlite

from dexd.log import queries
from dexd.log.connection import open_reader
from dexd.log.event_log import EventLog, FoundPage, IsOver, RunRow, StoredEvent, StreamRow
from dexd.log.sqlite_errors import reading_error
from dexd.log.sqlite_reader import SqliteReader, stream_row
from dexd.search.evaluation import Position
from dexd.search.predicates import CheckedQuery

HISTORY_PAGE_BYTES_MAX = 4 << 20
"""Payload bytes of a page of history, unless its first event alone has more [HIST-5]."""

CONNECTIONS = 2
"""Of each kind, so that one long read does not stop all others; each costs a thread and a page cache."""

Found = TypeVar("Found")


class LogPages(Protocol):
    """Pages of a log for those who must not block."""

    async def history(self, stream_id: int, from_version: int, limit: int) -> Sequence[StoredEvent] | None:
        """Events of a run from a version on, up to a limit or 4 MiB of payloads; the first one always.

        None if the run is not retained: a page of it is given whole or not at all [KEEP-3].
        """
        ...

    async def closed_runs(self, until: int, after: tuple[int, int], limit: int) -> Sequence[RunRow]:
        """As `EventLog.closed_runs`."""
        ...

    async def closed_streams(self, until: int, after: tuple[int, int], limit: int) -> Sequence[StreamRow]:
        """As `EventLog.closed_streams`."""
        ...

    async def has_expired_ordinals(self, until: int) -> bool:
        """As `EventLog.has_expired_ordinals`."""
        ...

    async def search(self, query: CheckedQuery, after: Position | None, limit: int, is_over: IsOver) -> FoundPage:
        """As `EventLog.search`; `is_over` may be called from any thread."""
        ...

    async def count(self, query: CheckedQuery, group_by: str, is_over: IsOver) -> Mapping[str, int]:
        """As `EventLog.count`."""
        ...

    async def matching(self, query: CheckedQuery, is_over: IsOver) -> Sequence[RunRow]:
        """As `EventLog.matching`."""
        ...

    async def chain_streams(self, chain_id: str) -> Sequence[int]:
        """As `EventLog.chain_streams`."""
        ...

    async def run_rows(self, flow_id: str) -> Sequence[RunRow]:
        """As `EventLog.run_rows`."""
        ...


class SqlitePages:
    """Pages from a file."""

    def __init__(self, path: Path) -> None:
        """Name the log; it must exist when `open` is called."""
        self._path = path
        self._idle: LifoQueue[aiosqlite.Connection] = LifoQueue()
        self._all: list[aiosqlite.Connection] = []
        self._searching: SqliteReader | None = None
        self._threads: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        """Open the connections.

        Raises:
            LogError: as `open_reader`.
        """
        # What is wrong with the log is found here: if aiosqlite finds it, its thread may outlive the loop.
        self._searching = SqliteReader(self._path)
        # A search is several statements in one transaction, which is one hop to a thread of ours.
        self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="log-search")
        for _ in range(CONNECTIONS):
            connection = await aiosqlite.Connection(lambda: open_reader(self._path), iter_chunk_size=64)
            self._all.append(connection)
            self._idle.put_nowait(connection)

    async def close(self) -> None:
        """Close them after the reads that are under way; idempotent."""
        while self._all:
            await self._all.pop().close()
        if self._threads is not None and self._searching is not None:
            await asyncio.to_thread(self._threads.shutdown)
            self._searching.close()
            self._threads = self._searching = None

    async def history(self, stream_id: int, from_version: int, limit: int) -> Sequence[StoredEvent] | None:
        parameters = {
            "stream_id": stream_id,
            "from_version": from_version,
            "limit": limit,
            "bytes_max": HISTORY_PAGE_BYTES_MAX,
        }
        page = [StoredEvent(*row) for row in await self._rows(queries.events.READ_HISTORY_PAGE, parameters)]
        if not page:
            [(is_retained,)] = await self._rows(queries.runs.IS_RETAINED, (stream_id,))
            return page if is_retained else None
        return page

    async def closed_runs(self, until: int, after: tuple[int, int], limit: int) -> Sequence[RunRow]:
        return [RunRow(*row) for row in await self._rows(queries.runs.CLOSED_RUNS, (until, *after, limit))]

    async def closed_streams(self, until: int, after: tuple[int, int], limit: int) -> Sequence[StreamRow]:
        return [stream_row(row) for row in await self._rows(queries.streams.CLOSED_STREAMS, (until, *after, limit))]

    async def has_expired_ordinals(self, until: int) -> bool:
        [(has_some,)] = await self._rows(queries.removals.HAS_EXPIRED_ORDINALS, (until,))
        return bool(has_some)

    async def search(self, query: CheckedQuery, after: Position | None, limit: int, is_over: IsOver) -> FoundPage:
        return await self._in_thread(lambda log: log.search(query, after, limit, is_over))

    async def count(self, query: CheckedQuery, group_by: str, is_over: IsOver) -> Mapping[str, int]:
        return await self._in_thread(lambda log: log.count(query, group_by, is_over))

    async def matching(self, query: CheckedQuery, is_over: IsOver) -> Sequence[RunRow]:
        return await self._in_thread(lambda log: log.matching(query, is_over))

    async def chain_streams(self, chain_id: str) -> Sequence[int]:
        return [stream_id for (stream_id,) in await self._rows(queries.runs.CHAIN_STREAMS, {"chain_id": chain_id})]

    async def run_rows(self, flow_id: str) -> Sequence[RunRow]:
        return [RunRow(*row) for row in await self._rows(queries.runs.RUN_ROWS, (flow_id,))]

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def _in_thread(self, read: Callable[[SqliteReader], Found]) -> Found:
        reader = self._searching
        assert reader is not None, "the pages are open"
        return await asyncio.get_running_loop().run_in_executor(self._threads, read, reader)

    async def _rows(self, statement: str, parameters: Mapping[str, object] | Sequence[object]) -> Iterable[Any]:
        connection = await self._idle.get()
        try:
            return await connection.execute_fetchall(statement, parameters)
        except sqlite3.Error as error:
            raise reading_error(error, f"cannot read {self._path}") from error
        finally:
            self._idle.put_nowait(connection)


class InlinePages:
    """Pages of any log, read on the spot: for logs in memory, where nothing is worth a thread."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    async def history(self, stream_id: int, from_version: int, limit: int) -> Sequence[StoredEvent] | None:
        if not self._log.is_retained(stream_id):
            return None
        page: list[StoredEvent] = []
        room = HISTORY_PAGE_BYTES_MAX
        for event in self._log.read_stream(stream_id, from_version, limit):
            room -= len(event.payload)
            if page and room < 0:
                break
            page.append(event)
        return page

    async def closed_runs(self, until: int, after: tuple[int, int], limit: int) -> Sequence[RunRow]:
        return self._log.closed_runs(until, after, limit)

    async def closed_streams(self, until: int, after: tuple[int, int], limit: int) -> Sequence[StreamRow]:
        return self._log.closed_streams(until, after, limit)

    async def has_expired_ordinals(self, until: int) -> bool:
        return self._log.has_expired_ordinals(until)

    async def search(self, query: CheckedQuery, after: Position | None, limit: int, is_over: IsOver) -> FoundPage:
        return self._log.search(query, after, limit, is_over)

    async def count(self, query: CheckedQuery, group_by: str, is_over: IsOver) -> Mapping[str, int]:
        return self._log.count(query, group_by, is_over)

    async def matching(self, query: CheckedQuery, is_over: IsOver) -> Sequence[RunRow]:
        return self._log.matching(query, is_over)

    async def chain_streams(self, chain_id: str) -> Sequence[int]:
        return self._log.chain_streams(chain_id)

    async def run_rows(self, flow_id: str) -> Sequence[RunRow]:
        return self._log.run_rows(flow_id)
