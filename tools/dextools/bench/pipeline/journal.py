"""Group commit: one thread with one SQLite connection writes everything that is queued in one transaction.

The loop hands over what one of its iterations produced in one piece, and is woken once per commit. Each SQLite call
gives up the interpreter lock and must win it back from a busy loop, so a commit is three statements whatever its size.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from dextools.bench.pipeline.facts import Row

SCHEMA = """
CREATE TABLE events(
  seq INTEGER PRIMARY KEY, stream_id INTEGER NOT NULL, version INTEGER NOT NULL, at INTEGER NOT NULL,
  type TEXT NOT NULL, type_version INTEGER NOT NULL, payload BLOB NOT NULL)
"""
STREAM_INDEX = "CREATE UNIQUE INDEX events_by_stream ON events(stream_id, version)"

INSERT = "INSERT INTO events VALUES "
ROW_PARAMETERS = "(?,?,?,?,?,?,?)"

ROWS_MAX = 2_000
"""Rows of one INSERT; at seven parameters each it stays below SQLite's 32,766."""

CHECKPOINT_PAGES = 4_000
"""Pages in the write-ahead log before a commit checkpoints: one in several hundred pays for it, not one in 25."""


class Unit:
    """Rows that are committed together, and what may leave the process afterwards."""

    __slots__ = ("effect", "rows")

    def __init__(self, rows: list[Row], effect: Callable[[], None]) -> None:
        self.rows = rows
        self.effect = effect


class Journal:
    """The log of the bare pipeline. ``submit`` belongs to the loop, ``_write`` and below to the writer thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._pending: list[Unit] = []
        self._handed_over: queue.SimpleQueue[list[Unit] | None] = queue.SimpleQueue()
        self._statements: dict[int, str] = {}
        # A daemon, since the benchmark ends its servers by signal and nothing has to be kept.
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Commits what was handed over and ends the thread."""
        self._handed_over.put(None)
        self._thread.join()

    def submit(self, unit: Unit) -> None:
        """Queues a unit; its effect is called on the loop after the commit that holds its rows."""
        if not self._pending:
            self._loop.call_soon(self._hand_over)
        self._pending.append(unit)

    def _hand_over(self) -> None:
        self._handed_over.put(self._pending)
        self._pending = []

    def _write(self) -> None:
        connection = _connect(self._path)
        while (units := self._next_units()) is not None:
            self._commit(connection, units)
            self._loop.call_soon_threadsafe(_perform, units)
        connection.close()

    def _next_units(self) -> list[Unit] | None:
        """Everything that was handed over; None when the journal is closed."""
        units = self._handed_over.get()
        while units is not None and not self._handed_over.empty():
            more = self._handed_over.get()
            if more is None:
                self._handed_over.put(None)
                break
            units += more
        return units

    def _commit(self, connection: sqlite3.Connection, units: list[Unit]) -> None:
        rows = list(chain.from_iterable(unit.rows for unit in units))
        connection.execute("BEGIN IMMEDIATE")
        for start in range(0, len(rows), ROWS_MAX):
            part = rows[start : start + ROWS_MAX]
            connection.execute(self._insert(len(part)), list(chain.from_iterable(part)))
        connection.execute("COMMIT")

    def _insert(self, count: int) -> str:
        statement = self._statements.get(count)
        if statement is None:
            statement = INSERT + ",".join([ROW_PARAMETERS] * count)
            self._statements[count] = statement
        return statement


def _perform(units: list[Unit]) -> None:
    for unit in units:
        unit.effect()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=1024)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    connection.execute(SCHEMA)
    connection.execute(STREAM_INDEX)
    return connection
