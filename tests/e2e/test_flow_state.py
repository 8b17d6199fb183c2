"""Timers, Channels, Attributes, locks and RPCs of real Flows: server, SDK worker and SDK client together."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dexsdk import (
    Channel,
    Context,
    DexServiceError,
    Flow,
    PersistenceSchema,
    SkipTimerOutcome,
    Step,
    StepDecision,
    StepExecutionId,
    StepList,
    Timer,
    TimerId,
    Wait,
    go_to,
    graceful_complete,
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
