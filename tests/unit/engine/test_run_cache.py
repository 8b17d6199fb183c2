"""Which runs are in memory: open ones, and a bounded number of closed ones [ARCH-8, ARCH-11]."""

import pytest

from dexd.codec.flow_queries import RunKey
from dexd.core.commands import InvokeRpc
from dexd.core.config import KernelConfig
from dexd.core.ids import CallerId, FlowId, RequestId, RunId
from dexd.core.rejections import Code
from dexd.core.wanted import RunRef
from dexd.engine import run_cache
from dexd.engine.recovery import rebuild_kernel
from dexd.engine.run_cache import RunCache
from dexd.log.event_log import StoredRun
from dexd.log.memory_log import MemoryLog
from tests.unit.engine.rig import Rig, publish_command, stop_command


async def log_with_closed_runs(*flow_ids: str) -> Rig:
    rig = Rig()
    for flow_id in flow_ids:
        await rig.start(flow_id)
        await rig.answer(stop_command(flow_id))
    return rig


async def test_closed_run_comes_back_from_the_log_and_stays_a_while() -> None:
    """[START-3] A repeated start, or a read, of a run that ended long ago."""
    rig = await log_with_closed_runs("a")
    kernel = rebuild_kernel(rig.log, KernelConfig())
    cache = RunCache(rig.log, kernel)
    assert kernel.run(FlowId("a")) is None
    run = cache.latest_run(FlowId("a"))
    assert run is not None
    assert kernel.run(FlowId("a")) is run
    assert cache.run_by_id(RunId("run-a")) is run
    assert cache.of_stream(run.stream_id) is run
    assert cache.latest_run(FlowId("unknown")) is None
    assert cache.run_by_id(RunId("unknown")) is None


async def test_flow_ids_that_the_log_does_not_know_are_not_looked_up_one_by_one() -> None:
    """Many starts at once cost one look-up; a Flow ID that was used before is still found."""
    rig = await log_with_closed_runs("a")
    kernel = rebuild_kernel(rig.log, KernelConfig())
    cache = RunCache(rig.log, kernel)
    cache.note_absent([FlowId("a"), FlowId("new")])
    await rig.start("new")
    for flow_id in ("a", "new"):
        cache.look_up(FlowId(flow_id))
    assert kernel.run(FlowId("a")) is not None
    assert kernel.run(FlowId("new")) is None, "it was looked up once more"
    cache.note_absent([])
    cache.look_up(FlowId("new"))
    assert kernel.run(FlowId("new")) is not None


async def test_cache_of_closed_runs_is_bounded_by_number() -> None:
    """[ARCH-8] The oldest goes first."""
    rig = await log_with_closed_runs("a", "b", "c")
    kernel = rebuild_kernel(rig.log, KernelConfig())
    cache = RunCache(rig.log, kernel, closed_max=2)
    for flow_id in ("a", "b", "c"):
        cache.look_up(FlowId(flow_id))
    assert [run.flow_id for run in kernel.runs.values()] == ["b", "c"]


async def test_cache_of_closed_runs_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """[ARCH-8] Large runs leave sooner; the one that is asked for always stays."""
    monkeypatch.setattr(run_cache, "CLOSED_BYTES_MAX", 100)
    rig = Rig()
    for flow_id in ("a", "b"):
        await rig.start(flow_id)
        await rig.answer(publish_command(flow_id, b"x" * 200))
        await rig.answer(stop_command(flow_id))
    kernel = rebuild_kernel(rig.log, KernelConfig())
    cache = RunCache(rig.log, kernel)
    cache.look_up(FlowId("a"))
    assert [run.flow_id for run in kernel.runs.values()] == ["a"]
    cache.look_up(FlowId("b"))
    assert [run.flow_id for run in kernel.runs.values()] == ["b"]


async def test_old_run_never_poses_as_the_latest() -> None:
    """[GEN-3] Otherwise the next start would take an ordinal that exists."""
    rig = await log_with_closed_runs("a")
    await rig.start("a", run_id="second", request_id="again")
    await rig.answer(stop_command("a"))
    kernel = rebuild_kernel(rig.log, KernelConfig())
    cache = RunCache(rig.log, kernel)
    cache.look_up(RunRef(RunId("run-a")))
    latest = kernel.run(FlowId("a"))
    assert latest is not None
    assert (latest.run_id, latest.ordinal) == ("second", 2)
    old = kernel.run_by_id(RunId("run-a"))
    assert old is not None
    assert old.ordinal == 1


async def test_run_found_by_its_id_is_the_latest_when_it_is() -> None:
    """[ID-5] One look-up brings it once."""
    rig = await log_with_closed_runs("a")
    kernel = rebuild_kernel(rig.log, KernelConfig())
    cache = RunCache(rig.log, kernel)
    run = cache.run_by_id(RunId("run-a"))
    assert run is kernel.run(FlowId("a"))


async def test_run_that_an_rpc_reads_stays_in_memory() -> None:
    """[RPC-4] A closed run serves the calls that were under way; its turn to leave comes later."""
    rig = await log_with_closed_runs("a")
    again = Rig(rig.log)
    key = RunKey(FlowId("a"), None)
    summary = await again.read(again.engine.reads.describe, key)
    assert summary.status.name == "CANCELED"


async def test_runs_that_rpcs_read_survive_a_full_cache() -> None:
    """[RPC-4] What a call reads stays; the cache tries again later instead."""
    rig = await log_with_closed_runs("a", "b", "c")
    kernel = rebuild_kernel(rig.log, KernelConfig())
    cache = RunCache(rig.log, kernel, closed_max=1)
    cache.look_up(FlowId("a"))
    caller = CallerId(1)
    call = InvokeRpc(caller, FlowId("a"), None, "get", b"", RequestId("q"), b"", 10_000, 2_000_000)
    kernel.handle(call, now=1_000_000)
    cache.look_up(FlowId("b"))
    assert [run.flow_id for run in kernel.runs.values()] == ["a", "b"]


async def test_request_of_an_execution_that_left_memory_is_still_known() -> None:
    """[START-3] Any retained execution counts, not only the latest one and not only those in memory."""
    rig = await log_with_closed_runs("a", "b")
    for number in (2, 3):
        await rig.start("a", run_id=f"run-{number}", request_id=f"start-{number}")
        await rig.answer(stop_command("a"))
    for request, run_id in (("start-a", "run-a"), ("start-2", "run-2"), ("start-3", "run-3"), ("start-a", "run-a")):
        again = Rig(rig.log)
        assert (await again.start("a", run_id="other", request_id=request)).run_id == run_id
    conflict = await Rig(rig.log).start("a", run_id="other", request_id="start-a", digest=b"other")
    assert (conflict.code, conflict.fields["run_id"]) == (Code.REQUEST_CONFLICT, "run-a")
    assert (await Rig(rig.log).start("a", run_id="run-4", request_id="start-4")).run_id == "run-4"


async def test_request_of_an_earlier_execution_is_looked_up_only_where_there_are_several() -> None:
    """[START-3] The first execution of a Flow ID costs one look-up, whatever becomes of it."""

    class Asked(MemoryLog):
        by_start = 0

        def run_by_start(self, flow_id: str, request_id: str) -> StoredRun | None:
            self.by_start += 1
            return super().run_by_start(flow_id, request_id)

    log = Asked()
    rig = Rig(log)
    await rig.start("a")
    await rig.start("a")
    await rig.answer(stop_command("a"))
    await rig.start("a", run_id="run-2", request_id="start-2")
    assert log.by_start == 0
    await rig.start("a", run_id="run-3", request_id="start-3")
    assert log.by_start == 1
