"""Live state from the log: snapshot and tail give what all events give [ARCH-2, ARCH-11]."""

import pytest

from dexd.core.config import KernelConfig
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, RunId
from dexd.engine.recovery import rebuild_kernel, restore_run
from dexd.log.errors import LogDamagedError
from dexd.log.event_log import RunRow, Snapshot, StoredRun
from dexd.log.memory_log import MemoryLog
from tests.unit.engine.rig import Rig, publish_command, stop_command


def recovered(log: MemoryLog, flow_id: str = "f") -> RunState:
    run = rebuild_kernel(log, KernelConfig()).run(FlowId(flow_id))
    assert run is not None
    return run


async def test_replay_is_what_was_live() -> None:
    """[ARCH-2] The same fold of the same events."""
    log = MemoryLog()
    rig = Rig(log)
    await rig.start(attributes=(("a", b"1"),))
    await rig.answer(publish_command("f", b"1", b"2"))
    assert recovered(log) == rig.engine.runs.latest_run(FlowId("f"))


@pytest.mark.parametrize("snapshot_every_events", [2, 3, 4])
async def test_snapshot_and_tail_is_full_replay(snapshot_every_events: int) -> None:
    """[ARCH-11] Wherever the snapshot lies."""
    rig = Rig(snapshot_every_events=snapshot_every_events)
    await rig.start()
    for number in range(3):
        await rig.answer(publish_command("f", b"1", request_id=f"p{number}"))
    stored = rig.log.latest_run("f")
    assert stored is not None
    assert stored.snapshot is not None
    assert restore_run(rig.log, stored) == rig.engine.runs.latest_run(FlowId("f"))


async def test_unreadable_snapshot_is_replaced_by_a_fold_from_the_first_event() -> None:
    """[ARCH-9] A snapshot of another release costs time, not state."""
    rig = Rig(snapshot_every_events=3)
    await rig.start()
    await rig.answer(publish_command("f", b"1"))
    stored = rig.log.latest_run("f")
    assert stored is not None
    foreign = StoredRun(stored.row, Snapshot(stored.row.stream_id, 3, 99, b""), stored.events)
    assert restore_run(rig.log, foreign) == rig.engine.runs.latest_run(FlowId("f"))


async def test_only_open_runs_are_loaded() -> None:
    """[ARCH-11] Start-up follows what is open, not what ever ran."""
    rig = Rig()
    await rig.start("open")
    await rig.start("closed")
    await rig.answer(stop_command("closed"))
    kernel = rebuild_kernel(rig.log, KernelConfig())
    assert list(kernel.runs) == [RunId("run-open")]


def test_row_without_events_is_damage() -> None:
    """[ARCH-7] A projection that knows more than the log is not served."""
    row = RunRow(1, "r", "f", 1, "Order", 1, 0, 0)
    with pytest.raises(LogDamagedError, match="'f'"):
        restore_run(MemoryLog(), StoredRun(row, None, ()))
