"""Messages over a loop of roll-overs, with a real server, also one that is killed [ROLL-4, ROLL-5]."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from dexd.log.directory import log_path
from dexd.log.sqlite_reader import OfflineLog
from dexsdk import (
    AsyncClient,
    Attribute,
    Channel,
    ClientOptions,
    Context,
    Flow,
    FlowConfig,
    FlowStatus,
    PersistenceSchema,
    Registry,
    StartFlowOptions,
    Step,
    StepDecision,
    StepExecutionId,
    StepList,
    StepOutcome,
    Wait,
    force_complete,
    force_fail,
    go_to,
)
from dextools.log_verification import verify_log
from tests.support.server_process import ServerProcess
from tests.support.worker_thread import running_worker

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("roll-over")]

PRODUCERS = 5
SHORT = StartFlowOptions(config_override=FlowConfig(continue_as_new_threshold=10))
WAIT_S = 120

NUMBERS = Channel("numbers", tuple[int, int])
NEXT = Attribute("next", list[int])


class Take(Step[int]):
    """Takes what there is, and goes on until every producer's last message was taken."""

    def wait_for(self, context: Context, input: int) -> Wait:
        return Wait.until(NUMBERS.at_least(1))

    def execute(self, context: Context, input: int) -> StepDecision:
        following = NEXT.get(context) if context.step_execution_id != "Take-1" else [0] * PRODUCERS
        for producer, number in NUMBERS.results(context):
            if number != following[producer]:
                return force_fail(f"producer {producer} has {number}, expected {following[producer]}")
            following[producer] += 1
        NEXT.set(context, following)
        return force_complete(following) if following == [input] * PRODUCERS else go_to(Take, input)


class TakeFlow(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(Take())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(NUMBERS, NEXT)


FLOW = TakeFlow()
REGISTRY = Registry([FLOW])


class Progress:
    """How far the first producer is, for whoever wants to do something then."""

    def __init__(self) -> None:
        self._events: dict[int, asyncio.Event] = {}

    def at(self, number: int) -> asyncio.Event:
        return self._events.setdefault(number, asyncio.Event())


async def produce(client: AsyncClient, producer: int, count: int, progress: Progress) -> None:
    """Publish numbered messages one after the other; nothing may be refused [RPC-9, ROLL-5]."""
    for number in range(count):
        await client.publish("f", NUMBERS, (producer, number))
        if producer == 0:
            progress.at(number).set()


async def play(address: str, count: int, progress: Progress) -> list[str]:
    """Start, publish from all producers at once, wait for the end; gives the runs that a watcher saw."""
    async with AsyncClient(REGISTRY, options=ClientOptions(server_address=address)) as client:
        await client.start_flow(FLOW, "f", count, SHORT)
        runs: dict[str, int] = {}

        async def watch() -> None:
            async for event in client.watch_history("f"):
                assert event.event_id == runs.get(event.run_id, 0) + 1, "a watcher sees every event once, in order"
                runs[event.run_id] = event.event_id

        watching = asyncio.create_task(watch())
        first_step = asyncio.create_task(client.wait_for_step_completion("f", StepExecutionId(Take)))
        await asyncio.sleep(0)
        await asyncio.gather(*(produce(client, producer, count, progress) for producer in range(PRODUCERS)))
        result = await client.wait_for_flow("f", WAIT_S)
        assert (result.status, result.error_message) == (FlowStatus.COMPLETED, None)
        assert result.single_output(list[int]) == [count] * PRODUCERS
        assert await first_step is StepOutcome.COMPLETED
        await asyncio.wait_for(watching, WAIT_S)
    return list(runs)


def check_log(data_dir: Path) -> None:
    """Every run replays to what its row says, and begins with what the one before had [INV-8, ROLL-3]."""
    with OfflineLog(log_path(data_dir)) as log:
        report = verify_log(log, lambda _: None)
    assert report.faults == []


def test_row_26_every_message_is_taken_once_over_a_roll_over_loop(tmp_path: Path) -> None:
    """[CHAN-3, INV-6, RPC-9] 5 producers, 2,000 messages, a run every 10 events; per-producer order, no NOT_FOUND."""
    with ServerProcess(tmp_path / "data") as server, running_worker(REGISTRY, server.address):
        assert len(asyncio.run(play(server.address, 400, Progress()))) >= 100
        server.terminate()
        server.wait()
    check_log(tmp_path / "data")


def test_row_26_also_when_the_server_is_killed_around_roll_overs(tmp_path: Path) -> None:
    """[INV-1, ROLL-2] Whether a kill comes before the commit of a roll-over or after it, nothing is lost or doubled."""
    asyncio.run(_play_with_kills(tmp_path / "data", kills=4))
    check_log(tmp_path / "data")


async def _play_with_kills(data_dir: Path, *, kills: int) -> None:
    server = await asyncio.to_thread(ServerProcess, data_dir)
    address = server.address
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: server.kill())
        stack.enter_context(running_worker(REGISTRY, address))
        progress = Progress()
        playing = asyncio.create_task(play(address, 15 * (kills + 1), progress))
        for number in range(1, kills + 1):
            await progress.at(15 * number - number).wait()
            await asyncio.to_thread(server.kill)
            server = await asyncio.to_thread(lambda: ServerProcess(data_dir, listen=address))
        assert len(await playing) > 10
        server.terminate()
        await asyncio.to_thread(server.wait)
