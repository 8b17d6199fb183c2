"""SDK workers on real sockets against a scripted server: threads, loops, breaks and ends [WIRE-*, READY-*, DRAIN-*]."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc
import pytest

from dexpb.v1 import frames
from dexsdk import (
    AsyncWorker,
    Context,
    DexServiceError,
    Flow,
    FlowDefinitionError,
    PullRegistrationError,
    PullWorkerOptions,
    Registry,
    Step,
    StepDecision,
    StepList,
    Worker,
    WorkerOptions,
    graceful_complete,
)
from tests.support.fault_proxy import Direction, FaultProxy
from tests.support.scripted_peer import Refusal, ScriptedPeer, WorkerPeer

T = TypeVar("T")
WAIT_S = 15.0


@dataclass
class Probe:
    """What a test knows of its handler: it reports that it runs, then waits to be told to end."""

    is_running: threading.Event = field(default_factory=threading.Event)
    may_end: threading.Event = field(default_factory=threading.Event)
    saw_cancellation: threading.Event = field(default_factory=threading.Event)


class ProbeStep(Step[str]):
    def __init__(self, probe: Probe) -> None:
        self.probe = probe


class AwaitingStep(ProbeStep):
    """Awaits; ends when told to, or when canceled."""

    async def execute(self, context: Context, input: str) -> StepDecision:
        self.probe.is_running.set()
        try:
            await asyncio.to_thread(self.probe.may_end.wait, WAIT_S)
        except asyncio.CancelledError:
            self.probe.saw_cancellation.set()
            raise
        return graceful_complete(f"awaited {input}")


class BlockingStep(ProbeStep):
    """Blocks its loop until told to end."""

    async def execute(self, context: Context, input: str) -> StepDecision:
        self.probe.is_running.set()
        self.probe.may_end.wait(WAIT_S)
        return graceful_complete(f"blocked {input}")


class StubbornStep(ProbeStep):
    """Swallows its cancellation."""

    async def execute(self, context: Context, input: str) -> StepDecision:
        self.probe.is_running.set()
        while not self.probe.may_end.is_set():
            try:
                await asyncio.to_thread(self.probe.may_end.wait, WAIT_S)
            except asyncio.CancelledError:
                self.probe.saw_cancellation.set()
        return graceful_complete(input)


class ThreadStep(ProbeStep):
    """Runs in a thread and polls for its cancellation."""

    def execute(self, context: Context, input: str) -> StepDecision:
        self.probe.is_running.set()
        while not self.probe.may_end.wait(0.005):
            if context.is_cancellation_requested():
                self.probe.saw_cancellation.set()
                return graceful_complete("stopped early")
        return graceful_complete(f"threaded {input}")


class ProbeFlow(Flow[str]):
    def __init__(self, step: Step[str]) -> None:
        self._step = step

    def get_steps(self) -> StepList[str]:
        return StepList.start_step(self._step)


@pytest.fixture
def probe() -> Probe:
    return Probe()


@dataclass
class Running:
    """A worker that is connected to a peer."""

    worker: AsyncWorker
    task: "asyncio.Task[None]"
    server: ScriptedPeer
    peer: WorkerPeer
    opened: list[frames.OpenStream]

    @property
    def stream(self) -> int:
        return self.opened[1].stream


def worker_of(step: ProbeStep, server: ScriptedPeer, drain_s: float = 10.0, **more: Any) -> AsyncWorker:
    pull = PullWorkerOptions(max_concurrent_tasks=4, stop_drain_timeout=drain_s, app_worker_id="w", **more)
    registry = Registry((ProbeFlow(step),), allow_async_handlers=True)
    return AsyncWorker(registry, None, WorkerOptions(server_address=server.address, pull=pull))


@asynccontextmanager
async def running(step: ProbeStep, drain_s: float = 10.0) -> AsyncIterator[Running]:
    with ScriptedPeer() as server:
        worker = worker_of(step, server, drain_s)
        task = asyncio.create_task(worker.start())
        peer = await aside(server.worker)
        opened = await aside(peer.welcome)
        await worker.wait_pull_registered(timeout=WAIT_S)
        try:
            yield Running(worker, task, server, peer, opened)
            await worker.close()
            await asyncio.wait([task])
        finally:
            step.probe.may_end.set()


async def aside(function: Callable[..., T], *arguments: Any) -> T:
    """Run a blocking call of the peer beside the loop."""
    return await asyncio.to_thread(function, *arguments)


async def reached(event: threading.Event) -> None:
    assert await aside(event.wait, WAIT_S)


def assign(stream: int, name: str, run: str = "run-1") -> frames.Assign:
    token = frames.Token(run, f"{name}-1", frames.METHOD_EXECUTE, 1, 1)
    return frames.Assign(stream, token, "flow-1", "ProbeFlow", name, b'"Ada"', 1, 0, 0, 2**40)


def sdk_threads() -> list[threading.Thread]:
    """Threads that a worker made, those of its gRPC channel included."""
    marks = ("dexsdk", "channel_spin", "consume_request")
    return [thread for thread in threading.enumerate() if any(mark in thread.name for mark in marks)]


async def test_call_runs_and_stop_leaves_no_task_thread_or_stream(probe: Probe) -> None:
    """[W1, DRAIN-1]"""
    tasks_before = asyncio.all_tasks()
    async with running(AwaitingStep(probe)) as run:
        probe.may_end.set()
        run.peer.send(assign(run.stream, "AwaitingStep"))
        output = await aside(run.peer.take, frames.Output)
        assert output.decision is not None
        assert output.decision.output == b'"awaited Ada"'
        run.peer.send(frames.Ack(output.stream, output.token, accepted=True))
        assert run.worker.pull_registration_state().is_ready
        await run.worker.close()
        await run.task
        await aside(run.peer.take, frames.Goodbye)
        await aside(run.peer.session.await_end)
    for thread in sdk_threads():
        await aside(thread.join, WAIT_S)
    assert sdk_threads() == []
    assert asyncio.all_tasks() <= tasks_before


async def test_pongs_survive_a_handler_that_blocks_the_loop(probe: Probe) -> None:
    """[WIRE-7]: the answer comes while the loop stands still."""
    async with running(BlockingStep(probe)) as run:
        run.peer.send(assign(run.stream, "BlockingStep"))

        def ping_while_blocked() -> frames.Pong:
            assert probe.is_running.wait(WAIT_S)
            run.peer.send(frames.Ping(77))
            try:
                return run.peer.take(frames.Pong)
            finally:
                probe.may_end.set()

        assert (await aside(ping_while_blocked)).nonce == 77
        output = await aside(run.peer.take, frames.Output)
        run.peer.send(frames.Ack(output.stream, output.token, accepted=True))


async def test_running_call_is_presented_again_after_a_server_restart(probe: Probe) -> None:
    """[WIRE-9, WIRE-10]"""
    async with running(AwaitingStep(probe)) as run:
        call = assign(run.stream, "AwaitingStep")
        run.peer.send(call)
        await reached(probe.is_running)
        await aside(run.server.stop)
        await aside(run.server.restart)
        peer = await aside(run.server.worker)
        assert peer.hello.incarnation == run.peer.hello.incarnation
        assert [(presented.stream, presented.token) for presented in peer.hello.running] == [(run.stream, call.token)]
        await aside(peer.welcome)
        assert run.worker.pull_registration_state().is_ready
        probe.may_end.set()
        output = await aside(peer.take, frames.Output)
        assert output.token == call.token
        peer.send(frames.Ack(output.stream, output.token, accepted=True))


@pytest.mark.parametrize(
    "end",
    [
        None,
        Refusal(grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN"),
        Refusal(grpc.StatusCode.INTERNAL, "INTERNAL"),
        Refusal(grpc.StatusCode.CANCELLED, "CANCELLED"),
        Refusal(grpc.StatusCode.UNKNOWN, "UNKNOWN"),
        Refusal(grpc.StatusCode.DEADLINE_EXCEEDED, "MAX_AGE"),
    ],
    ids=lambda end: "clean end" if end is None else end.code.name,
)
async def test_session_that_ends_uninvited_is_opened_again(probe: Probe, end: Refusal | None) -> None:
    """[WIRE-9]: whatever ended it, with the calls that run."""
    async with running(AwaitingStep(probe)) as run:
        call = assign(run.stream, "AwaitingStep")
        run.peer.send(call)
        await reached(probe.is_running)
        run.peer.session.end(end)
        peer = await aside(run.server.worker)
        assert [presented.token for presented in peer.hello.running] == [call.token]
        await aside(peer.welcome)
        assert run.worker.pull_registration_state().is_ready
        probe.may_end.set()
        output = await aside(peer.take, frames.Output)
        peer.send(frames.Ack(output.stream, output.token, accepted=True))


async def test_half_open_handshake_is_given_up_and_tried_again(probe: Probe) -> None:
    """[WIRE-9]: the connection is accepted and then silent, as behind a firewall that is not ready yet."""
    with ScriptedPeer() as server, FaultProxy(server.address) as proxy:
        proxy.cut(Direction.TO_CLIENT, Direction.TO_SERVER)
        options = WorkerOptions(server_address=proxy.address)
        worker = AsyncWorker(Registry((ProbeFlow(AwaitingStep(probe)),), allow_async_handlers=True), None, options)
        task = asyncio.create_task(worker.start())
        with pytest.raises(TimeoutError):
            await worker.wait_pull_registered(0.5)
        proxy.heal()
        peer = await aside(server.worker)
        await aside(peer.welcome)
        await worker.wait_pull_registered(WAIT_S)
        await worker.close()
        await task


async def test_result_is_delivered_on_the_next_session_when_stop_meets_an_outage(probe: Probe) -> None:
    """[DRAIN-3, W11]"""
    async with running(AwaitingStep(probe)) as run:
        run.peer.send(assign(run.stream, "AwaitingStep"))
        await reached(probe.is_running)
        await aside(run.server.stop)
        stopping = asyncio.create_task(run.worker.stop())
        probe.may_end.set()
        await aside(run.server.restart)
        peer = await aside(run.server.worker)
        peer.send(frames.Welcome(1, "peer", 20_000, 256, 1 << 24))
        output = await aside(peer.take, frames.Output)
        await aside(peer.take, frames.Goodbye)
        peer.send(frames.Ack(output.stream, output.token, accepted=True))
        await stopping


async def test_superseded_worker_raises_and_does_not_come_back(probe: Probe) -> None:
    """[QUEUE-2, W16]"""
    async with running(AwaitingStep(probe)) as run:
        run.peer.send(assign(run.stream, "AwaitingStep"))
        await reached(probe.is_running)
        run.peer.session.end(Refusal(grpc.StatusCode.ABORTED, "WORKER_ID_SUPERSEDED", "a newer one came"))
        with pytest.raises(DexServiceError, match="a newer one came") as raised:
            await run.task
        assert raised.value.sub_status == "WORKER_ID_SUPERSEDED"
        assert probe.saw_cancellation.is_set()


async def test_refused_first_hello_fails_start_and_every_waiter(probe: Probe) -> None:
    """[QUEUE-5, READY-2]"""
    with ScriptedPeer() as server:
        worker = worker_of(AwaitingStep(probe), server)
        waiters = [asyncio.create_task(worker.wait_pull_registered(WAIT_S)) for _ in range(2)]
        task = asyncio.create_task(worker.start())
        peer = await aside(server.worker)
        peer.session.end(Refusal(grpc.StatusCode.INVALID_ARGUMENT, "MAX_CONCURRENT_TASKS_EXCEEDED", "300, limit 256"))
        for failed in (*waiters, task):
            with pytest.raises(DexServiceError, match="300, limit 256"):
                await failed


async def test_permanent_rejection_reaches_the_waiter_and_the_worker_goes_on(probe: Probe) -> None:
    """[READY-3, QUEUE-4]"""
    with ScriptedPeer() as server:
        worker = worker_of(AwaitingStep(probe), server)
        task = asyncio.create_task(worker.start())
        waiter = asyncio.create_task(worker.wait_pull_registered(WAIT_S))
        peer = await aside(server.worker)
        peer.send(frames.Welcome(1, "peer", 20_000, 256, 1 << 24))
        first, second = await aside(peer.take, frames.OpenStream), await aside(peer.take, frames.OpenStream)
        peer.send(
            frames.StreamOpened(first.stream),
            frames.StreamRejected(second.stream, "INVALID_ARGUMENT", "FLOW_TYPE_TOO_LONG", "limit 3", permanent=True),
        )
        with pytest.raises(PullRegistrationError) as raised:
            await waiter
        assert (raised.value.queue, raised.value.code) == ("ProbeFlow", "INVALID_ARGUMENT")
        assert not worker.pull_registration_state().is_ready
        again = await aside(peer.take, frames.OpenStream)
        peer.send(frames.StreamOpened(again.stream), frames.Ping(1))
        await aside(peer.take, frames.Pong)
        assert worker.pull_registration_state().is_ready
        await worker.wait_pull_registered(WAIT_S)
        await worker.close()
        await task


async def test_permanent_rejection_ends_the_worker_that_asks_for_it(probe: Probe) -> None:
    """[READY-7]"""
    with ScriptedPeer() as server:
        worker = worker_of(AwaitingStep(probe), server, stop_on_permanent_stream_rejection=True)
        task = asyncio.create_task(worker.start())
        peer = await aside(server.worker)
        peer.send(frames.Welcome(1, "peer", 20_000, 256, 1 << 24))
        _, flow = await aside(peer.take, frames.OpenStream), await aside(peer.take, frames.OpenStream)
        peer.send(frames.StreamRejected(flow.stream, "PERMISSION_DENIED", "X", "not yours", permanent=True))
        with pytest.raises(PullRegistrationError, match="not yours"):
            await task
        await aside(peer.take, frames.Goodbye)


async def test_permanent_rejection_after_readiness_ends_the_worker_that_asks_for_it(probe: Probe) -> None:
    """[READY-7]: the server has other settings after its restart, say."""
    with ScriptedPeer() as server:
        worker = worker_of(AwaitingStep(probe), server, stop_on_permanent_stream_rejection=True)
        task = asyncio.create_task(worker.start())
        peer = await aside(server.worker)
        await aside(peer.welcome)
        await worker.wait_pull_registered(WAIT_S)
        peer.session.end()
        peer = await aside(server.worker)
        peer.send(frames.Welcome(1, "peer", 20_000, 256, 1 << 24))
        own, flow = await aside(peer.take, frames.OpenStream), await aside(peer.take, frames.OpenStream)
        peer.send(
            frames.StreamOpened(own.stream),
            frames.StreamRejected(flow.stream, "INVALID_ARGUMENT", "FLOW_TYPE_TOO_LONG", "limit 3", permanent=True),
        )
        with pytest.raises(PullRegistrationError, match="limit 3") as raised:
            await task
        assert raised.value.queue == "ProbeFlow"
        await worker.wait_pull_registered(WAIT_S)


async def test_rejection_of_a_surplus_stream_does_not_end_the_worker(probe: Probe) -> None:
    """[READY-3, READY-7]: another stream holds the queue."""
    with ScriptedPeer() as server:
        worker = worker_of(
            AwaitingStep(probe), server, stop_on_permanent_stream_rejection=True, idle_streams_per_queue=2
        )
        task = asyncio.create_task(worker.start())
        peer = await aside(server.worker)
        peer.send(frames.Welcome(1, "peer", 20_000, 256, 1 << 24))
        *opened, surplus = [await aside(peer.take, frames.OpenStream) for _ in range(4)]
        peer.send(
            *(frames.StreamOpened(frame.stream) for frame in opened),
            frames.StreamRejected(surplus.stream, "RESOURCE_EXHAUSTED", "TOO_MANY_STREAMS", "limit 3", permanent=True),
            frames.Ping(1),
        )
        await aside(peer.take, frames.Pong)
        await worker.wait_pull_registered(WAIT_S)
        state = worker.pull_registration_state()
        assert state.is_ready
        errors = [queue.last_permanent_error for queue in state.queues]
        assert [error.details for error in errors if error is not None] == ["limit 3"]
        again = await aside(peer.take, frames.OpenStream)
        assert again.queue == surplus.queue, "it is tried again"
        await worker.close()
        await task


async def test_wait_times_out_and_stop_before_readiness_is_an_error(probe: Probe) -> None:
    """[READY-2]"""
    with ScriptedPeer() as server:
        worker = worker_of(AwaitingStep(probe), server)
        task = asyncio.create_task(worker.start())
        with pytest.raises(TimeoutError):
            await worker.wait_pull_registered(0.01)
        waiter = asyncio.create_task(worker.wait_pull_registered())
        await aside(server.worker)
        await worker.stop()
        await task
        with pytest.raises(RuntimeError, match="stopped before"):
            await waiter


async def test_cancel_frame_cancels_the_handler_and_is_answered(probe: Probe) -> None:
    """[STOP-5, DEC-11]"""
    async with running(AwaitingStep(probe)) as run:
        call = assign(run.stream, "AwaitingStep")
        run.peer.send(call)
        await reached(probe.is_running)
        run.peer.send(frames.Cancel(run.stream, call.token, frames.CANCEL_STEP_CANCELED, 30_000))
        failed = await aside(run.peer.take, frames.Failed)
        assert failed.token == call.token
        assert probe.saw_cancellation.is_set()
        run.peer.send(frames.Ack(failed.stream, failed.token, accepted=False, reason="STALE"))


async def test_sync_handler_sees_its_cancellation_and_its_result_is_sent(probe: Probe) -> None:
    """[STOP-5, LOST-3, REG-2]"""
    async with running(ThreadStep(probe)) as run:
        call = assign(run.stream, "ThreadStep")
        run.peer.send(call)
        await reached(probe.is_running)
        run.peer.send(frames.Cancel(run.stream, call.token, frames.CANCEL_STALE))
        output = await aside(run.peer.take, frames.Output)
        assert output.decision is not None
        assert output.decision.output == b'"stopped early"'
        run.peer.send(frames.Ack(output.stream, output.token, accepted=False, reason="STALE"))


async def test_handler_that_outlives_the_drain_is_canceled_without_an_answer(probe: Probe) -> None:
    """[DRAIN-1, LOST-1]: the call runs elsewhere with the same attempt."""
    async with running(AwaitingStep(probe), drain_s=0.05) as run:
        run.peer.send(assign(run.stream, "AwaitingStep"))
        await reached(probe.is_running)
        await run.worker.stop()
        assert probe.saw_cancellation.is_set()
        await aside(run.peer.session.await_end)


async def test_handler_that_swallows_its_cancellation_is_abandoned(
    probe: Probe, caplog: pytest.LogCaptureFixture
) -> None:
    """[DRAIN-1]: stop and start return, with an error log that names the Step."""
    async with running(StubbornStep(probe), drain_s=0.05) as run:
        run.peer.send(assign(run.stream, "StubbornStep"))
        await reached(probe.is_running)
        await run.worker.stop()
        await run.task
        assert "handler_abandoned ProbeFlow.StubbornStep" in caplog.text
        probe.may_end.set()


async def test_call_that_comes_after_stop_is_declined(probe: Probe) -> None:
    """[DRAIN-2]"""
    async with running(AwaitingStep(probe)) as run:
        run.peer.send(assign(run.stream, "AwaitingStep"))
        await reached(probe.is_running)
        stopping = asyncio.create_task(run.worker.stop())
        await aside(run.peer.take, frames.Goodbye)
        run.peer.send(assign(run.opened[0].stream, "AwaitingStep", "run-2"))
        assert (await aside(run.peer.take, frames.Decline)).reason == frames.DECLINE_DRAINING
        probe.may_end.set()
        output = await aside(run.peer.take, frames.Output)
        run.peer.send(frames.Ack(output.stream, output.token, accepted=True))
        await stopping


async def test_cancelling_start_ends_the_worker(probe: Probe) -> None:
    """[DRAIN-1]: handlers are canceled at once."""
    async with running(AwaitingStep(probe)) as run:
        run.peer.send(assign(run.stream, "AwaitingStep"))
        await reached(probe.is_running)
        run.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run.task
        assert probe.saw_cancellation.is_set()


async def test_server_directed_reconnect_opens_a_new_session(probe: Probe) -> None:
    """[DRAIN-3]"""
    async with running(AwaitingStep(probe)) as run:
        run.peer.send(frames.Reconnect("session is old"))
        peer = await aside(run.server.worker)
        await aside(peer.welcome)


def test_sync_worker_serves_until_it_is_stopped(probe: Probe) -> None:
    """[REG-2, DRAIN-1]"""
    with ScriptedPeer() as server:
        worker = Worker(Registry((ProbeFlow(ThreadStep(probe)),)), None, WorkerOptions(server_address=server.address))
        serving = threading.Thread(target=worker.start, name="serving")
        serving.start()
        peer = server.worker()
        opened = peer.welcome()
        worker.wait_pull_registered(timeout=WAIT_S)
        probe.may_end.set()
        peer.send(assign(opened[1].stream, "ThreadStep"))
        output = peer.take(frames.Output)
        peer.send(frames.Ack(output.stream, output.token, accepted=True))
        worker.close()
        worker.close()
        serving.join(WAIT_S)
        assert not serving.is_alive()


def test_worker_with_one_slot_warns_that_rpcs_may_wait(probe: Probe, caplog: pytest.LogCaptureFixture) -> None:
    """[RES-2]: once, and not with an explicit reserve."""
    with ScriptedPeer() as server:
        for pull in (PullWorkerOptions(max_concurrent_tasks=1), PullWorkerOptions(1, reserved_rpc_tasks=0)):
            options = WorkerOptions(server_address=server.address, pull=pull)
            worker = Worker(Registry((ProbeFlow(ThreadStep(probe)),)), None, options)
            serving = threading.Thread(target=worker.start)
            serving.start()
            server.worker()
            worker.stop()
            serving.join(WAIT_S)
    assert caplog.text.count("rpcs_may_wait_behind_steps") == 1


class FixedCredential:
    def token(self) -> str:
        return "secret"


def test_every_session_carries_the_token(probe: Probe) -> None:
    """[SEC-2]"""
    with ScriptedPeer() as server:
        options = WorkerOptions(server_address=server.address, credential=FixedCredential())
        worker = Worker(Registry((ProbeFlow(ThreadStep(probe)),)), None, options)
        serving = threading.Thread(target=worker.start)
        serving.start()
        assert server.worker().session.metadata["authorization"] == "Bearer secret"
        worker.stop()
        serving.join(WAIT_S)


def test_sync_worker_refuses_coroutine_handlers(probe: Probe) -> None:
    """[REG-2]"""
    with pytest.raises(FlowDefinitionError, match=r"ProbeFlow\.AwaitingStep"):
        Worker(Registry((ProbeFlow(AwaitingStep(probe)),), allow_async_handlers=True))


def test_worker_that_was_stopped_cannot_start(probe: Probe) -> None:
    """[DRAIN-1]"""
    worker = Worker(Registry((ProbeFlow(ThreadStep(probe)),)))
    worker.stop()
    with pytest.raises(RuntimeError, match="stopped"):
        worker.start()
