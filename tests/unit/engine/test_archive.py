"""The archive writes executions as files before they are removed [KEEP-2]."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Event

import pytest

from dexd.blobs.memory_store import MemoryBlobStore
from dexd.codec.export_lines import BlobLine, read_executions
from dexd.engine.archive import DirectoryArchive, file_name
from dexd.log.event_log import RunRow, StoredEvent
from dexd.log.memory_log import MemoryLog
from tests.unit.engine.rig import Rig, start_command, stop_command

LATER = 10**9
WAIT_S = 20
"""Longer than any machine takes; nothing waits for it to pass."""


async def archived(rig: Rig, directory: Path, flow_id: str, ordinal: int = 1, until: int = LATER) -> list[str]:
    archive = DirectoryArchive(directory, rig.log, MemoryBlobStore(), release="1.0", now=rig.clock.now)
    return [row.run_id for row in await archive.keep(flow_id, ordinal, until)]


def events_of(path: Path) -> list[StoredEvent]:
    with path.open("rb") as file:
        [execution] = read_executions(file, list[BlobLine]().append)
    return [event for run in execution.runs for event in run.events]


async def test_keep_2_execution_becomes_a_file_with_all_its_events(tmp_path: Path) -> None:
    """[KEEP-2] Exactly as they are in the log."""
    rig = Rig()
    await rig.start("a/b")
    await rig.answer(stop_command("a/b"))
    assert await archived(rig, tmp_path / "kept", "a/b") == ["run-a/b"]
    [path] = (tmp_path / "kept").rglob("*.jsonl")
    assert path.relative_to(tmp_path / "kept") == Path("1970-01-01") / "a_b~1-run-a_b.jsonl"
    stored = [(event.version, event.at, event.type, event.payload) for event in rig.log.read_stream(1, 1, 100)]
    assert [(event.version, event.at, event.type, event.payload) for event in events_of(path)] == stored
    assert await archived(rig, tmp_path / "kept", "a/b") == ["run-a/b"]
    assert list((tmp_path / "kept").rglob("*.jsonl")) == [path]


async def test_keep_2_only_what_is_due_of_one_execution_is_written(tmp_path: Path) -> None:
    """[KEEP-1, KEEP-2] Not what is open, closed later, or of another execution."""
    rig = Rig()
    await rig.start("a")
    await rig.answer(stop_command("a"))
    closed_at = rig.clock.at
    assert await archived(rig, tmp_path, "a", until=closed_at - 1) == []
    await rig.answer(start_command("a", run_id="run-2", request_id="second"))
    assert await archived(rig, tmp_path, "a", ordinal=2) == []
    assert await archived(rig, tmp_path, "unknown") == []
    assert await archived(rig, tmp_path, "a", until=closed_at) == ["run-a"]


class SlowLog(MemoryLog):
    """Does not answer a reader of streams before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = Event()

    def read_stream(
        self, stream_id: int, from_version: int, limit: int, types: Iterable[str] = ()
    ) -> Sequence[StoredEvent]:
        assert self.may_answer.wait(WAIT_S)
        return super().read_stream(stream_id, from_version, limit, types)


async def test_keep_2_archive_closes_when_nothing_is_written_any_more(tmp_path: Path) -> None:
    """[KEEP-2, DRAIN-4] Although whoever asked for it has gone; the log may be closed then."""
    log = SlowLog()
    rig = Rig(log)
    await rig.start("a")
    await rig.answer(stop_command("a"))
    archive = DirectoryArchive(tmp_path, log, MemoryBlobStore(), release="1.0", now=rig.clock.now)
    await archive.close()
    keeping = asyncio.ensure_future(archive.keep("a", 1, LATER))
    await rig.decided()
    keeping.cancel()
    closing = asyncio.ensure_future(archive.close())
    await rig.decided()
    assert (keeping.cancelled(), closing.done()) == (True, False)
    log.may_answer.set()
    await closing
    assert events_of(tmp_path / file_name(log.run_rows("a")))


async def test_keep_2_archive_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """[KEEP-2]"""
    rig = Rig()
    await rig.start("a")
    await rig.answer(stop_command("a"))
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(OSError, match="taken"):
        await archived(rig, tmp_path / "taken", "a")


def test_keep_2_file_names_tell_executions_apart_and_fit_every_file_system() -> None:
    """[KEEP-2, ID-2] By the run ID, whatever the Flow ID looks like."""

    def name(flow_id: str, run_id: str = "00ff") -> Path:
        return file_name([RunRow(1, run_id, flow_id, 3, "Order", 2, 0, 86_400_000)])

    assert name("order-1") == Path("1970-01-02") / "order-1~3-00ff.jsonl"
    assert name("../\0\u202e/é") == Path("1970-01-02") / ".._____~3-00ff.jsonl"
    assert name("a") != name("a", "00fe")
    assert len(str(name("\U0001f98a" * 255, "f" * 32))) < 200
