"""An operator who sends Flows back in time while they are used: nothing that came from outside is lost or doubled."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from random import Random

from dexd.core.flow.state import RunState
from dexd.core.forks.selectors import Selector, TimeTravelType
from dexd.core.ids import StepExecutionId
from dexd.core.values import FlowStatus, Method
from tests.simulation.acknowledged import Acknowledged
from tests.simulation.answers import value
from tests.simulation.requests import Requests


async def drive_traveller(requests: Requests, random: Random, flow_id: str) -> None:
    """Producers fill an Inbox while it goes back several times, and once more when it has ended [TT-1, TT-5].

    What is published and answered is applied again each time, so the last run must have read every item, once and in
    the order of its producer, whatever the runs before had read.
    """
    await requests.start(flow_id, "Inbox", None)
    producers = [_produce(requests, random, flow_id, number) for number in range(random.randint(1, 3))]
    operator = _go_back(requests, random, flow_id, random.randint(1, 3))
    *published, _ = await asyncio.gather(*producers, operator)
    requests.acknowledged.published[flow_id] = [items for items in published if items is not None]
    await requests.set_attribute(flow_id, "note", flow_id)
    await requests.publish(flow_id, "inbox", "end")
    if random.random() < 0.5:
        await asyncio.sleep(random.uniform(0, 20))
        await _go_back(requests, random, flow_id, 1)


async def wander(requests: Requests, random: Random, flow_id: str) -> None:
    """Perhaps send a Flow back to some instant, while it works or after it has ended; it ends as it would have."""
    if random.random() < 0.7:
        return
    for _ in range(random.randint(1, 2)):
        await asyncio.sleep(random.uniform(0, 6))
        at = requests.now() - random.randint(0, 8_000)
        instant = Selector(TimeTravelType.HISTORY_EVENT_TIME, at=at)
        await requests.travel(flow_id, random.choice([Selector(TimeTravelType.BEGINNING), instant]))


async def _produce(requests: Requests, random: Random, flow_id: str, producer: int) -> list[str]:
    items = [f"{producer}:{number}" for number in range(random.randint(1, 8))]
    for item in items:
        await requests.publish(flow_id, "inbox", item)
        await asyncio.sleep(random.uniform(0, 1))
    answer = await requests.invoke(flow_id, "append", value(f"{producer}:rpc"))
    if isinstance(answer, bytes):
        requests.acknowledged.rpc_items.setdefault(flow_id, []).append(json.loads(answer))
    return items


async def _go_back(requests: Requests, random: Random, flow_id: str, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(random.uniform(0, 4))
        await requests.travel(flow_id, _drawn(random, now=requests.now()))


def _drawn(random: Random, *, now: int) -> Selector:
    step_id = StepExecutionId(f"Read-{random.randint(1, 4)}")
    return random.choice(
        [
            Selector(TimeTravelType.BEGINNING),
            Selector(TimeTravelType.HISTORY_EVENT_TIME, at=now - random.randint(0, 10_000)),
            Selector(TimeTravelType.STEP_TYPE, step_type="Read"),
            Selector(
                TimeTravelType.STEP_EXECUTION_ID,
                step_execution_id=step_id,
                method=random.choice([Method.WAIT_FOR, Method.EXECUTE]),
            ),
        ]
    )


def check_travels(runs: Mapping[str, Sequence[RunState]], told: Acknowledged, world: str) -> None:
    """Forks that were acknowledged are there, each run goes on in the next one, and only the last one counts [TT-1]."""
    for flow_id, forks in told.forks.items():
        where = f"{world}: {flow_id}"
        found = {run.run_id: run for run in runs[flow_id]}
        assert set(forks) <= set(found), f"{where} lost a fork of {forks} [INV-1]"
        *earlier, last = runs[flow_id]
        assert not last.next_run_id, f"{where}: the newest run goes on in {last.next_run_id}"
        for run, following in zip(earlier, [*earlier[1:], last], strict=True):
            assert run.next_run_id == following.run_id, f"{where}: {run.run_id} goes on in {run.next_run_id!r}"
            ends = (FlowStatus.TERMINATED, FlowStatus.COMPLETED, FlowStatus.CONTINUED_AS_NEW)
            assert run.status in ends, f"{where}: {run.run_id} is {run.status}"
        assert last.execution_id == runs[flow_id][0].run_id, f"{where} has another first run"
