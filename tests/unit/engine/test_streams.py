"""Streams that are not runs': written, recovered, looked up and rebuilt as runs are [ARCH-10, SCHED-1]."""

import msgspec

from dexd.core.ids import RequestId, ScheduleId
from dexd.core.outcome import ScheduleAccepted
from dexd.core.rejections import Code, Rejection
from dexd.core.schedules import commands as sc
from dexd.core.schedules.state import ScheduleStatus
from dexd.core.streams import StreamKind
from dexd.engine.projections import rebuild_projections
from dexd.log.event_log import Batch, StoredEvent
from dexd.log.memory_log import MemoryLog
from dextools.log_verification import Fault, verify_log
from tests.support.schedule_builders import SCHEDULE, create_schedule
from tests.unit.engine.rig import Rig


def pause(number: int, schedule_id: str = SCHEDULE) -> sc.PauseSchedule:
    return sc.PauseSchedule(ScheduleId(schedule_id), RequestId(f"pause-{number}"), b"d", f"note {number}")


def delete(request_id: str = "delete") -> sc.DeleteSchedule:
    return sc.DeleteSchedule(SCHEDULE, RequestId(request_id), b"d")


def faults(log: MemoryLog) -> list[Fault]:
    return verify_log(log, lambda _: None).faults


async def test_schedule_is_there_after_a_restart() -> None:
    """[SCHED-1, ARCH-2] Durable and event-logged; runs and schedules number their streams together."""
    log = MemoryLog()
    rig = Rig(log)
    await rig.start("f")
    assert await rig.answer(create_schedule(is_paused=True)) == ScheduleAccepted()
    await rig.start("g")
    assert log.last_stream_id == 3
    restarted = Rig(log)
    state = restarted.engine.kernel.schedules.get(SCHEDULE)
    assert state is not None
    assert (state.stream_id, state.status, state.version) == (2, ScheduleStatus.PAUSED, 1)
    assert state == rig.engine.kernel.schedules.get(SCHEDULE)
    assert faults(log) == []


async def test_long_stream_is_recovered_from_its_snapshot() -> None:
    """[ARCH-11]"""
    log = MemoryLog()
    rig = Rig(log, snapshot_every_events=5)
    await rig.answer(create_schedule())
    for number in range(11):
        await rig.answer(pause(number))
    [stored] = log.open_streams()
    assert stored.snapshot is not None
    assert (stored.snapshot.version, len(stored.events)) == (10, 2)
    restored = Rig(log).engine.kernel.schedules.get(SCHEDULE)
    assert restored == rig.engine.kernel.schedules.get(SCHEDULE)
    assert restored is not None
    assert restored.note == "note 10"
    assert faults(log) == []


async def test_snapshot_of_another_form_is_ignored() -> None:
    """[ARCH-9] The stream is folded from its first event instead."""
    log = MemoryLog()
    rig = Rig(log, snapshot_every_events=2)
    await rig.answer(create_schedule())
    await rig.answer(pause(1))
    [stored] = log.open_streams()
    assert stored.snapshot is not None
    log.append(Batch(log.last_seq, [], snapshots=[msgspec.structs.replace(stored.snapshot, state_version=0)]))
    assert Rig(log).engine.kernel.schedules.get(SCHEDULE) == rig.engine.kernel.schedules.get(SCHEDULE)


async def test_closed_stream_is_looked_up_when_somebody_asks() -> None:
    """[GEN-8, SCHED-1] The repeat of a deletion finds it, also after a restart; its name is free again."""
    log = MemoryLog()
    rig = Rig(log)
    await rig.answer(create_schedule())
    assert await rig.answer(delete()) == ScheduleAccepted()
    restarted = Rig(log)
    assert restarted.engine.kernel.schedules.get(SCHEDULE) is None
    assert await restarted.answer(delete()) == ScheduleAccepted()
    refused = await restarted.answer(delete("another"))
    assert isinstance(refused, Rejection)
    assert refused.code is Code.SCHEDULE_NOT_FOUND
    assert await restarted.answer(create_schedule(request_id="again")) == ScheduleAccepted()
    assert [row.is_closed for row in log.list_streams(StreamKind.SCHEDULE, 0, 9)] == [False, True]
    unknown = await restarted.answer(pause(1, "unknown"))
    assert isinstance(unknown, Rejection)
    assert faults(log) == []


async def test_rows_of_streams_are_rebuilt_from_their_events() -> None:
    """[ARCH-10] With a snapshot of every long one that is not closed."""
    log = MemoryLog()
    rig = Rig(log)
    await rig.start("f")
    await rig.answer(create_schedule("gone"))
    await rig.answer(sc.DeleteSchedule(ScheduleId("gone"), RequestId("delete"), b"d"))
    await rig.answer(create_schedule())
    for number in range(210):
        await rig.answer(pause(number))
    rows = list(log.list_streams(StreamKind.SCHEDULE, 0, 9))
    rebuilt = rebuild_projections(log, lambda _: None)
    assert (rebuilt.runs, rebuilt.streams, rebuilt.snapshots) == (1, 2, 1)
    assert list(log.list_streams(StreamKind.SCHEDULE, 0, 9)) == rows
    assert faults(log) == []


async def test_what_is_wrong_with_a_stream_is_named() -> None:
    """[SURF-23, INV-8]"""
    log = MemoryLog()
    rig = Rig(log)
    await rig.answer(create_schedule())
    [row] = log.list_streams(StreamKind.SCHEDULE, 0, 9)
    ghost = msgspec.structs.replace(row, stream_id=9, name="ghost")
    log.append(Batch(log.last_seq, [], streams=[msgspec.structs.replace(row, status=7), ghost]))
    named = faults(log)
    assert [fault.where for fault in named] == ["schedule 'ghost'", "schedule 'nightly'"]
    assert "status=7" in named[1].text
    log.append(Batch(log.last_seq, [StoredEvent(log.last_seq + 1, 1, 2, 10**9, "ScheduleCreated", 1, b"\x90")]))
    assert any("replay stops after event 1" in fault.text for fault in faults(log))
