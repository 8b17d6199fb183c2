"""Many parked runs that are wanted at once cost a few look-ups, not a few each [ARCH-11]."""

from collections.abc import Sequence

import msgspec
import pytest

from dexd.core import commands as c
from dexd.core.config import KernelConfig
from dexd.core.ids import FlowId
from dexd.core.sub_flows import SubFlowPlan
from dexd.core.values import Condition, ConditionKind, Response, StepPlan, Wait, WaitKind
from dexd.engine.parking_lot import Bounds
from dexd.engine.recovery import ADOPTED_AT_ONCE, rebuild_kernel, restore_parked
from dexd.log.errors import LogDamagedError
from dexd.log.event_log import Projections, RunRow, Snapshot, StoredRun
from dexd.log.memory_log import MemoryLog
from dexd.log.parking import ChildWait
from tests.unit.engine.rig import Answers, Rig, RigWorker, publish_command, start_command

BEGIN = StepPlan("Begin", b"", True)
NEWS = Wait(WaitKind.ANY_OF, (Condition(ConditionKind.CHANNEL, channel="news", at_least=1, at_most=1),))
CHILDREN = Wait(WaitKind.ANY_OF, (Condition(ConditionKind.SUB_FLOW),))
NOTHING_STAYS = Bounds(runs_max=0, distance_ms=0)
FLOWS = [f"f{number}" for number in range(20)]


class MeteredLog(MemoryLog):
    """Counts the look-ups that bring runs back."""

    def __init__(self) -> None:
        super().__init__()
        self.look_ups: list[str] = []

    def latest_run(self, flow_id: str) -> StoredRun | None:
        self.look_ups.append("latest_run")
        return super().latest_run(flow_id)

    def parked_runs_of(self, flow_ids: Sequence[str]) -> Sequence[Snapshot]:
        self.look_ups.append("parked_runs_of")
        return super().parked_runs_of(flow_ids)

    def waits_for(self, child_flow_ids: Sequence[str]) -> Sequence[ChildWait]:
        self.look_ups.append("waits_for")
        return super().waits_for(child_flow_ids)


async def parked(log: MemoryLog) -> Rig:
    """The Flows wait for news, a parent for its child, and all are parked."""
    rig = Rig(log, memory=NOTHING_STAYS)
    worker = await rig.worker(streams=8)
    for flow_id in FLOWS:
        await wait_in(rig, worker, flow_id, NEWS)
    await wait_in(rig, worker, "parent", CHILDREN, SubFlowPlan("Order", BEGIN))
    worker.wait(worker.calls[-1], NEWS)
    await rig.decided()
    assert rig.engine.health.parked_runs == len(FLOWS) + 2
    return rig


async def wait_in(rig: Rig, worker: RigWorker, flow_id: str, wait: Wait, *children: SubFlowPlan) -> None:
    await rig.start(flow_id, start_step=BEGIN)
    await rig.decided()
    call = worker.calls[-1]
    worker.say(
        c.CompleteCall(worker.session, call.stream, call.call.token, Response(wait=wait), sub_flows=tuple(children))
    )
    await rig.decided()


async def test_arch_11_messages_for_many_parked_runs_cost_two_look_ups() -> None:
    """One for the runs, one for whoever waits for any of them."""
    log = MeteredLog()
    rig = await parked(log)
    log.look_ups.clear()
    answers = Answers()
    for flow_id in FLOWS:
        rig.engine.request(publish_command(flow_id, b"1"), answers)
    await rig.decided()
    assert len(answers.all) == len(FLOWS)
    assert log.look_ups == ["parked_runs_of", "waits_for"]


async def test_arch_11_restart_asks_at_once_who_waits_for_the_runs_at_work() -> None:
    log = MeteredLog()
    rig = await parked(log)
    for number in range(ADOPTED_AT_ONCE + 1):
        await rig.answer(start_command(f"at-work-{number}"))
    log.look_ups.clear()
    kernel = rebuild_kernel(log, KernelConfig())
    assert len(kernel.runs) == ADOPTED_AT_ONCE + 1
    assert log.look_ups == ["waits_for"] * 2


async def test_arch_9_parked_run_whose_snapshot_is_of_another_release_is_folded_from_its_events() -> None:
    log = MemoryLog()
    rig = await parked(log)
    [snapshot] = log.parked_runs_of(["f0"])
    foreign = msgspec.structs.replace(snapshot, state_version=0, payload=b"")
    assert restore_parked(log, foreign) == restore_parked(log, snapshot) == rig.engine.runs.latest_run(FlowId("f0"))


async def test_arch_11_parked_run_without_its_snapshot_comes_back_all_the_same() -> None:
    """Two of them, because a lone run is looked up otherwise."""
    log = MemoryLog()
    rig = await parked(log)
    without = [log.latest_run(flow_id) for flow_id in FLOWS[:2]]
    rows: list[RunRow] = [stored.row for stored in without if stored is not None]
    parking = [log.parking_of(row.stream_id) for row in rows]
    log.replace_projections(Projections(1, rows, [], [], parking=parking))
    assert [snapshot.state_version for snapshot in log.parked_runs([row.stream_id for row in rows])] == [0, 0]
    answers = Answers()
    for flow_id in FLOWS[:2]:
        rig.engine.request(publish_command(flow_id, b"1"), answers)
    await rig.decided()
    assert [type(answer).__name__ for answer in answers.all] == ["PublishAccepted"] * 2


def test_arch_7_parked_run_without_events_is_damage() -> None:
    with pytest.raises(LogDamagedError, match="stream 7"):
        restore_parked(MemoryLog(), Snapshot(7, 0, 0, b""))
