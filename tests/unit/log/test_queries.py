"""Statements stay few and use their indexes."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from dexd.log import queries
from dexd.log.connection import CACHED_STATEMENTS, open_writer

KEYED = {
    "LATEST_RUN": queries.runs,
    "RUN_BY_ID": queries.runs,
    "RUN_ROWS": queries.runs,
    "LIST_RUNS": queries.runs,
    "READ_STREAM": queries.events,
    "READ_STREAM_OF_TYPES": queries.events,
    "READ_ALL": queries.events,
}
PARKED = ["PARKED_DEADLINES", "PARKED_RUNS", "PARKED_RUNS_OF_FLOWS", "PARKING", "PARKED_WAITS", "PARK", "UNPARK"]
RECOVERY = ["ACTIVE_RUNS", "ACTIVE_RUN_EVENTS"]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = open_writer(tmp_path / "log.db", "full")
    yield opened
    opened.close()


def plan(connection: sqlite3.Connection, subject: ModuleType, name: str) -> list[str]:
    statement: str = getattr(subject, name)
    parameters: dict[str, int] | tuple[int, ...] = (1,) * statement.count("?")
    if name == "LIST_RUNS":
        parameters = dict.fromkeys(("before_stream_id", "flow_type", "status", "flow_id_prefix", "limit"), 1)
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]


@pytest.mark.parametrize("name", KEYED)
def test_look_ups_and_pages_neither_scan_tables_nor_sort(connection: sqlite3.Connection, name: str) -> None:
    for step in plan(connection, KEYED[name], name):
        assert not step.startswith(("SCAN events", "SCAN runs", "SCAN later", "USE TEMP B-TREE"))


@pytest.mark.parametrize("name", RECOVERY)
def test_recovery_reads_what_is_open_and_does_not_sort(connection: sqlite3.Connection, name: str) -> None:
    """[ARCH-11]"""
    steps = plan(connection, queries.runs, name)
    assert steps[0] == "SCAN runs USING INDEX runs_active"
    assert all(step.startswith("SEARCH") for step in steps[1:])


@pytest.mark.parametrize("name", PARKED)
def test_parked_runs_are_found_by_their_keys(connection: sqlite3.Connection, name: str) -> None:
    """[ARCH-11] However many there are."""
    for step in plan(connection, queries.parked, name):
        assert not step.startswith(("SCAN runs", "SCAN parked_waits", "USE TEMP B-TREE")), step


@pytest.mark.parametrize("rows", [0, 1, 127, 128, 129, 383, 384, 511, 512, 513, 4_000])
def test_rows_are_spread_over_statements_without_loss(rows: int) -> None:
    assert sum(queries.many_rows.row_counts(rows)) == rows


def test_common_batches_need_one_statement_and_the_largest_few() -> None:
    assert all(queries.many_rows.row_counts(rows) == [rows] for rows in range(1, 129))
    assert max(len(queries.many_rows.row_counts(rows)) for rows in range(1, 1_001)) <= 4


def test_all_statements_stay_prepared() -> None:
    """Preparing one costs more than executing it."""
    counts = {count for rows in range(4_001) for count in queries.many_rows.row_counts(rows)}
    constants = [name for subject in queries.__all__ for name in vars(getattr(queries, subject)) if name.isupper()]
    assert 3 * len(counts) + len(constants) <= CACHED_STATEMENTS


def test_no_statement_has_more_parameters_than_sqlite_takes(connection: sqlite3.Connection) -> None:
    """32,766 is the default; builds with less are older than what is required."""
    assert queries.runs.put_runs(queries.many_rows.INSERT_ROWS_MAX).count("?") <= 32_766


@pytest.mark.parametrize(
    "remove", [queries.timers.REMOVE_TIMERS, queries.search.REMOVE_INDEX_VALUES, queries.search.REMOVE_INDEX_TEXTS]
)
def test_rows_are_removed_without_looking_at_the_whole_table(connection: sqlite3.Connection, remove: str) -> None:
    """What a commit costs must not grow with what is in the log."""
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {remove}", ('[[1, "a"]]',))]
    assert any(step.startswith("SEARCH") and "stream_id=?" in step for step in steps), steps
    assert not any(step.startswith(("SCAN pending_timers", "SCAN index_")) for step in steps), steps
