"""Searches of a log, whatever engine is under it; and that all engines find the same [SEARCH-4, SEARCH-5, SEARCH-8]."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from dexd.core.index_values import IndexType
from dexd.log import search_sql
from dexd.log.connection import open_reader
from dexd.log.errors import QueryTooSlowError
from dexd.log.event_log import Batch, EventLog, FoundPage, IndexKeyRow, IndexRow, Projections, RunRow, never_over
from dexd.log.memory_log import MemoryLog
from dexd.log.search_paging import Bounds, Finder
from dexd.log.sqlite_log import SqliteLog
from dexd.search.checking import check
from dexd.search.predicates import CheckedQuery
from dexd.search.syntax import QueryError
from tests.unit.search.queries import KEYS, some_index_rows, some_query, some_runs


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventLog]:
    opened: EventLog = MemoryLog() if request.param == "memory" else SqliteLog.open(tmp_path / "log.db")
    with closing(opened):
        yield opened


def run(stream_id: int, flow_id: str = "", **fields: object) -> RunRow:
    values = {"ordinal": 1, "flow_type": "Order", "status": 1, "started_at": stream_id, "closed_at": 0} | fields
    return RunRow(stream_id, f"run-{stream_id}", flow_id or f"f{stream_id}", **values)  # type: ignore[arg-type]


def put(log: EventLog, *runs: RunRow, indexed: Sequence[IndexRow] = ()) -> None:
    log.append(Batch(log.last_seq, (), runs, indexed=indexed))


def named(log: EventLog, **types: IndexType) -> None:
    log.append(Batch(log.last_seq, (), index_keys=[IndexKeyRow(key, type_.value) for key, type_ in types.items()]))


def found(log: EventLog, query: str) -> list[int]:
    return [row.stream_id for row in log.matching(check(query, log.index_keys()))]


def ids(page: FoundPage) -> list[int]:
    return [one.listed.row.stream_id for one in page.runs]


def pages(log: EventLog, query: CheckedQuery, limit: int) -> list[int]:
    seen: list[int] = []
    page = log.search(query, None, limit)
    seen += ids(page)
    while page.has_more:
        page = log.search(query, page.runs[-1].position, limit)
        seen += ids(page)
    return seen


def test_attr_10_a_key_keeps_its_first_type(log: EventLog) -> None:
    named(log, city=IndexType.KEYWORD)
    named(log, city=IndexType.INT, n=IndexType.INT)
    assert log.index_keys() == {"city": IndexType.KEYWORD, "n": IndexType.INT}


def test_attr_11_rows_of_a_key_replace_each_other_and_can_go(log: EventLog) -> None:
    named(log, tags=IndexType.KEYWORD_ARRAY, notes=IndexType.FULL_TEXT)
    put(log, run(1), indexed=[IndexRow(1, "tags", ("b", "a", "b")), IndexRow(1, "notes", ("some words",), True)])
    assert list(log.index_rows(1)) == [
        IndexRow(1, "notes", ("some words",), True),
        IndexRow(1, "tags", ("b", "a", "b")),
    ]
    put(log, indexed=[IndexRow(1, "tags", ("c",)), IndexRow(1, "notes", ("other words",), True)])
    assert found(log, "tags = 'c' AND notes = 'other'") == [1]
    assert found(log, "tags = 'b' OR notes = 'some'") == []
    put(log, indexed=[IndexRow(1, "tags", ()), IndexRow(1, "notes", (), True)])
    assert list(log.index_rows(1)) == []
    assert found(log, "tags IS NULL AND notes IS NULL AND NOT notes = 'words'") == [1]


def test_search_7_one_row_for_each_execution_newest_start_first_ties_by_flow_id(log: EventLog) -> None:
    named(log, n=IndexType.INT)
    put(log, run(1, "b", started_at=5), run(2, "a", started_at=5), run(3, "c", started_at=9))
    put(log, indexed=[IndexRow(1, "n", (1,))])
    put(log, run(4, "b", started_at=5, first_run_id="run-1"), indexed=[IndexRow(4, "n", (2,))])
    put(log, run(5, "b", ordinal=2, started_at=4))
    assert found(log, "") == [3, 2, 4, 5]
    assert found(log, "n IS NOT NULL") == [4]
    assert (log.count(check("n = 1", log.index_keys())), log.count(check("n = 2", log.index_keys()))) == (
        {"": 0},
        {"": 1},
    )
    assert list(log.index_rows(1)) == []
    (first,) = log.search(check("n = 2", log.index_keys()), None, 9).runs
    assert (first.listed.row.first_run_id, first.indexed) == ("run-1", [IndexRow(4, "n", (2,))])


def test_search_8_pages_neither_repeat_nor_lose_what_does_not_change(log: EventLog) -> None:
    rows = [run(stream_id, started_at=stream_id // 3) for stream_id in range(1, 20)]
    put(log, *rows)
    query = check("", {})
    first = log.search(query, None, 5)
    put(log, run(40, started_at=90), run(41, "f05", started_at=0))
    seen = ids(first)
    while first.has_more:
        first = log.search(query, first.runs[-1].position, 5)
        seen += ids(first)
    expected = [row.stream_id for row in sorted(rows, key=lambda row: (-row.started_at, row.flow_id))]
    assert [stream_id for stream_id in seen if stream_id < 40] == expected


def test_search_8_a_page_ends_at_4_mib_but_holds_a_row(log: EventLog) -> None:
    named(log, notes=IndexType.FULL_TEXT)
    for stream_id in (1, 2, 3):
        put(log, run(stream_id), indexed=[IndexRow(stream_id, "notes", ("x" * (3 << 20),), True)])
    page = log.search(check("", {}), None, 10)
    assert (ids(page), page.has_more) == ([3], True)
    assert pages(log, check("", {}), 10) == [3, 2, 1]


def test_search_9_a_search_that_takes_too_long_is_given_up(log: EventLog) -> None:
    put(log, *(run(stream_id) for stream_id in range(1, 500)))
    query = check(" OR ".join(f"FlowId LIKE '%{number}%x'" for number in range(300)), {})
    for read in (
        lambda: log.search(query, None, 10, lambda: True),
        lambda: log.count(query, "", lambda: True),
        lambda: log.matching(query, lambda: True),
    ):
        with pytest.raises(QueryTooSlowError):
            read()
    assert found(log, "FlowId = 'f7'") == [7]


def test_search_9_the_largest_queries_run(log: EventLog) -> None:
    """Thousands of comparisons side by side, and all the nesting that is allowed."""
    named(log, n=IndexType.INT, b=IndexType.BOOL)
    put(log, run(1), run(2), indexed=[IndexRow(1, "n", (7,)), IndexRow(1, "b", (True,))])
    assert found(log, " OR ".join(f"n={number}" for number in range(1_600))) == [1]
    assert found(log, " AND ".join(["n!=1"] * 1_300)) == [1]
    assert found(log, f"n IN ({','.join(map(str, range(1_000)))})") == [1]
    nested = "n=7"
    for depth in range(16):
        joined = (" AND ", " OR ")[depth % 2].join([*["b=true"] * 40, nested])
        nested = f"({joined})"
    assert found(log, nested) == [1]
    assert found(log, " OR ".join(["NOT (n=1 AND NOT (b=true OR n=2))"] * 300)) == [2, 1]


def test_search_8_counts_by_group(log: EventLog) -> None:
    put(log, run(1), run(2, status=2, closed_at=9), run(3, flow_type="Bill"))
    put(
        log, indexed=[IndexRow(1, "sys:StepStatus", ("queued", "waiting")), IndexRow(3, "sys:StepStatus", ("waiting",))]
    )
    query = check("", {})
    assert log.count(query) == {"": 3}
    assert log.count(query, "Status") == {"": 3, "RUNNING": 2, "COMPLETED": 1}
    assert log.count(query, "FlowType") == {"": 3, "Order": 2, "Bill": 1}
    assert log.count(query, "StepStatus") == {"": 3, "queued": 1, "waiting": 2}
    assert log.count(check("FlowId = 'no'", {}), "Status") == {"": 0}


def test_keys_outlive_what_is_made_anew(log: EventLog) -> None:
    """[ATTR-10, ARCH-10] Projections are replaced as a whole; keys are none."""
    named(log, n=IndexType.INT)
    put(log, run(1), indexed=[IndexRow(1, "n", (1,))])
    rows = [run(1), run(2, first_run_id="run-1", flow_id="f1")]
    log.replace_projections(Projections(2, rows, (), (), indexed=[IndexRow(2, "n", (3,))]))
    assert log.index_keys() == {"n": IndexType.INT}
    assert found(log, "n = 3") == [2]
    assert found(log, "") == [2]


def test_search_8_every_log_signs_with_its_own_secret(tmp_path: Path) -> None:
    with closing(SqliteLog.open(tmp_path / "a.db")) as one, closing(SqliteLog.open(tmp_path / "b.db")) as other:
        secret = one.page_secret
        assert len(secret) == 32
        assert secret != other.page_secret
    with closing(SqliteLog.open(tmp_path / "a.db")) as again:
        assert again.page_secret == secret


@pytest.mark.parametrize("seed", range(3))
def test_search_4_all_logs_find_the_same(seed: int, tmp_path: Path) -> None:
    """[SEARCH-5] SQL against the plain meaning of the language, over random rows and queries."""
    random = Random(seed)
    runs = some_runs(random, 60)
    rows = some_index_rows(random, runs)
    keys = [IndexKeyRow(key, type_.value) for key, type_ in KEYS.items()]
    memory = MemoryLog()
    with closing(SqliteLog.open(tmp_path / "log.db")) as sqlite:
        for log in (memory, sqlite):
            log.append(Batch(0, (), runs, indexed=rows, index_keys=keys))
        compared = 0
        for _ in range(250):
            try:
                query = check(some_query(random), KEYS)
            except QueryError:
                continue
            compared += 1
            expected = [row.stream_id for row in memory.matching(query)]
            assert [row.stream_id for row in sqlite.matching(query)] == expected, query.text
            assert pages(sqlite, query, 9) == expected, query.text
            assert sqlite.count(query, "Status") == memory.count(query, "Status"), query.text
            first, second = memory.search(query, None, 3), sqlite.search(query, None, 3)
            assert [one.position for one in first.runs] == [one.position for one in second.runs], query.text
        assert compared > 80


BOUNDS = [
    Bounds(few=0, counted_max=1),
    Bounds(few=0, counted_max=1, pairs_max=0, block_max=2),
    Bounds(few=2, counted_max=20, block_max=3),
    Bounds(few=0, counted_max=40, sources_max=1, passed_max=10),
]


@pytest.mark.parametrize("bounds", BOUNDS, ids=repr)
def test_search_8_every_way_finds_the_same(bounds: Bounds, tmp_path: Path) -> None:
    """[SEARCH-4, SEARCH-7] Which way is taken depends on how much there is; what is found does not."""
    random = Random(repr(bounds))
    runs = some_runs(random, 60)
    keys = [IndexKeyRow(key, type_.value) for key, type_ in KEYS.items()]
    batch = Batch(0, (), runs, indexed=some_index_rows(random, runs), index_keys=keys)
    memory = MemoryLog()
    memory.append(batch)
    path = tmp_path / "log.db"
    with closing(SqliteLog.open(path)) as sqlite:
        sqlite.append(batch)
        with closing(open_reader(path)) as connection:
            search_sql.register(connection.create_function)
            for _ in range(100):
                try:
                    query = check(some_query(random), KEYS)
                except QueryError:
                    continue
                expected = [row.stream_id for row in memory.matching(query)]
                limit = random.choice([1, 3, 9])
                found: list[object] = []
                position = None
                while True:
                    finder = Finder(connection, never_over, bounds)
                    page = finder.page(query.predicate, query.order, position, limit)
                    found += [one[-1] for one in page]
                    if len(page) < limit:
                        break
                    position = page[-1]
                assert found == expected, query.text
