"""A pool of machines, and jobs that wait until one is theirs.

Shows a controller Flow that hands slots to other Flows: one ChannelMap holds the requests for each kind of machine, a
second one its free slots, and a Step a kind waits for one of both. What a Flow sends to another carries the sender's
idempotency key as request ID, so that a Step that runs twice neither asks twice nor hands out a slot twice. A job that
fails gives its slot back; one that is stopped while it has a slot keeps it. Start a server (`dexd serve`), then
`python -m examples.resource_pool`.
"""

import uuid
from dataclasses import dataclass

from dexsdk import (
    Channel,
    ChannelMap,
    Context,
    Flow,
    FlowNotActiveError,
    PersistenceSchema,
    RetryPolicy,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    StepMovement,
    StepOptions,
    Timer,
    Wait,
    force_fail,
    go_to,
    go_to_many,
    graceful_complete,
    rpc,
)
from examples.flow_caller import FlowCaller
from examples.local_worker import run, serving


@dataclass(frozen=True)
class Slots:
    """How many machines of a kind there are."""

    kind: str
    count: int


@dataclass(frozen=True)
class Job:
    """What is to be run where: the pool's Flow ID, a kind of machine, and how many seconds it takes."""

    pool: str
    kind: str
    seconds: float
    is_faulty: bool = False


@dataclass(frozen=True)
class Granted:
    """A job and the slot that it has."""

    job: Job
    slot: str


REQUESTS = ChannelMap("requests", str)
"""Flow IDs of jobs that wait, by kind."""
FREE = ChannelMap("free", str)
"""Slots that nobody has, by kind."""
GRANTS = Channel("grants", str)
"""The slot that a job has been given; a Channel of the job."""


class OpenStep(Step[list[Slots]]):
    """Put all slots into the pool, and begin to hand them out."""

    def execute(self, context: Context, pool: list[Slots]) -> StepDecision:
        for slots in pool:
            for number in range(1, slots.count + 1):
                FREE.publish(context, slots.kind, f"{slots.kind}-{number}")
        return go_to_many(*(StepMovement.of(GrantStep, slots.kind) for slots in pool))


class GrantStep(Step[str]):
    """Bring the oldest request and a free slot of one kind together."""

    def __init__(self, caller: FlowCaller) -> None:
        self._caller = caller

    def wait_for(self, context: Context, kind: str) -> Wait:
        return Wait.all_of(REQUESTS.for_one(kind), FREE.for_one(kind))

    async def execute(self, context: Context, kind: str) -> StepDecision:
        (job,), (slot,) = REQUESTS.results(context, kind), FREE.results(context, kind)
        try:
            await self._caller.client.publish(job, GRANTS, slot, request_id=context.idempotency_key)
        except FlowNotActiveError:  # The job was stopped while it waited.
            FREE.publish(context, kind, slot)
        return go_to(GrantStep, kind)


class PoolFlow(Flow[list[Slots]]):
    """The controller; one execution is one pool, and stays open."""

    def __init__(self, caller: FlowCaller) -> None:
        self._grant = GrantStep(caller)

    def get_steps(self) -> StepList[list[Slots]]:
        return StepList.start_step(OpenStep()).other_steps(self._grant)

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(REQUESTS, FREE)

    @rpc
    def free(self, context: Context, kind: str) -> RPCResult[int]:
        """Say how many slots of a kind nobody has."""
        return RPCResult(FREE.size(context, kind))


class RequestStep(Step[Job]):
    """Ask the pool for a slot."""

    def __init__(self, caller: FlowCaller) -> None:
        self._caller = caller

    async def execute(self, context: Context, job: Job) -> StepDecision:
        key = context.idempotency_key
        await self._caller.client.publish(job.pool, REQUESTS, job.kind, context.flow_id, request_id=key)
        return go_to(StartStep, job)


class StartStep(Step[Job]):
    """Wait until there is a slot, for as long as it takes."""

    def wait_for(self, context: Context, job: Job) -> Wait:
        return Wait.until(GRANTS.for_one())

    def execute(self, context: Context, job: Job) -> StepDecision:
        return go_to(WorkStep, Granted(job, GRANTS.results(context)[0]))


class WorkStep(Step[Granted]):
    """Use the machine. However it ends, the slot is given back."""

    def get_step_options(self) -> StepOptions:
        retry = RetryPolicy(initial_interval=0.1, maximum_attempts=3)
        return StepOptions(execute_retry=retry).on_execute_failure_proceed_to(ReleaseStep)

    def wait_for(self, context: Context, granted: Granted) -> Wait:
        return Wait.until(Timer.by_duration(granted.job.seconds))

    def execute(self, context: Context, granted: Granted) -> StepDecision:
        if granted.job.is_faulty:
            raise RuntimeError(f"broke down on {granted.slot}")
        return go_to(ReleaseStep, granted)


class ReleaseStep(Step[Granted]):
    """Give the slot back."""

    def __init__(self, caller: FlowCaller) -> None:
        self._caller = caller

    async def execute(self, context: Context, granted: Granted) -> StepDecision:
        job, key = granted.job, context.idempotency_key
        await self._caller.client.publish(job.pool, FREE, job.kind, granted.slot, request_id=key)
        failure = context.recovery_error
        return force_fail(failure.detail) if failure else graceful_complete(granted.slot)


class JobFlow(Flow[Job]):
    """Request, work, release."""

    def __init__(self, caller: FlowCaller) -> None:
        self._request = RequestStep(caller)
        self._release = ReleaseStep(caller)

    def get_steps(self) -> StepList[Job]:
        return StepList.start_step(self._request).other_steps(StartStep(), WorkStep(), self._release)

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(GRANTS)


async def play(server: str) -> None:
    """Run five jobs on two machines; one of the jobs is faulty."""
    caller = FlowCaller()
    pool_flow = PoolFlow(caller)
    async with serving(pool_flow, server, JobFlow(caller)) as client:
        caller.connect(client)
        pool = f"pool-{uuid.uuid4().hex[:8]}"
        await client.start_flow(PoolFlow, pool, [Slots("gpu", 2)])
        for number in range(5):
            await client.start_flow(JobFlow, f"{pool}/job-{number}", Job(pool, "gpu", 0.2, is_faulty=number == 1))
        for number in range(5):
            result = await client.wait_for_flow(f"{pool}/job-{number}")
            print(f"{pool}/job-{number}", result.status.value)
        free = await client.invoke_rpc(pool_flow.free, pool, "gpu")
        print("free:", free)
        await client.stop_flow(pool)


if __name__ == "__main__":
    run(play, __doc__)
