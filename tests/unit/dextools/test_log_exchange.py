"""`dex log export` and `import`, `inspect`, `stats` and `diff`, on directories of the real log [SURF-23]."""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from dexd.blobs.local_store import LocalBlobReader, LocalBlobStore
from dexd.core.blobs import BlobReference
from dexd.core.flow.decide_flow_retry import derived_run_id
from dexd.core.flow.state import RunState
from dexd.core.ids import RunId
from dexd.core.terms import FlowRetry, FlowTerms
from dexd.core.values import Condition, ConditionKind, DecisionKind, RetryPolicy, StepPlan, Wait, WaitKind
from dexd.log.directory import locked, log_path
from dexd.log.event_log import Batch, EventLog, Removal
from dexd.log.sqlite_log import SqliteLog
from dextools.cli.app import build_app
from dextools.cli.errors import ExitCode
from dextools.log_inspection import history
from dextools.log_verification import verify_log
from tests.unit.engine.rig import Rig, publish_command, start_command, stop_command

BEGIN = StepPlan("Begin", b"1", True)
RETRY = "retried"


@asynccontextmanager
async def server_on(data_dir: Path, clock_at: int | None = None) -> AsyncIterator[Rig]:
    """An engine on the log of a data directory."""
    log_path(data_dir).parent.mkdir(parents=True, exist_ok=True)
    with SqliteLog.open(log_path(data_dir)) as log:
        rig = Rig(log, is_serving=False)
        rig.clock.at = clock_at or rig.clock.at
        rig.engine.start()
        yield rig


async def busy(rig: Rig) -> None:
    """A Flow in the middle of things: one Step waits for a Timer, a message is pending; and a chain of two runs."""
    worker = await rig.worker()
    await rig.start("other")
    await rig.answer(start_command("busy", start_step=BEGIN, attributes=(("note", b'"x"'),)))
    await rig.decided()
    timer = Wait(WaitKind.ALL_OF, (Condition(ConditionKind.TIMER, duration_ms=5_000),))
    worker.wait(worker.calls[-1], timer)
    await rig.decided()
    await rig.answer(publish_command("busy", b"9007199254740993"))
    terms = FlowTerms(retry=FlowRetry(RetryPolicy(maximum_attempts=2), StepPlan("Next", b"2", False)))
    await rig.answer(start_command(RETRY, terms=terms))
    await rig.decided()
    worker.decide(worker.calls[-1], DecisionKind.FORCE_FAIL)
    await rig.decided()
    await rig.answer(publish_command(RETRY, b"1"))


def dex(*arguments: str, given: bytes | None = None) -> tuple[int, Any]:
    """Run `dex --json log ...`; gives exit code and answer, or error."""
    result = CliRunner().invoke(build_app(), ["--json", "log", *arguments], input=given)
    text = result.stdout if result.exit_code == 0 else result.stderr
    return result.exit_code, json.loads(text) if text else None


def exported(data_dir: Path, *arguments: str) -> bytes:
    result = CliRunner().invoke(build_app(), ["log", "export", *arguments, "--data-dir", str(data_dir)])
    assert result.exit_code == 0, result.stderr
    return result.stdout_bytes


def histories(log: EventLog, flow_id: str) -> list[Any]:
    return [list(history(log, row)) for row in log.run_rows(flow_id)]


def state_of(rig: Rig, run_id: str) -> RunState:
    run = rig.engine.runs.run_by_id(RunId(run_id))
    assert run is not None
    return msgspec.structs.replace(run, stream_id=0)


@pytest.mark.parametrize(
    ("flow_id", "run_ids"),
    [("busy", ["run-busy"]), (RETRY, [derived_run_id("run-retried/retry"), "run-retried"])],
)
async def test_surf_23_imported_execution_has_the_same_history_and_state(
    tmp_path: Path, flow_id: str, run_ids: list[str]
) -> None:
    """[SURF-23] One in the middle of things, and one over a chain of runs; the log is whole, and serves it."""
    there, here = tmp_path / "there", tmp_path / "here"
    async with server_on(there) as rig:
        await busy(rig)
        shown = histories(rig.log, flow_id)
        states = [state_of(rig, run_id) for run_id in run_ids]
        now = rig.clock.at
    async with server_on(here) as rig:
        await rig.start("mine")
    lines = exported(there, flow_id)
    assert dex("import", "-", "--data-dir", str(here), given=lines) == (
        0,
        {
            "imported": [
                {"flow_id": flow_id, "run_ids": run_ids[::-1], "events": len(lines.splitlines()) - 2 - len(run_ids)}
            ]
        },
    )
    async with server_on(here, now) as rig:
        report = verify_log(rig.log, lambda _: None)
        assert (report.faults, report.runs) == ([], 1 + len(run_ids))
        assert [row.run_id for row in rig.log.run_rows(flow_id)] == run_ids
        assert histories(rig.log, flow_id) == shown
        assert [state_of(rig, run_id) for run_id in run_ids] == states
        await rig.start("later")
        await rig.answer(stop_command(flow_id))
        await rig.answer(stop_command("mine"))
        assert verify_log(rig.log, lambda _: None).faults == []


