"""Timers, Channels, Attributes, locks and RPCs of real Flows: server, SDK worker and SDK client together."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from dexsdk import (
    AsyncClient,
    Attribute,
    AttributeMap,
    Channel,
    ChannelMap,
    ChannelMessageNotFoundError,
    Context,
    DexServiceError,
    Flow,
    FlowNotActiveError,
    FlowStatus,
    PersistenceSchema,
    RetryAfter,
    RetryPolicy,
    RpcLockConflictError,
    RPCResult,
    SkipTimerOutcome,
    StartFlowOptions,
    Step,
    StepDecision,
    StepExecutionId,
    StepList,
    StepMovement,
    StepOptions,
    Timer,
    TimerId,
    Wait,
    dead_end,
    go_to,
    graceful_complete,
    rpc,
)
from tests.support.sdk_service import WAIT_S, sdk_service
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flow-state")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("flow-state")
    with ServerProcess(directory / "data") as process:
        yield process


# ---- timers ------------------------------------------------------------------------------------------------------

GO_ON = Channel("go_on", bool)


class WaitStep(Step[int]):
    """Round 1 and 2 wait for an hour; round 3 has a message to wait for as well."""

    def wait_for(self, context: Context, input: int) -> Wait:
        hour = Timer.by_duration(timedelta(hours=1), "hour")
        return Wait.until(hour) if input < 3 else Wait.all_of(hour, GO_ON.for_one())

    def execute(self, context: Context, input: int) -> StepDecision:
        assert context.has_timer_fired()
        return go_to(WaitStep, input + 1) if input < 3 else graceful_complete(input)


class HourFlow(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(WaitStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(GO_ON)


async def test_row_6_an_hour_is_skipped_by_id_by_index_and_before_the_wait(server: ServerProcess) -> None:
    """Acceptance row 6 [TIMER-8, TIMER-9]: APPLIED, APPLIED, REMEMBERED, ALREADY_FIRED; the timer counts as fired."""
    async with asyncio.timeout(WAIT_S), sdk_service(server, HourFlow()) as client:
        await client.start_flow(HourFlow, "hours", 1)

        async def skip(number: int, timer: TimerId) -> SkipTimerOutcome:
            return await client.skip_timer("hours", StepExecutionId(WaitStep, number), timer)

        async def installed(number: int) -> None:
            async for event in client.watch_history("hours"):
                if event.kind == "WaitForCompleted" and event.data["step_execution_id"] == f"WaitStep-{number}":
                    return

        assert await skip(3, TimerId.by_condition_index(0)) is SkipTimerOutcome.REMEMBERED
        await installed(1)
        assert await skip(1, TimerId.by_condition_id("hour")) is SkipTimerOutcome.APPLIED
        await installed(2)
        assert await skip(2, TimerId.by_condition_index(0)) is SkipTimerOutcome.APPLIED
        await installed(3)
        assert await skip(3, TimerId.by_condition_id("hour")) is SkipTimerOutcome.ALREADY_FIRED
        with pytest.raises(DexServiceError, match="TIMER_NOT_FOUND") as unknown:
            await skip(3, TimerId.by_condition_index(1))
        assert unknown.value.code == "NOT_FOUND"
        with pytest.raises(DexServiceError, match="STEP_NOT_WAITING") as over:
            await skip(1, TimerId.by_condition_index(0))
        assert over.value.code == "FAILED_PRECONDITION"

        await client.publish("hours", GO_ON, True)
        assert (await client.wait_for_flow("hours")).single_output(int) == 3


# ---- messages ----------------------------------------------------------------------------------------------------

NOTES = Channel("notes", str)
BY_USER = ChannelMap("by_user", int)


class NotesFlow(Flow[None]):
    def get_steps(self) -> StepList[None]:
        return StepList.empty()

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(NOTES, BY_USER)

    @rpc
    def drop(self, context: Context, message_ids: list[str]) -> RPCResult[int]:
        for message_id in message_ids:
            NOTES.delete_message(context, message_id)
        return RPCResult(NOTES.size(context))


async def test_chan_9_clients_list_and_delete_what_nobody_consumed(server: ServerProcess) -> None:
    """[CHAN-8] and handlers do; a closed Flow still shows its messages and refuses deletions."""
    flow = NotesFlow()
    async with asyncio.timeout(WAIT_S), sdk_service(server, flow) as client:
        await client.start_flow(flow, "notes")
        await client.publish("notes", NOTES, "a", "b", "c")
        await client.publish("notes", BY_USER, "ada", 1)
        notes = await client.list_channel_messages("notes", NOTES)
        assert [note.value for note in notes] == ["a", "b", "c"]
        assert [note.message_id for note in notes] == sorted(note.message_id for note in notes)
        assert [note.value for note in await client.list_channel_messages("notes", BY_USER, "ada")] == [1]

        await client.delete_channel_message("notes", NOTES, notes[1].message_id, request_id="once")
        await client.delete_channel_message("notes", NOTES, notes[1].message_id, request_id="once")
        with pytest.raises(ChannelMessageNotFoundError):
            await client.delete_channel_message("notes", NOTES, notes[1].message_id)
        assert await client.invoke_rpc(flow.drop, "notes", [notes[0].message_id]) == 1
        assert await client.list_channel_messages("notes", NOTES) == [notes[2]]

        await client.stop_flow("notes")
        assert await client.list_channel_messages("notes", NOTES) == [notes[2]]
        with pytest.raises(FlowNotActiveError):
            await client.delete_channel_message("notes", NOTES, notes[2].message_id)


# ---- locks and RPCs ----------------------------------------------------------------------------------------------

STOCK = Attribute("stock", int)
LOG = Attribute("log", list[str])


class PickStep(Step[str]):
    """Fails once and holds its lock in backoff, then reads and writes under the lock."""

    def get_step_options(self) -> StepOptions:
        retry = RetryPolicy(initial_interval=3600)
        return StepOptions(execute_retry=retry, execute_lock_attributes=[STOCK.lock()])

    async def execute(self, context: Context, input: str) -> StepDecision:
        if input == "fails" and context.attempt == 1:
            raise RetryAfter(1.0)
        STOCK.set(context, STOCK.get(context) - 1)
        LOG.set(context, [*LOG.get(context), input])
        return graceful_complete(input)


class StockFlow(Flow[None]):
    def get_steps(self) -> StepList[None]:
        return StepList.without_start_step(PickStep(), IdleStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(STOCK, LOG, NOTES)

    @rpc
    async def pick(self, context: Context, orders: list[str]) -> RPCResult[None]:
        return RPCResult.of(None, *(StepMovement.of(PickStep, order) for order in orders))

    @rpc(lock_attributes=[STOCK.lock()])
    async def refill(self, context: Context, amount: int) -> RPCResult[int]:
        STOCK.set(context, STOCK.get(context) + amount)
        return RPCResult.of(STOCK.get(context))

    @rpc(is_transactional=True)
    async def settle(self, context: Context, message_id: str) -> RPCResult[None]:
        LOG.set(context, ["settled"])
        NOTES.delete_message(context, message_id)
        return RPCResult.of(None)

    @rpc
    async def replace(self, context: Context) -> RPCResult[None]:
        idle = StepMovement.of(IdleStep, None)
        return RPCResult.of(None, idle, idle).with_canceling_steps(IdleStep)


class IdleStep(Step[None]):
    def wait_for(self, context: Context, input: None) -> Wait:
        return Wait.until(Timer.by_duration(timedelta(days=1)))

    def execute(self, context: Context, input: None) -> StepDecision:
        return dead_end()


def stocked(amount: int) -> StartFlowOptions:
    return StartFlowOptions().with_attribute(STOCK, amount).with_attribute(LOG, [])


async def test_row_15_an_rpc_is_refused_while_a_step_holds_the_lock_in_backoff(server: ServerProcess) -> None:
    """Acceptance row 15 [LOCK-2, LOCK-3, LOCK-4]: ABORTED at once; a second Step with the lock waits for the first."""
    flow = StockFlow()
    async with asyncio.timeout(WAIT_S), sdk_service(server, flow) as client:
        await client.start_flow(flow, "stock", None, stocked(9))
        await client.invoke_rpc(flow.pick, "stock", ["fails", "waits"])
        async for event in client.watch_history("stock"):
            if event.kind == "ExecuteFailed":
                break
        with pytest.raises(RpcLockConflictError, match="PickStep-1 has locked") as conflict:
            await client.invoke_rpc(flow.refill, "stock", 5)
        assert conflict.value.code == "ABORTED"
        assert (await client.wait_for_flow("stock")).status is FlowStatus.COMPLETED
        assert await client.get_attribute("stock", LOG) == ["fails", "waits"]
        assert await client.get_attribute("stock", STOCK) == 7


async def test_lock_1_steps_and_rpcs_that_lock_never_lose_an_update(server: ServerProcess) -> None:
    """[LOCK-2] Fifty Steps at once, and RPCs that try until they get through."""
    flow = StockFlow()

    async def refill(client: AsyncClient) -> None:
        is_done = False
        while not is_done:
            with suppress(RpcLockConflictError):
                is_done = await client.invoke_rpc(flow.refill, "busy", 1) is not None

    async with asyncio.timeout(WAIT_S), sdk_service(server, flow) as client:
        await client.start_flow(flow, "busy", None, stocked(0))
        await client.invoke_rpc(flow.replace, "busy")  # keeps the Flow open
        orders = [str(number) for number in range(50)]
        await client.invoke_rpc(flow.pick, "busy", orders)
        picked = [client.wait_for_step_completion("busy", StepExecutionId(PickStep, n + 1)) for n in range(50)]
        await asyncio.gather(*picked, *(refill(client) for _ in range(10)))
        assert await client.get_attribute("busy", STOCK) == -40
        log = await client.get_attribute("busy", LOG)
        assert log is not None
        assert sorted(log, key=int) == orders
        await client.stop_flow("busy")


async def test_rpc_5_a_transaction_that_deletes_an_unknown_message_changes_nothing(server: ServerProcess) -> None:
    """[CHAN-8, RPC-3]"""
    flow = StockFlow()
    async with asyncio.timeout(WAIT_S), sdk_service(server, flow) as client:
        await client.start_flow(flow, "settled", None, stocked(0))
        with pytest.raises(ChannelMessageNotFoundError):
            await client.invoke_rpc(flow.settle, "settled", "nothing")
        assert await client.get_attribute("settled", LOG) == []
        await client.publish("settled", NOTES, "a")
        (note,) = await client.list_channel_messages("settled", NOTES)
        await client.invoke_rpc(flow.settle, "settled", note.message_id)
        assert await client.get_attribute("settled", LOG) == ["settled"]
        await client.stop_flow("settled")


async def test_rpc_2_an_rpc_cancels_the_steps_of_a_type_and_schedules_others(server: ServerProcess) -> None:
    """[DEC-10] The new ones live."""
    flow = StockFlow()
    async with asyncio.timeout(WAIT_S), sdk_service(server, flow) as client:
        await client.start_flow(flow, "replaced", None, stocked(0))
        await client.invoke_rpc(flow.replace, "replaced")
        await client.invoke_rpc(flow.replace, "replaced")
        events = (await client.get_history("replaced")).events
        canceled = [event.data["step_execution_id"] for event in events if event.kind == "StepCanceled"]
        assert canceled == ["IdleStep-1", "IdleStep-2"]
        await client.stop_flow("replaced")


# ---- large values ------------------------------------------------------------------------------------------------

DOCUMENT = Attribute("document", str)
PAGES = AttributeMap("pages", str)
MEGABYTE = 1_000_000


class ReadStep(Step[str]):
    """A plain function; reads only once somebody else has changed everything."""

    def get_step_options(self) -> StepOptions:
        return StepOptions(execute_retry=RetryPolicy(maximum_attempts=1))

    def execute(self, context: Context, input: str) -> StepDecision:
        CHANGED.wait(WAIT_S)
        assert [message.value for message in NOTES.pending(context)] == []
        document, page = DOCUMENT.get(context), PAGES.get(context, "19")
        return graceful_complete(f"{document[:3]} {len(document)} {page[:3]}")


class EagerStep(Step[str]):
    """A coroutine that has everything fetched before it is called."""

    def get_step_options(self) -> StepOptions:
        return StepOptions(preload=[DOCUMENT, PAGES])

    async def execute(self, context: Context, input: str) -> StepDecision:
        return graceful_complete(f"{DOCUMENT.get(context)[:3]} {PAGES.get_map_size(context)}")


class LibraryFlow(Flow[str]):
    def get_steps(self) -> StepList[str]:
        return StepList.start_step(ReadStep()).other_steps(EagerStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(DOCUMENT, PAGES, NOTES)

    @rpc
    def length(self, context: Context) -> RPCResult[int]:
        assert [message.value for message in NOTES.pending(context)] == ["note"]
        return RPCResult.of(len(DOCUMENT.get(context)))

    @rpc
    async def read_again(self, context: Context) -> RPCResult[None]:
        return RPCResult.of(None, StepMovement.of(EagerStep, "x"))


CHANGED = threading.Event()


async def test_attr_7_large_values_are_those_of_the_snapshot_whenever_they_are_read(server: ServerProcess) -> None:
    """[ATTR-6, ATTR-8, CHAN-8] 3 MB and the eleventh of ten fitting pages, overwritten while the handler runs."""
    flow = LibraryFlow()
    options = StartFlowOptions().with_attribute(DOCUMENT, "old" + "x" * 3 * MEGABYTE)
    for number in range(20):
        options = options.with_attribute(PAGES, str(number), "old" + "y" * 60_000)
    async with asyncio.timeout(2 * WAIT_S), sdk_service(server, flow) as client:
        await client.start_flow(flow, "library", "x", options)
        async for event in client.watch_history("library"):
            if event.kind == "StepDispatched":
                break
        await client.publish("library", NOTES, "note")
        assert await client.invoke_rpc(flow.length, "library") == 3 * MEGABYTE + 3
        await client.set_attribute("library", DOCUMENT, "new" + "x" * MEGABYTE)
        for number in range(20):
            await client.set_attribute("library", PAGES, str(number), "new" + "y" * 60_000)
        await client.invoke_rpc(flow.read_again, "library")
        CHANGED.set()
        outputs = [output.decode(str) for output in (await client.wait_for_flow("library")).completions]
        assert sorted(outputs) == ["new 20", f"old {3 * MEGABYTE + 3} old"]
