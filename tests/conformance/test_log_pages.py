"""What every source of pages must do; the one for logs in memory is held to it as the one with connections."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from dexd.log.errors import LogUnavailableError
from dexd.log.event_log import EventLog, never_over
from dexd.log.memory_log import MemoryLog
from dexd.log.reading import HISTORY_PAGE_BYTES_MAX, InlinePages, LogPages, SqlitePages
from dexd.log.sqlite_log import SqliteLog
from dexd.search.checking import check
from tests.support.log_author import LogAuthor, closed, removal, run_row

MIB = 1 << 20


@pytest.fixture(params=["memory", "sqlite"])
async def source(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[EventLog, LogPages]]:
    """A log and the pages of it."""
    if request.param == "memory":
        memory = MemoryLog()
        yield memory, InlinePages(memory)
        return
    with SqliteLog.open(tmp_path / "log.db") as log:
        async with SqlitePages(tmp_path / "log.db") as pages:
            yield log, pages


@pytest.fixture
def author(source: tuple[EventLog, LogPages]) -> LogAuthor:
    return LogAuthor(source[0])


@pytest.fixture
def pages(source: tuple[EventLog, LogPages]) -> LogPages:
    return source[1]


async def versions(pages: LogPages, from_version: int, limit: int = 1_000) -> list[int]:
    page = await pages.history(1, from_version, limit)
    assert page is not None
    return [event.version for event in page]


async def test_history_comes_in_pages(author: LogAuthor, pages: LogPages) -> None:
    """[HIST-5]"""
    batch = author.append(*(author.event(1) for _ in range(5)), author.event(2), runs=[run_row(1), run_row(2)])
    assert await pages.history(1, 1, 10) == batch.events[:5]
    assert await versions(pages, 2, 3) == [2, 3, 4]
    assert await versions(pages, 6) == []
    assert await pages.history(2, 2, 10) == []


async def test_keep_3_history_of_a_run_that_is_not_retained_is_no_page(author: LogAuthor, pages: LogPages) -> None:
    """[KEEP-3] From the moment on at which the run is removed, whether its events are deleted already or not."""
    author.start(closed(run_row(1)), events=300)
    assert await versions(pages, 1, 1) == [1]
    author.append(removals=[removal(run_row(1))])
    assert await pages.history(1, 1, 10) is None
    assert author.log.remove_some(100)
    for version in (1, 150, 301):
        assert await pages.history(1, version, 10) is None
    while author.log.remove_some(100):
        pass
    assert await pages.history(1, 1, 10) is None
    assert await pages.history(7, 1, 10) is None


async def test_keep_1_due_runs_are_looked_for_in_pages_too(author: LogAuthor, pages: LogPages) -> None:
    """[KEEP-1, ID-10]"""
    author.start(closed(run_row(1)))
    assert await pages.closed_runs(2_000, (0, 0), 10) == [closed(run_row(1))]
    assert await pages.closed_runs(2_000, (1_500, 1), 10) == []
    assert not await pages.has_expired_ordinals(10**6)
    author.append(removals=[removal(run_row(1), expires_at=10**6)])
    assert await pages.has_expired_ordinals(10**6)


async def test_page_of_history_ends_at_4_mib(author: LogAuthor, pages: LogPages) -> None:
    """[HIST-5]"""
    sizes = (MIB, 3 * MIB, 1, MIB, 3 * MIB - 1, 0)
    author.append(*(author.event(1, payload=bytes(size)) for size in sizes), runs=[run_row(1)])
    assert HISTORY_PAGE_BYTES_MAX == 4 * MIB
    assert await versions(pages, 1) == [1, 2]
    assert await versions(pages, 2) == [2, 3]
    assert await versions(pages, 3) == [3, 4, 5, 6]


async def test_larger_event_is_a_page_of_its_own(author: LogAuthor, pages: LogPages) -> None:
    author.append(*(author.event(1, payload=bytes(size)) for size in (5 * MIB, 0, 5 * MIB)), runs=[run_row(1)])
    assert await versions(pages, 1) == [1]
    assert await versions(pages, 2) == [2]
    assert await versions(pages, 3) == [3]


async def test_searches_are_those_of_the_log(author: LogAuthor, pages: LogPages) -> None:
    """[SEARCH-7]"""
    for stream_id in (1, 2, 3):
        author.start(run_row(stream_id))
    query = check("FlowType = 'Order'", {})
    page = await pages.search(query, None, 2, never_over)
    assert [found.listed.row.run_id for found in page.runs] == ["run-3", "run-2"]
    rest = await pages.search(query, page.runs[-1].position, 2, never_over)
    assert ([found.listed.row.run_id for found in rest.runs], rest.has_more) == (["run-1"], False)
    assert await pages.count(query, "FlowType", never_over) == {"": 3, "Order": 3}
    assert [row.run_id for row in await pages.matching(query, never_over)] == ["run-3", "run-2", "run-1"]


async def test_page_shows_every_commit_before_it(author: LogAuthor, pages: LogPages) -> None:
    """[SEARCH-7]"""
    for version in range(1, 6):
        author.append(author.event(1), runs=[run_row(1)])
        assert await versions(pages, 1) == list(range(1, version + 1))


async def test_many_read_at_once(author: LogAuthor, pages: LogPages) -> None:
    author.append(*(author.event(1) for _ in range(3)), runs=[run_row(1)])
    read = await asyncio.gather(*(versions(pages, 1) for _ in range(20)))
    assert read == [[1, 2, 3]] * 20


async def test_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogUnavailableError):
        await SqlitePages(tmp_path / "log.db").open()


async def test_streams_of_a_chain_are_those_of_the_log(author: LogAuthor, pages: LogPages) -> None:
    """[ROLL-4]"""
    author.start(run_row(1, flow_id="order"))
    author.start(msgspec.structs.replace(run_row(2, flow_id="order"), first_run_id="run-1", chain_id="run-1"))
    assert list(await pages.chain_streams("run-1")) == [1, 2]
    assert list(await pages.chain_streams("run-3")) == []


async def test_tt_3_runs_of_a_flow_come_newest_first(author: LogAuthor, pages: LogPages) -> None:
    """Of all its executions; those that were removed are not among them."""
    rows = [
        run_row(1, flow_id="f"),
        run_row(2, flow_id="f"),
        run_row(3, flow_id="g"),
        run_row(4, flow_id="f", ordinal=2),
    ]
    for row in rows:
        author.start(closed(row))
    assert [row.stream_id for row in await pages.run_rows("f")] == [4, 2, 1]
    author.append(removals=[removal(rows[0])])
    assert [row.stream_id for row in await pages.run_rows("f")] == [4, 2]
    assert list(await pages.run_rows("nobody")) == []