async def test_surf_23_imported_timer_fires_when_it_was_to(tmp_path: Path) -> None:
    """[SURF-23, TIMER-3] At its old instant, whatever the log's own time was."""
    there, here = tmp_path / "there", tmp_path / "here"
    async with server_on(there) as rig:
        await busy(rig)
        now = rig.clock.at
    (tmp_path / "file").write_bytes(exported(there, "busy"))
    assert dex("import", str(tmp_path / "file"), "--data-dir", str(here))[0] == 0
    async with server_on(here, now) as rig:
        await rig.worker()
        await rig.advance(4_999)
        kinds = [event.type for event in rig.log.read_stream(1, 1, 100)]
        assert "TimerFired" not in kinds
        await rig.advance(1)
        assert [event.type for event in rig.log.read_stream(1, 1, 100)][len(kinds)] == "TimerFired"


async def test_surf_23_export_takes_the_whole_execution_or_one_run(tmp_path: Path) -> None:
    """[SURF-23] ID is a Flow ID or a run ID; `--out` writes a file."""
    async with server_on(tmp_path) as rig:
        await busy(rig)
    whole = exported(tmp_path, RETRY)
    assert exported(tmp_path, "run-retried") == whole
    assert whole.count(b'"kind":"run"') == 2
    single = exported(tmp_path, "run-retried", "--only-run")
    assert single.count(b'"kind":"run"') == 1
    out = tmp_path / "out.jsonl"
    code, answer = dex("export", RETRY, "--out", str(out), "--data-dir", str(tmp_path))
    assert (code, answer["run_ids"], answer["file"]) == (
        0,
        ["run-retried", derived_run_id("run-retried/retry")],
        str(out),
    )
    assert out.read_bytes() == whole
    assert answer["events"] == whole.count(b'"kind":"event"')
    code, error = dex("export", "nobody", "--data-dir", str(tmp_path))
    assert (code, error["error"]["code"]) == (ExitCode.NOT_FOUND, "FLOW_NOT_FOUND")


async def test_surf_23_pieces_of_an_execution_are_imported_together(tmp_path: Path) -> None:
    """[KEEP-2] As an archive has them, in any order of executions."""
    there, here = tmp_path / "there", tmp_path / "here"
    async with server_on(there) as rig:
        await busy(rig)
        await rig.answer(stop_command("other"))
        await rig.answer(start_command("other", run_id="other-2", request_id="again"))
    names = ["other-2", "run-other", "run-retried", derived_run_id("run-retried/retry")]
    for name in names:
        (tmp_path / name).write_bytes(exported(there, name, "--only-run"))
    code, answer = dex("import", *(str(tmp_path / name) for name in names), "--data-dir", str(here))
    assert code == 0
    assert [(flow["flow_id"], flow["run_ids"]) for flow in answer["imported"]] == [
        ("other", ["run-other", "other-2"]),
        (RETRY, names[2:]),
    ]
    async with server_on(here) as rig:
        assert [row.ordinal for row in rig.log.run_rows("other")] == [2, 1]
        assert verify_log(rig.log, lambda _: None).faults == []


async def test_id_10_earlier_execution_is_not_imported_where_a_later_one_was(tmp_path: Path) -> None:
    """[ID-10] Otherwise the next start would use the later one's keys again; together they may come back."""
    async with server_on(tmp_path / "there") as rig:
        for number in (1, 2):
            await rig.answer(start_command("a", run_id=f"run-{number}", request_id=f"r{number}"))
            await rig.answer(stop_command("a"))
    first, second = (exported(tmp_path / "there", run_id) for run_id in ("run-1", "run-2"))
    here = tmp_path / "here"
    async with server_on(here) as rig:
        rig.log.append(Batch(0, (), removals=[Removal(7, "a", 2, 0)]))
    code, error = dex("import", "-", "--data-dir", str(here), given=first)
    assert (code, error["error"]["code"]) == (ExitCode.CONFLICT, "FLOW_EXISTS")
    assert dex("import", "-", "--data-dir", str(here), given=second + first)[0] == 0
    async with server_on(here) as rig:
        await rig.answer(start_command("a", run_id="run-3", request_id="r3"))
        assert [row.ordinal for row in rig.log.run_rows("a")] == [3, 2, 1]


