"""The first page of a search costs what it shows, not what is in the log [SEARCH-8]."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import thread_time

import pytest

from dexd.core.index_values import IndexKeyTypes, IndexType
from dexd.log import search_reading, search_sql
from dexd.log.connection import open_reader
from dexd.log.errors import QueryTooSlowError
from dexd.log.event_log import Batch, IndexRow, RunRow, never_over
from dexd.log.search_paging import Bounds, Finder
from dexd.log.sqlite_log import SqliteLog
from dexd.search.checking import check
from dexd.search.evaluation import Position

RUNS = 4_000
SMALL = Bounds(few=100, counted_max=300, block_max=64, passed_max=600)
KEYS: IndexKeyTypes = {
    "n": IndexType.INT,
    "color": IndexType.KEYWORD,
    "late": IndexType.KEYWORD,
    "notes": IndexType.FULL_TEXT,
}
COLORS = ("red", "green", "blue")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("search") / "log.db"
    write_runs(made, RUNS)
    return made


def write_runs(path: Path, count: int) -> None:
    with closing(SqliteLog.open(path)) as log:
        for first in range(1, count + 1, RUNS):
            runs = [some_run(stream_id, count) for stream_id in range(first, first + RUNS)]
            indexed = [row for run in runs for row in some_values(run.stream_id, count)]
            log.append(Batch(0, (), runs, indexed=indexed))
            log.checkpoint_if_due()


def some_run(stream_id: int, count: int) -> RunRow:
    """Types and statuses that are rare, and two that are common but meet seldom."""
    flow_type = "Rare" if stream_id % 1_000 == 7 else ("Order" if stream_id % 2 else "Bill")
    status = 3 if stream_id % 500 in (1, 2) or (flow_type == "Bill" and stream_id < 500) else 2
    status = 1 if stream_id > count - 100 else status
    return RunRow(
        stream_id,
        f"{stream_id:032x}",
        f"flow-{stream_id * 7919 % count}",
        1,
        flow_type,
        status,
        1_000 * stream_id,
        0 if status == 1 else 1_000 * stream_id + 500,
        parent_flow_id="parent" if stream_id == 9 else "",
        schedule_id="nightly" if stream_id % 10 == 0 else "",
        last_error="E: x" if status == 3 else "",
    )


def some_values(stream_id: int, count: int) -> Sequence[IndexRow]:
    return (
        IndexRow(stream_id, "n", (stream_id * 31 % count,)),
        IndexRow(stream_id, "color", (COLORS[stream_id % 3],)),
        IndexRow(stream_id, "notes", (f"some word{stream_id % 1_000}",), True),
        *((IndexRow(stream_id, "late", ("x",)),) if stream_id > count - 50 else ()),
    )


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_reader(path)) as opened:
        search_sql.register(opened.create_function)
        yield opened


def page_of(connection: sqlite3.Connection, query: str, after: Position | None = None) -> tuple[int, list[Position]]:
    """A page of ten, and what it took, in hundreds of instructions of SQLite."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    checked = check(query, KEYS)
    connection.set_progress_handler(count, 100)
    found = Finder(connection, never_over, SMALL).page(checked.predicate, checked.order, after, 10)
    connection.set_progress_handler(None, 0)
    return steps, found


ALL_LOOKED_AT = 5 * RUNS // 100
"""What it takes to ask one thing about each execution."""

