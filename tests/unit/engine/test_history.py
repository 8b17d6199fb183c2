"""Histories: pages, following, and what a page costs [HIST-5]."""

import asyncio

import pytest

from dexd.codec.flow_queries import AttributeQuery, HistoryQuery, RunKey, WatchQuery
from dexd.codec.views import HistoryEntry
from dexd.core.config import KernelConfig
from dexd.core.ids import FlowId, RunId
from dexd.core.rejections import Code, Rejection
from dexd.engine import history
from dexd.engine.history import HistoryReader
from dexd.log.errors import LogFullError
from dexd.log.memory_log import MemoryLog
from dexd.log.reading import InlinePages
from tests.unit.engine.rig import Answers, Rig, publish_command, start_command, stop_command

KEY = RunKey(FlowId("f"), None)


async def with_events(count: int) -> Rig:
    """A run with that many events."""
    rig = Rig()
    await rig.start()
    for number in range(count - 2):
        await rig.answer(publish_command("f", b"[1]", request_id=f"p{number}"))
    return rig


async def test_pages_follow_each_other_without_gap() -> None:
    """[HIST-5] By event id; 0 says that there is nothing after this page yet."""
    rig = await with_events(5)
    reads = rig.engine.reads
    first = await rig.read(reads.history, HistoryQuery(KEY, 1, 2))
    second = await rig.read(reads.history, HistoryQuery(KEY, first.next_event_id, 2))
    last = await rig.read(reads.history, HistoryQuery(KEY, second.next_event_id, 2))
    ids = [entry.event_id for page in (first, second, last) for entry in page.entries]
    assert ids == [1, 2, 3, 4, 5]
    assert last.next_event_id == 0
    assert (await rig.read(reads.history, HistoryQuery(KEY, 6, 2))).entries == ()
    assert (await rig.read(reads.history, HistoryQuery(KEY, 99, 2))).entries == ()


async def test_page_from_the_middle_shows_the_same_as_one_from_the_start() -> None:
    """[HIST-5] Where a page begins does not change what it says."""
    rig = await with_events(5)
    stream = rig.log.run_rows("f")[0].stream_id
    pages = InlinePages(rig.log)
    whole = await HistoryReader(pages, KernelConfig()).page(stream, 1, 100)
    jump = await HistoryReader(pages, KernelConfig()).page(stream, 4, 100)
    assert jump is not None
    assert whole is not None
    assert jump.entries == whole.entries[3:]


