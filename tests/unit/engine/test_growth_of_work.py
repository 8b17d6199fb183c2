"""Work per Step does not grow with the length of the history (bench workload J): 2,000 Steps in one execution.

Counted, not timed, as far as that shows it: calls of functions, events, bytes for the log, reads of the log. What a
single call may do behind the counter's back, such as copying a list that grows, shows in the time and in the state.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest

from dexd.core.config import ACCEPTED_REMEMBERED_MAX
from dexd.core.ids import FlowId
from dexd.core.values import DecisionKind, StepPlan
from dexd.log.event_log import Batch, StoredEvent, StoredRun
from dexd.log.memory_log import MemoryLog
from tests.unit.engine.rig import Rig, RigWorker

STEPS = 2_000
WINDOW = 200
"""Steps that are compared: as many as lie between two snapshots, so that every window has one."""


class MeteredLog(MemoryLog):
    """Counts what is read, and the bytes that are written."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.written_bytes = 0
        self.snapshot_bytes: list[int] = []

    def append(self, batch: Batch) -> None:
        self.written_bytes += sum(len(event.payload) for event in batch.events)
        self.snapshot_bytes += [len(snapshot.payload) for snapshot in batch.snapshots]
        super().append(batch)

    def latest_run(self, flow_id: str) -> StoredRun | None:
        self.reads += 1
        return super().latest_run(flow_id)

    def run_by_id(self, run_id: str) -> StoredRun | None:
        self.reads += 1
        return super().run_by_id(run_id)

    def read_stream(
        self, stream_id: int, from_version: int, limit: int, types: Iterable[str] = ()
    ) -> Sequence[StoredEvent]:
        self.reads += 1
        return super().read_stream(stream_id, from_version, limit, types)


@dataclass
class Work:
    """What the Steps of one window took together."""

    calls: int
    events: int
    written_bytes: int
    reads: int
    cpu_s: float


class Chain:
    """One execution whose Steps follow each other, on an engine of its own."""

    def __init__(self) -> None:
        self.log = MeteredLog()
        self.rig = Rig(self.log)
        self._worker: RigWorker
        self._calls = 0

    async def begin(self) -> None:
        self._worker = await self.rig.worker(streams=1)
        await self.rig.start()
        await self.rig.decided()

    async def walk(self, steps: int) -> Work:
        """Let that many Steps follow."""
        before, begun_s = self._meters(), time.process_time()
        for _ in range(steps):
            await self._step()
        cpu_s = time.process_time() - begun_s
        calls, events, written_bytes, reads = (end - start for start, end in zip(before, self._meters(), strict=True))
        return Work(calls, events, written_bytes, reads, cpu_s)

    def _meters(self) -> tuple[int, int, int, int]:
        return self._calls, self.log.last_seq, self.log.written_bytes, self.log.reads

    async def walk_counted(self, steps: int) -> Work:
        """As `walk`, and count the calls; the time means nothing then."""
        sys.setprofile(self._count)
        try:
            return await self.walk(steps)
        finally:
            sys.setprofile(None)

    async def _step(self) -> None:
        (assigned,) = self._worker.calls
        self._worker.deliveries.clear()
        self._worker.decide(assigned, DecisionKind.GO_TO, b"", StepPlan("Next", b'{"order":1}', False))
        while not self._worker.calls:
            await self.rig.decided()

    def _count(self, _frame: FrameType, event: str, _argument: Any) -> None:
        self._calls += event in ("call", "c_call")


@pytest.mark.slow
async def test_j_work_per_step_does_not_grow_with_the_history() -> None:
    """[LIM-2, ARCH-11] The last Steps of 2,000 cost what the first ones cost."""
    chain = Chain()
    await chain.begin()
    early = await chain.walk_counted(WINDOW)
    await chain.walk(STEPS - 3 * WINDOW)
    late = await chain.walk_counted(WINDOW)
    run = chain.rig.engine.runs.latest_run(FlowId("f"))
    assert run is not None
    assert run.counters["Next"] == STEPS - WINDOW

    assert late.events == early.events == 3 * WINDOW
    assert late.reads == early.reads == 0
    # Numbers of Steps get longer by three digits, in up to four places of a Step's events.
    assert late.written_bytes <= early.written_bytes + WINDOW * 12
    # The same calls, but for a rebuilt heap of deadlines here and there.
    assert late.calls <= early.calls * 1.02
    # What a run remembers of its past is bounded; here, too, only numbers get longer.
    assert chain.log.snapshot_bytes[-1] <= chain.log.snapshot_bytes[0] + 4 * ACCEPTED_REMEMBERED_MAX


@pytest.mark.slow
async def test_j_time_per_step_does_not_grow_with_the_history() -> None:
    """[LIM-2, ARCH-11] The quickest of several windows: a machine that is busy is slow, but never too quick."""
    chain = Chain()
    await chain.begin()
    await chain.walk(WINDOW)
    early = min([(await chain.walk(WINDOW // 2)).cpu_s for _ in range(4)])
    await chain.walk(STEPS - 5 * WINDOW)
    late = min([(await chain.walk(WINDOW // 2)).cpu_s for _ in range(4)])
    assert late <= early * 2