SERVED = [
    "",
    "Status = 'FAILED'",
    "Status != 'COMPLETED'",
    "NOT (FlowType = 'Bill' OR Status = 'COMPLETED')",
    "FlowType = 'Rare'",
    "FlowType = 'Order' AND Status = 'FAILED'",
    "FlowType = 'Bill' AND Status = 'FAILED' ORDER BY StartTime",
    "FlowType IN ('Order', 'Rare') AND Status = 'COMPLETED' AND StartTime < '1970-01-01T00:20:00Z'",
    "StartTime >= '1970-01-01T00:30:00Z' AND StartTime < '1970-01-01T00:31:00Z'",
    "CloseTime < '1970-01-01T00:01:00Z'",
    "ParentFlowId = 'parent'",
    "ScheduleId = 'nightly'",
    "LastError LIKE 'E%'",
    "FlowId = 'flow-12' OR FlowId = 'flow-13'",
    "FlowId LIKE 'flow-39%'",
    f"RunId = '{7:032x}'",
    "n = 5",
    "n >= 100 AND n < 120",
    "n > 100 AND color = 'red'",
    "color = 'red'",
    "color != 'red'",
    "color = 'blue' AND FlowType = 'Order' AND Status = 'COMPLETED'",
    "late IS NOT NULL",
    "notes = 'word77'",
    "notes LIKE 'wo%'",
    "n = 5 OR notes = 'word12'",
    "ORDER BY n",
    "ORDER BY n DESC",
    "n > 2000 ORDER BY n",
    "color = 'red' ORDER BY n DESC",
    "FlowType = 'Order' ORDER BY n",
    "ORDER BY color",
    "ORDER BY color DESC, n",
    "ORDER BY late",
    "ORDER BY FlowId DESC",
    "ORDER BY RunId",
    "ORDER BY CloseTime DESC",
    "ORDER BY CloseTime",
    "ORDER BY FlowType, StartTime DESC",
    "ORDER BY Status DESC, StartTime DESC",
    "ORDER BY ParentFlowId, StartTime",
    "ORDER BY ScheduleId",
]


@pytest.mark.parametrize("query", SERVED)
def test_search_8_pages_that_an_index_serves_look_at_few_executions(connection: sqlite3.Connection, query: str) -> None:
    steps, found = page_of(connection, query)
    assert found
    assert steps < ALL_LOOKED_AT / 2
    if len(found) == 10:
        later, _ = page_of(connection, query, found[-1])
        assert later < ALL_LOOKED_AT / 2


def test_what_no_index_serves_looks_at_every_execution(connection: sqlite3.Connection) -> None:
    """So that the bound of the test above means something."""
    assert page_of(connection, "FlowId LIKE '%no such%'")[0] >= ALL_LOOKED_AT


@pytest.mark.parametrize(
    "query", ["FlowType = 'Order' AND n IS NULL", "FlowId LIKE '%no such%'", "color > 'a' ORDER BY n"]
)
def test_search_9_small_statements_look_at_the_time_too(connection: sqlite3.Connection, query: str) -> None:
    with pytest.raises(QueryTooSlowError):
        search_reading.search(connection, check(query, KEYS), None, 10, lambda: True)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", 4_000),
        ("FlowType = 'Rare'", 4),
        ("color = 'red'", 1_333),
        ("n < 10 AND n >= 5", 5),
        ("color IN ('red', 'blue')", 2_666),
        ("late LIKE 'x%'", 50),
        ("notes = 'some word5'", 4),
        ("color = 'red' AND late = 'x'", 17),
        ("color = 'no'", 0),
    ],
)
def test_search_8_counts_are_exact(connection: sqlite3.Connection, query: str, expected: int) -> None:
    assert search_reading.count(connection, check(query, KEYS), "", never_over) == {"": expected}


@pytest.mark.long
def test_search_8_first_pages_at_a_million_take_less_than_100_ms(tmp_path: Path) -> None:
    """Of the processor, which others may want too."""
    write_runs(tmp_path / "log.db", 1_000_000)
    slow = {}
    with closing(open_reader(tmp_path / "log.db")) as connection:
        search_sql.register(connection.create_function)
        for query in SERVED:
            checked = check(query, KEYS)
            times = []
            for _ in range(3):
                began = thread_time()
                search_reading.search(connection, checked, None, 100, never_over)
                times.append(thread_time() - began)
            if min(times) >= 0.1:
                slow[query] = times
    assert not slow
