"""What a schedule knows of its executions that time travel takes up again, over restarts and rebuilds [ARCH-14]."""

import msgspec

from dexd.codec.time_travel_requests import TimeTravelQuery
from dexd.core.forks.selectors import Selector, TimeTravelType
from dexd.core.ids import FlowId, RequestId, RunId
from dexd.core.outcome import TimeTravelAccepted
from dexd.core.schedules import commands as sc
from dexd.engine.projections import rebuild_projections
from dextools.log_verification import verify_log
from tests.support.schedule_builders import SCHEDULE, action, create_schedule
from tests.unit.engine.rig import Rig, start_command, stop_command

REOPENED = msgspec.structs.replace(action("daily"), start_step=None)


async def reopened() -> Rig:
    """A schedule whose only execution had ended and is open again; nothing is under way in it."""
    rig = Rig()
    await rig.answer(create_schedule(action=REOPENED))
    await rig.answer(sc.TriggerSchedule(SCHEDULE, RequestId("trigger"), b"d"))
    await rig.decided()
    await rig.answer(stop_command("daily"))
    await rig.decided()
    travel = TimeTravelQuery(
        FlowId("daily"), RunId("fork"), Selector(TimeTravelType.BEGINNING), "", False, RequestId("travel"), b"d"
    )
    assert await rig.read(rig.engine.time_travels.begin, travel) == TimeTravelAccepted(RunId("fork"))
    return rig


def open_flow_ids(rig: Rig) -> list[str]:
    state = rig.engine.kernel.schedules.get(SCHEDULE)
    assert state is not None
    return [execution.flow_id for execution in state.open.values()]


async def test_sched_11_a_schedule_sees_a_reopened_execution_as_open_after_a_restart_too() -> None:
    """[SCHED-11] As an event of its own."""
    rig = await reopened()
    await rig.decided()
    assert open_flow_ids(rig) == ["daily"]
    restarted = Rig(rig.log)
    await restarted.decided()
    assert open_flow_ids(restarted) == ["daily"]
    kinds = [stored.type for stored in rig.log.read_all(1, 100)]
    assert kinds.count("OccurrenceReopened") == 1
    assert verify_log(rig.log, lambda _: None).faults == []


async def test_arch_14_rebuilt_rows_leave_a_reopened_execution_in_memory() -> None:
    """[ARCH-11, ARCH-14] At the start it tells its schedule again, which may have missed it; others may be parked."""
    rig = await reopened()
    await rig.answer(start_command("alone", start_step=None))
    rebuilt = rebuild_projections(rig.log, lambda _: None)
    assert (rebuilt.runs, rebuilt.parked) == (3, 1)
    stored = rig.log.run_by_id("fork")
    assert stored is not None
    assert not stored.is_parked
