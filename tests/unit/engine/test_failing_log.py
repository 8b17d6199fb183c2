"""When the log cannot be written: nothing has left, reads go on, writes come back by themselves [ARCH-4, ERR-2]."""

from collections.abc import Callable

import pytest

from dexd.codec.flow_queries import FlowWaitQuery, RunKey
from dexd.core import commands as c
from dexd.core.ids import CallerId, FlowId, RequestId
from dexd.core.outcome import StartFlowAccepted
from dexd.core.rejections import Code, Rejection
from dexd.core.values import DecisionKind, FlowStatus
from dexd.engine.ports import AFTER_COMMIT_BEFORE_EFFECTS, BEFORE_APPEND
from dexd.log.errors import LogError, LogFailedError, LogFullError, LogUnavailableError, SequenceConflictError
from dexd.log.memory_log import MemoryLog
from tests.unit.engine.rig import Answers, Rig, publish_command, start_command, stop_command

FULL = LogFullError("full")
KEY = RunKey(FlowId("f"), None)


def to_rpc(flow_id: str) -> Callable[[CallerId], c.InvokeRpc]:
    return lambda caller: c.InvokeRpc(
        caller, FlowId(flow_id), None, "get", b"", RequestId("q"), b"digest", 10_000, 2_000_000
    )


@pytest.mark.parametrize(
    ("error", "code"), [(FULL, Code.DISK_FULL), (LogUnavailableError("locked"), Code.STORAGE_UNAVAILABLE)]
)
async def test_refused_write_is_a_refusal_and_nothing_is_applied(error: LogError, code: Code) -> None:
    """[ERR-2] The caller is told to try again, and nothing of its request exists."""
    rig = Rig()
    rig.writer.refusal = error
    refused = await rig.start()
    assert refused.code is code
    assert refused.retry_after_ms == 1_000
    assert (await rig.read(rig.engine.reads.describe, KEY)).code is Code.FLOW_NOT_FOUND
    assert rig.engine.health.condition == code
    assert rig.fatal == []


async def test_everything_decided_ahead_is_refused_with_the_batch_that_failed() -> None:
    """[ARCH-4] Live state is discarded as a whole; letters that were not opened are answered too."""
    rig = Rig(commit_batch_max=1)
    rig.writer.is_automatic = False
    answers = [Answers() for _ in range(3)]
    rig.engine.request(start_command("a"), answers[0])
    await rig.decided()
    rig.engine.request(start_command("b"), answers[1])
    await rig.decided()
    rig.engine.request(start_command("c"), answers[2])
    rig.writer.refusal = FULL
    rig.writer.commit()
    assert [got.only.code for got in answers] == [Code.DISK_FULL] * 3
    assert rig.log.last_seq == 0


async def test_reads_serve_the_last_committed_state() -> None:
    """[ERR-2] Reads keep working while the disk is full."""
    rig = Rig()
    await rig.start()
    rig.writer.refusal = FULL
    assert (await rig.answer(stop_command("f"))).code is Code.DISK_FULL
    assert (await rig.read(rig.engine.reads.describe, KEY)).status is FlowStatus.RUNNING
    assert (await rig.answer(publish_command("f", b"1"))).code is Code.DISK_FULL


async def test_waits_for_committed_runs_survive_and_others_are_refused() -> None:
    """[WAITAPI-6] Who waits for a run that is in the log goes on waiting; who waits for a lost one is told."""
    rig = Rig()
    await rig.start("kept")
    rig.writer.is_automatic = False
    kept, lost = Answers(), Answers()
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FlowId("kept"), 60_000, None), kept)
    rig.engine.request(start_command("lost"), Answers())
    await rig.decided()
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FlowId("lost"), 60_000, None), lost)
    rig.writer.refusal = FULL
    rig.writer.commit()
    assert kept.all == []
    assert lost.only.code is Code.DISK_FULL
    rig.writer.refusal = None
    rig.writer.is_automatic = True
    await rig.advance(1_000)
    await rig.answer(stop_command("kept"))
    assert kept.only.end.status is FlowStatus.CANCELED