async def test_surf_23_import_refuses_what_is_there_and_what_is_no_export(tmp_path: Path) -> None:
    """[SURF-23] And changes nothing."""
    async with server_on(tmp_path) as rig:
        await busy(rig)
        before = rig.log.last_seq
    lines = exported(tmp_path, "busy")
    code, error = dex("import", "-", "--data-dir", str(tmp_path), given=lines)
    assert (code, error["error"]["code"]) == (ExitCode.CONFLICT, "FLOW_EXISTS")
    renamed = lines.replace(b'"flow_id":"busy"', b'"flow_id":"new"', 1)
    code, error = dex("import", "-", "--data-dir", str(tmp_path), given=renamed)
    assert (code, error["error"]["code"]) == (ExitCode.CONFLICT, "FLOW_EXISTS")
    elsewhere = str(tmp_path / "elsewhere")
    for broken in (b"what\n", lines.rstrip().rsplit(b"\n", 1)[0], renamed):
        code, error = dex("import", "-", "--data-dir", elsewhere, given=broken)
        assert (code, error["error"]["code"]) == (ExitCode.USAGE, "INVALID_EXPORT")
    twice = b"".join((lines, lines))
    code, error = dex("import", "-", "--data-dir", elsewhere, given=twice)
    assert (code, error["error"]["code"]) == (ExitCode.CONFLICT, "FLOW_EXISTS")
    code, error = dex("import", str(tmp_path / "nothing"), "--data-dir", elsewhere)
    assert (code, error["error"]["code"]) == (ExitCode.NOT_FOUND, "FILE_NOT_FOUND")
    async with server_on(tmp_path) as rig:
        assert rig.log.last_seq == before
    async with server_on(tmp_path / "elsewhere") as rig:
        assert rig.log.last_seq == 0
    assert dex("import", "-", "--data-dir", elsewhere, given=b"") == (0, {"imported": []})


# ---- large values ------------------------------------------------------------------------------------------------

LARGE = b'"' + b"x" * (2 << 20) + b'"'
REFERENCE = BlobReference(hashlib.sha256(LARGE).digest(), len(LARGE))


async def with_large_value(data_dir: Path, blob_dir: Path) -> bytes:
    """The export of a Flow whose Attribute and message are one large value."""
    incoming = LocalBlobStore(blob_dir).receive(REFERENCE.digest, REFERENCE.size)
    incoming.write(LARGE)
    incoming.keep(1)
    async with server_on(data_dir) as rig:
        await rig.answer(start_command("large", attributes=(("doc", REFERENCE.to_value()),)))
        await rig.answer(publish_command("large", REFERENCE.to_value()))
    return exported(data_dir, "large", "--blob-dir", str(blob_dir))


async def test_keep_2_large_values_are_exported_once_and_imported(tmp_path: Path) -> None:
    """[KEEP-2, BLOB-1, SURF-23] In pieces; they lie in the other store before the events are in the other log."""
    here = tmp_path / "here"
    lines = await with_large_value(tmp_path / "there", tmp_path / "there" / "blobs")
    assert lines.count(b'"kind":"blob"') == 3
    assert dex("import", "-", "--data-dir", str(here), given=lines)[0] == 0
    store = LocalBlobReader(here / "blobs")
    assert store.read(REFERENCE.digest, 0, REFERENCE.size + 1) == LARGE
    with SqliteLog.open(log_path(here)) as log:
        assert log.blobs_in_use([REFERENCE.digest]) == {REFERENCE.digest}
        assert verify_log(log, lambda _: None).faults == []


async def test_keep_2_large_value_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """[KEEP-2, SURF-23] When it is exported and when it is imported; `--blob-dir` says where they are."""
    lines = await with_large_value(tmp_path / "there", tmp_path / "elsewhere")
    code, error = dex("export", "large", "--data-dir", str(tmp_path / "there"))
    assert (code, error["error"]["code"]) == (ExitCode.NOT_FOUND, "BLOB_NOT_FOUND")
    pieces = [line for line in lines.splitlines(True) if b'"kind":"blob"' in line]
    wrong = pieces[1].replace(b"eHh4", b"eXl5", 1)
    no_digest = pieces[0].replace(REFERENCE.digest.hex().encode(), b"abc", 1)
    for old, new in (
        (b"".join(pieces), b""),
        (pieces[0], b""),
        (pieces[1], b""),
        (pieces[2], b""),
        (pieces[1], wrong),
        (pieces[0], no_digest),
    ):
        broken = lines.replace(old, new)
        assert broken != lines
        code, error = dex("import", "-", "--data-dir", str(tmp_path / "here"), given=broken)
        assert (code, error["error"]["code"]) == (ExitCode.USAGE, "INVALID_EXPORT"), (old[:100], new[:100])
    assert list((tmp_path / "here" / "blobs").rglob("tmp-*")) == []
    code, _ = dex("import", "-", "--data-dir", str(tmp_path / "here"), "--blob-dir", str(tmp_path / "b"), given=lines)
    assert (code, LocalBlobReader(tmp_path / "b").size_of(REFERENCE.digest)) == (0, REFERENCE.size)


