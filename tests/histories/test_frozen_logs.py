"""Logs of releases replay to what those releases recorded, and today's server goes on with them [ARCH-9]."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dexd.core.commands import BeginServing, StopFlow
from dexd.core.config import KernelConfig
from dexd.core.ids import FlowId, RequestId
from dexd.core.invariants import violations
from dexd.core.outcome import StopFlowResult
from dexd.core.values import FlowStatus, StopType
from dexd.engine.projections import rebuild_projections, refresh_projections
from dexd.engine.recovery import rebuild_kernel
from dexd.log.sqlite_log import SqliteLog
from dexd.search.checking import check
from dextools.log_inspection import listed_runs
from dextools.log_verification import Fault, verify_log
from tests.histories.frozen import expected, frozen_logs, losses, seen, thaw
from tests.histories.record import missing_kinds, record
from tests.unit.engine.rig import Rig

every_recording = pytest.mark.parametrize("frozen", frozen_logs(), ids=lambda frozen: frozen.name)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@contextmanager
def thawed(frozen: Path, database: Path) -> Iterator[SqliteLog]:
    """Open a recording as the server opens its log."""
    thaw(frozen, database)
    with closing(SqliteLog.open(database)) as log:
        refresh_projections(log)
        yield log


def faults(log: SqliteLog) -> list[Fault]:
    return verify_log(log, lambda _: None).faults


def open_flows(log: SqliteLog) -> list[str]:
    return [row.flow_id for row in listed_runs(log) if not row.closed_at]


def test_there_is_a_recording() -> None:
    """[ARCH-9] Without one the tests below would say nothing."""
    assert frozen_logs()


@every_recording
def test_recording_was_not_touched(frozen: Path) -> None:
    """[ARCH-9] What was written once is never edited to please a test."""
    recorded = json.loads((frozen / "expected.json").read_text(encoding="utf-8"))
    assert hashlib.sha256((frozen / "log.sql").read_bytes()).hexdigest() == recorded["sha256"]


@every_recording
def test_frozen_log_replays_to_the_recorded_state(frozen: Path, database: Path) -> None:
    """[ARCH-9, INV-8] Rows, states and histories hold all that was recorded, and snapshots and projections agree."""
    with thawed(frozen, database) as log:
        assert list(losses(expected(frozen), seen(log), "log")) == []
        assert faults(log) == []


@every_recording
def test_projections_of_a_frozen_log_are_made_anew(frozen: Path, database: Path) -> None:
    """[ARCH-10] Whatever a release had derived can be derived again, also what it did not know of."""
    with thawed(frozen, database) as log:
        rebuild_projections(log, lambda _: None)
        assert list(losses(expected(frozen), seen(log), "log")) == []
        assert faults(log) == []


@every_recording
async def test_server_goes_on_with_a_frozen_log(frozen: Path, database: Path) -> None:
    """[ARCH-2, INV-4] Open runs are taken over with a wake-up reason each, and can be ended."""
    with thawed(frozen, database) as log:
        kernel = rebuild_kernel(log, KernelConfig())
        kernel.handle(BeginServing(), now=log.last_at)
        assert violations(kernel, now=log.last_at) == []
        assert kernel.open_run_count + log.parked_counts().runs == len(open_flows(log)) > 0
        rig = Rig(log, is_serving=False)
        rig.clock.at = log.last_at
        rig.engine.start()
        for _ in range(2):
            # A schedule starts what waits in its buffer when what it has started before has ended.
            for flow_id in open_flows(log):
                stop = StopFlow(FlowId(flow_id), None, StopType.CANCEL, "over", RequestId("last stop"), b"digest")
                assert await rig.answer(stop) == StopFlowResult(True, FlowStatus.CANCELED)
            await rig.decided()
        assert not rig.fatal
        assert open_flows(log) == []
        assert faults(log) == []


def test_difference_to_what_was_recorded_is_found() -> None:
    """The comparison itself: objects may gain fields, anything else is a loss."""
    recorded = {"status": "OPEN", "steps": [["A-1", {"attempt": 1}]]}
    assert list(losses(recorded, {**recorded, "added": 1}, "run")) == []
    assert list(losses(recorded, {"steps": [["A-1", {"attempt": 2, "added": 1}]]}, "run")) == [
        "run.status is gone",
        "run.steps[0][1].attempt was 1, is 2",
    ]
    assert list(losses(recorded, {**recorded, "steps": []}, "run")) == [
        "run.steps was [['A-1', {'attempt': 1}]], is []"
    ]


def test_recording_can_be_made_and_repeated(tmp_path: Path, database: Path) -> None:
    """The recorder works on the day of the release, and twice gives the same."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        record(folder)
    first, second = ([path.read_bytes() for path in sorted(folder.iterdir())] for folder in folders)
    assert first == second
    thaw(folders[0], database)
    with closing(SqliteLog.open(database)) as log:
        assert missing_kinds(log) == [], "add Flows to tests/histories/flows.py that show these events"
        parked = log.parked_counts()
        assert 0 < parked.runs < len([row for row in listed_runs(log) if not row.closed_at]), "some are, some are not"
        assert parked.waits > 0
        [found] = log.matching(check("notes = 'FRAGILE' AND tags = 'urgent' AND amount = -5", log.index_keys()))
        assert found.flow_id == "indexed"
        assert list(losses(expected(folders[0]), seen(log), "log")) == []