async def test_sessions_are_ended_so_that_workers_present_their_calls_again() -> None:
    """[ARCH-4, WIRE-10] A worker's unacknowledged result comes again on its next session."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    [call] = worker.calls
    rig.writer.refusal = FULL
    worker.decide(call, DecisionKind.FORCE_COMPLETE)
    await rig.decided()
    assert worker.end is not None
    assert worker.end.rejection.code is Code.DISK_FULL
    assert worker.effects[-1] is worker.end
    early = await rig.worker("early")
    assert early.end is not None
    assert early.end.rejection.code is Code.DISK_FULL


async def test_callers_of_rpcs_are_refused() -> None:
    """[ARCH-4] The handler may have run, and nothing of it is applied."""
    rig = Rig()
    await rig.worker()
    await rig.start()
    answers = Answers()
    rig.engine.invoke(to_rpc("f"), answers)
    await rig.decided()
    rig.writer.refusal = FULL
    await rig.answer(stop_command("f"))
    assert answers.only.code is Code.DISK_FULL


async def test_writes_resume_by_themselves_once_the_log_takes_them() -> None:
    """[ARCH-4, ERR-2] Retried each second, without restart."""
    rig = Rig()
    rig.writer.refusal = FULL
    assert (await rig.start()).code is Code.DISK_FULL
    await rig.advance(1_000)
    assert rig.engine.health.condition == Code.DISK_FULL
    rig.writer.refusal = None
    await rig.advance(999)
    assert rig.engine.health.condition == Code.DISK_FULL
    await rig.advance(1)
    assert rig.engine.health.condition == "SERVING"
    assert isinstance(await rig.start(), StartFlowAccepted)
    worker = await rig.worker()
    assert [call.call.name for call in worker.calls] == ["Begin"]


@pytest.mark.parametrize("error", [LogFailedError("fsync"), SequenceConflictError("fenced")])
async def test_failed_storage_ends_the_process(error: LogError) -> None:
    """[ARCH-4] What is durable is unknown: nothing is patched, the process ends, and nobody is told anything else."""
    rig = Rig()
    worker = await rig.worker()
    rig.writer.refusal = error
    answer = await rig.start()
    assert rig.fatal == [error]
    assert answer.code is Code.SHUTTING_DOWN
    assert worker.calls == []
    assert (await rig.start()).code is Code.SHUTTING_DOWN
    assert (await rig.read(rig.engine.reads.describe, KEY)).code is Code.SHUTTING_DOWN
    await rig.engine.settled()


async def test_broken_invariant_ends_the_process() -> None:
    """[ARCH-7] Whatever is raised where nothing may be raised: loudly, and with everybody refused."""
    rig = Rig()
    answers = Answers()
    broken = start_command()
    rig.engine.request(msg_with_impossible_policy(broken), answers)
    rig.engine.request(start_command("g"), answers)
    await rig.decided()
    assert len(rig.fatal) == 1
    assert [answer.code for answer in answers.all] == [Code.SHUTTING_DOWN]
    assert rig.log.last_seq == 0


def msg_with_impossible_policy(command: c.StartFlow) -> c.StartFlow:
    """A command that no codec makes: the kernel cannot even name its attributes."""
    return c.StartFlow(
        command.flow_id,
        command.flow_type,
        command.run_id,
        command.seed,
        command.request_id,
        command.digest,
        command.start_step,
        attributes=(("not a pair",),),  # type: ignore[arg-type] # on purpose
    )


async def test_callback_that_raises_ends_the_process() -> None:
    """[ARCH-7] An answer that cannot be delivered would leave its caller waiting for ever."""
    rig = Rig()

    def explode(_: object) -> None:
        raise RuntimeError("callback")

    rig.engine.request(start_command(), explode)
    await rig.decided()
    assert [str(error) for error in rig.fatal] == ["callback"]


async def test_health_check_goes_through_a_durable_write() -> None:
    """[OBS-4] The check is an append, and tells when it is refused."""
    rig = Rig()
    took_ms = await rig.engine.check_commit()
    assert isinstance(took_ms, float)
    assert rig.points.count(BEFORE_APPEND) == rig.points.count(AFTER_COMMIT_BEFORE_EFFECTS) == 1
    rig.writer.refusal = FULL
    refused = await rig.engine.check_commit()
    assert isinstance(refused, Rejection)
    assert refused.code is Code.DISK_FULL
    again = await rig.engine.check_commit()
    assert isinstance(again, Rejection)


async def test_timer_that_breaks_an_invariant_ends_the_process() -> None:
    """[ARCH-7] Also what happens without any command."""
    rig = Rig()
    await rig.start()

    def explode(_: object) -> None:
        raise RuntimeError("waiter")

    rig.engine.reads.wait_for_flow(FlowWaitQuery(FlowId("f"), 10, None), explode)
    await rig.advance(10)
    assert [str(error) for error in rig.fatal] == ["waiter"]


async def test_log_that_cannot_be_read_back_ends_the_process() -> None:
    """[ARCH-4] Live state is rebuilt or the process ends; it is never patched."""
    log = MemoryLog()
    rig = Rig(log, snapshot_every_events=1_000)
    await rig.start()
    log._streams[1].clear()
    rig.writer.refusal = FULL
    assert (await rig.answer(stop_command("f"))).code is Code.SHUTTING_DOWN
    assert len(rig.fatal) == 1


async def test_failed_storage_fails_what_was_decided_behind_it_too() -> None:
    """[ARCH-4] A batch that grew meanwhile is not written either, and its callers are told."""
    rig = Rig()
    rig.writer.is_automatic = False
    first, second, unopened = Answers(), Answers(), Answers()
    rig.engine.request(start_command("a"), first)
    await rig.decided()
    rig.engine.request(start_command("b"), second)
    await rig.decided()
    rig.engine.request(start_command("c"), unopened)
    rig.writer.refusal = LogFailedError("fsync")
    rig.writer.commit()
    assert [got.only.code for got in (first, second, unopened)] == [Code.SHUTTING_DOWN] * 3