# ---- inspect, stats, diff ----------------------------------------------------------------------------------------


async def test_surf_23_inspect_shows_what_is_in_the_directory(tmp_path: Path) -> None:
    """[SURF-23] Counts, sizes, versions, and the server that uses it."""
    async with server_on(tmp_path) as rig:
        await busy(rig)
        await rig.answer(stop_command("other"))
        rig.log.append(Batch(rig.log.last_seq, (), removals=[Removal(1, "other", 1, 0)]))
        events = rig.log.last_seq
        rig.log.remove_some(2)
    with locked(tmp_path):
        code, found = dex("inspect", "--data-dir", str(tmp_path))
    assert code == 0
    assert found["server_pid"] > 0
    assert found["schema"] == found["known_schema"] > 3
    expected = {
        "events": events - 2,
        "removed_events": 2,
        "last_seq": events,
        "runs": 3,
        "open_runs": 2,
        "flow_ids": 2,
        "streams_being_removed": 1,
        "remembered_ordinals": 1,
        "pending_timers": 2,
        "imported_runs": 0,
    }
    assert {name: found[name] for name in expected} == expected
    assert found["log_bytes"] > 0
    assert dex("inspect", "--data-dir", str(tmp_path))[1]["server_pid"] is None
    assert dex("inspect", "--data-dir", str(tmp_path / "none"))[0] == ExitCode.NOT_FOUND


async def test_surf_23_stats_tell_types_and_largest_runs(tmp_path: Path) -> None:
    """[SURF-23]"""
    async with server_on(tmp_path) as rig:
        await busy(rig)
        await rig.answer(publish_command("busy", b'"' + b"x" * 10_000 + b'"', request_id="large"))
        stored = list(rig.log.read_all(1, 1_000))
    code, found = dex("stats", "--largest", "1", "--data-dir", str(tmp_path))
    assert code == 0
    assert (found["events"], found["bytes"]) == (len(stored), sum(len(event.payload) for event in stored))
    assert (found["first_at"], found["last_at"]) == (stored[0].at, stored[-1].at)
    [largest] = found["largest"]
    assert (largest["flow_id"], largest["run_id"]) == ("busy", "run-busy")
    assert found["types"][0]["type"] == "ChannelPublished"
    assert sum(kind["events"] for kind in found["types"]) == len(stored)
    assert "ChannelPublished" in CliRunner().invoke(build_app(), ["log", "stats", "--data-dir", str(tmp_path)]).stdout


async def test_surf_23_diff_tells_what_events_changed(tmp_path: Path) -> None:
    """[SURF-23] In either direction, from the very beginning on."""
    async with server_on(tmp_path) as rig:
        await rig.start("a")
        await rig.answer(publish_command("a", b"9007199254740993"))
    where = ("--data-dir", str(tmp_path))
    code, found = dex("diff", "a", "2", "3", *where)
    assert code == 0
    changed = {change["path"]: change for change in found["changes"]}
    assert changed["/version"] == {"path": "/version", "before": 2, "after": 3}
    assert changed["/channels/news"]["after"][0]["value"] == 9007199254740993
    assert "before" not in changed["/channels/news"]
    assert "/steps/Begin-1" not in changed
    back = dex("diff", "a", "3", "2", *where)[1]["changes"]
    assert {"path": "/version", "before": 3, "after": 2} in back
    assert {change["path"] for change in dex("diff", "a", "0", "1", *where)[1]["changes"]} >= {"/flow_id", "/status"}
    assert dex("diff", "a", "2", "2", *where)[1]["changes"] == []
    code, error = dex("diff", "a", "2", "4", *where)
    assert (code, error["error"]["code"]) == (ExitCode.NOT_FOUND, "EVENT_NOT_FOUND")
    human = CliRunner().invoke(build_app(), ["log", "diff", "a", "2", "3", *where]).stdout
    assert "/channels/news" in human