async def test_page_ends_at_its_byte_limit() -> None:
    """[HIST-5, LIM-1] 4 MiB, and at least one event."""
    rig = Rig()
    await rig.start()
    large = b'"' + b"x" * (history.PAGE_BYTES_MAX // 3) + b'"'
    for number in range(3):
        await rig.answer(publish_command("f", large, request_id=f"p{number}"))
    page = await rig.read(rig.engine.reads.history, HistoryQuery(KEY, 3, 100))
    assert [entry.event_id for entry in page.entries] == [3, 4]
    assert page.next_event_id == 5


async def test_history_of_an_unknown_run_is_refused() -> None:
    """[ERR-A] FLOW_NOT_FOUND, for a page and for a watch."""
    rig = Rig()
    await rig.start()
    key = RunKey(FlowId("f"), RunId("other"))
    query = HistoryQuery(key, 1, 100)
    assert (await rig.read(rig.engine.reads.history, query)).code is Code.FLOW_NOT_FOUND
    entries = [entry async for entry in rig.engine.reads.watch_history(WatchQuery(key, 1))]
    assert [entry.code for entry in entries if isinstance(entry, Rejection)] == [Code.FLOW_NOT_FOUND]


async def test_watch_shows_what_is_there_and_what_comes_until_the_end() -> None:
    """[HIST-5] watch_history waits for the next event and ends with the Flow."""
    rig = await with_events(3)
    seen: list[HistoryEntry] = []

    async def watch() -> None:
        async for entry in rig.engine.reads.watch_history(WatchQuery(KEY, 1, page_events=2)):
            assert isinstance(entry, HistoryEntry)
            seen.append(entry)

    watching = asyncio.create_task(watch())
    await rig.answer(publish_command("f", b"1", request_id="late"))
    await rig.answer(stop_command("f"))
    await watching
    assert [entry.event_id for entry in seen] == [1, 2, 3, 4, 5, 6]
    assert seen[-1].kind == "FlowClosed"


async def test_cancelled_watch_leaves_the_others_alone() -> None:
    """[WAITAPI-6] Followers share one wake-up; one that leaves does not take it away."""
    rig = Rig()
    await rig.start()

    async def watch() -> list[str]:
        entries = rig.engine.reads.watch_history(WatchQuery(KEY, 1))
        return [entry.kind async for entry in entries if isinstance(entry, HistoryEntry)]

    leaving, staying = asyncio.create_task(watch()), asyncio.create_task(watch())
    await rig.read(rig.engine.reads.history, HistoryQuery(KEY, 1, 100))
    await rig.decided()
    leaving.cancel()
    await rig.answer(stop_command("f"))
    assert (await staying)[-1] == "FlowClosed"


async def test_unreadable_log_refuses_the_reader_and_nobody_else() -> None:
    """[ERR-2, ERR-3] A page that cannot be read is a refusal without the database's words."""
    log = MemoryLog()
    rig = Rig(log)
    await rig.start()
    log._streams[1][0] = log._streams[1][1]
    refused = await rig.read(rig.engine.reads.history, HistoryQuery(KEY, 1, 100))
    assert refused.code is Code.STORAGE_UNAVAILABLE
    assert (await rig.answer(start_command("g"))).run_id == "run-g"
    assert rig.fatal == []


async def test_long_history_is_shown_in_portions_and_followed_by_several_readers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[HIST-5] Pauses for the loop and forgotten views change nothing of what is shown."""
    monkeypatch.setattr(history, "VIEWS_MAX", 1)
    monkeypatch.setattr(history, "PORTION_EVENTS", 2)
    rig = await with_events(9)
    reads = rig.engine.reads
    whole = await rig.read(reads.history, HistoryQuery(KEY, 1, 100))
    jump = await rig.read(reads.history, HistoryQuery(KEY, 7, 1))
    again = await rig.read(reads.history, HistoryQuery(KEY, 8, 100))
    assert [*jump.entries, *again.entries] == list(whole.entries[6:])


async def test_reads_of_the_log_are_refused_when_the_engine_closes() -> None:
    """[DRAIN-4] Whoever still waits for a page is told."""
    rig = Rig()
    await rig.start()
    answers = Answers()
    rig.engine.reads.history(HistoryQuery(KEY, 1, 100), answers)
    rig.engine.close()
    await rig.decided()
    assert answers.only.code is Code.SHUTTING_DOWN


async def test_reads_behind_a_commit_that_fails_are_refused() -> None:
    """[ARCH-4] What they would have shown may be lost; the watch says so too."""
    rig = Rig()
    await rig.start()
    rig.writer.is_automatic = False
    rig.writer.refusal = LogFullError("full")
    rig.engine.request(stop_command("f"), Answers())
    await rig.decided()
    answers = Answers()
    rig.engine.reads.history(HistoryQuery(KEY, 1, 100), answers)
    watching = anext(rig.engine.reads.watch_history(WatchQuery(KEY, 1)))
    watch = asyncio.ensure_future(watching)
    await rig.decided()
    rig.writer.commit()
    assert answers.only.code is Code.DISK_FULL
    refused = await watch
    assert isinstance(refused, Rejection)
    assert refused.code is Code.DISK_FULL


async def test_attribute_of_an_unknown_flow_is_refused() -> None:
    """[ERR-A] FLOW_NOT_FOUND."""
    rig = Rig()
    query = AttributeQuery(RunKey(FlowId("unknown"), None), "a")
    assert (await rig.read(rig.engine.reads.attribute, query)).code is Code.FLOW_NOT_FOUND
