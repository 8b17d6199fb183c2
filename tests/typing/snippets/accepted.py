"""What users write and what must type-check under ``mypy --strict`` [TYPE-1]."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from dexsdk import (
    AsyncClient,
    Attribute,
    AttributeMap,
    AttributeMatch,
    Channel,
    ChannelMap,
    Client,
    ConditionCombination,
    Context,
    Flow,
    FlowConfig,
    FlowResult,
    FlowTimeoutPolicy,
    NonRetryableError,
    PendingMessage,
    PersistenceSchema,
    RPCResult,
    OverlapPolicy,
    ScheduleAction,
    SchedulePolicy,
    ScheduleSpec,
    Registry,
    RetryAfter,
    RetryPolicy,
    SkipTimerOutcome,
    StartFlowOptions,
    Step,
    StepDecision,
    StepDurability,
    StepExecutionId,
    StepList,
    StepMovement,
    StepOptions,
    SubFlow,
    SubFlowOptions,
    Timer,
    TimerId,
    Wait,
    dead_end,
    force_complete,
    force_fail,
    go_to,
    go_to_many,
    graceful_complete,
    rpc,
)


@dataclass
class Order:
    id: str
    total: int


STATUS: Attribute[str] = Attribute("status", str)
TAGS = Attribute("tags", list[str])
SCORES = AttributeMap("scores", int)
APPROVALS = Channel("approvals", bool)
BY_USER = ChannelMap("by_user", Order)


class Charge(Step[Order]):
    async def execute(self, context: Context, input: Order) -> StepDecision:
        STATUS.set(context, "charged")
        STATUS.set(context, None)
        SCORES.set(context, input.id, SCORES.get(context, input.id, default=0) + input.total)
        if input.total == 0:
            raise NonRetryableError("nothing to charge")
        if input.total < 0:
            raise RetryAfter(timedelta(seconds=5))
        return go_to_many(StepMovement.of(Ship, input), StepMovement.of(Done), StepMovement.of(Done, None))

    def get_step_options(self) -> StepOptions:
        return StepOptions(
            execute_method_timeout=30,
            execute_retry=RetryPolicy(maximum_attempts=3),
            non_retryable_errors=[ValueError, "shop.SoldOut"],
        ).on_execute_failure_proceed_to(Ship)


class Ship(Step[Order]):
    def wait_for(self, context: Context, input: Order) -> Wait:
        context.set_step_execution_local("n", 1)
        if input.total:
            return Wait.any_combination_of(
                ConditionCombination.of(APPROVALS.for_one(condition_id="a"), Timer.by_duration(1, "t")),
            )
        return Wait.any_of(APPROVALS.for_n(2), BY_USER.at_least("u", 1), Timer.by_duration(timedelta(days=1)))

    def execute(self, context: Context, input: Order) -> StepDecision:
        approvals: list[bool] = APPROVALS.results(context)
        orders: list[Order] = BY_USER.results(context, "u")
        local: int = context.get_step_execution_local("n", int)
        if context.has_timer_fired(0) or local or not (approvals and orders):
            return force_fail("late")
        return go_to(Done, options=StepOptions(execute_method_timeout=1))


class Done(Step[None]):
    def execute(self, context: Context, input: None) -> StepDecision:
        tags: list[str] = TAGS.get(context)
        return graceful_complete(tags) if tags else dead_end() if context.attempt else force_complete()


class Orders(Flow[Order]):
    def get_steps(self) -> StepList[Order]:
        return StepList.start_step(Charge()).other_steps(Ship(), Done())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(STATUS, TAGS, SCORES, APPROVALS, BY_USER)

    @rpc
    def status(self, context: Context) -> RPCResult[str]:
        return RPCResult(STATUS.get(context))

    @rpc(name="rename", timeout=5)
    async def change(self, context: Context, input: Order) -> RPCResult[int]:
        APPROVALS.publish(context, True)
        BY_USER.publish(context, input.id, input)
        return RPCResult.of(1, StepMovement.of(Ship, input))

    @rpc
    def touch(self, context: Context) -> None:
        STATUS.delete(context)


class Driven(Flow[None]):
    def get_steps(self) -> StepList[None]:
        return StepList.without_start_step(Done())


registry = Registry((Orders(), Driven()), allow_async_handlers=True)
options = StartFlowOptions(request_id="r").with_attribute(STATUS, "new").with_attribute(SCORES, "a", 1)


def calls(client: Client, flow: Orders) -> None:
    order = Order("o", 1)
    run_id: str = client.start_flow(Orders, "id", order, options)
    client.start_flow(Driven, run_id)
    status: str = client.invoke_rpc(flow.status, "id")
    number: int = client.invoke_rpc(flow.change, "id", order, timeout=5, request_id="r")
    tags: list[str] | None = client.get_attribute("id", TAGS)
    score: int | None = client.get_attribute("id", SCORES, "a")
    client.set_attribute("id", STATUS, None)
    client.set_attribute("id", SCORES, "a", 1)
    client.publish("id", APPROVALS, True, False)
    client.publish("id", BY_USER, "u", order)
    total: int = client.wait_for_flow("id", timeout=timedelta(seconds=5)).single_output(int)
    print(status, number, tags, score, total)


async def awaited_calls(client: AsyncClient, flow: Orders) -> None:
    number: int = await client.invoke_rpc(flow.change, "id", Order("o", 1))
    status: str = await client.invoke_rpc(flow.status, await client.start_flow(Driven, "id"))
    print(number, status)


class MirrorStep(Step[int]):
    """Long work with checkpoints that ends its rivals."""

    async def execute(self, context: Context, input: int) -> StepDecision:
        done: int = context.last_heartbeat_value(int) or 0
        context.heartbeat(done)
        await context.heartbeat(None)
        return (
            StepDecision.force_complete_if_channels_empty("done", StepMovement.of(MirrorStep, done), Channel("c", int))
            .with_canceling_steps(MirrorStep, MirrorStep())
            .with_canceling_sibling_steps(MirrorStep)
        )

    def get_step_options(self) -> StepOptions:
        return StepOptions(heartbeat_timeout=timedelta(seconds=5), execute_durability=StepDurability.ASYNC)


class LockingFlow(Flow[None]):
    """What locks, pending messages and skipped timers look like."""

    def get_steps(self) -> StepList[None]:
        return StepList.empty()

    @rpc(lock_attributes=[STATUS.lock(), SCORES.lock("a")], is_transactional=True, preload=[TAGS, SCORES])
    def tidy(self, context: Context) -> RPCResult[int]:
        for message in APPROVALS.pending(context):
            approved: bool = message.value
            APPROVALS.delete_message(context, message.message_id)
            print(approved)
        BY_USER.delete_message(context, "u", BY_USER.pending(context, "u")[0].message_id)
        return RPCResult.of(1).with_canceling_steps(MirrorStep)


def state_calls(client: Client, flow: LockingFlow) -> None:
    first: PendingMessage[bool] = client.list_channel_messages("id", APPROVALS)[0]
    client.delete_channel_message("id", APPROVALS, first.message_id)
    client.delete_channel_message("id", BY_USER, "u", "m", request_id="r")
    outcome: SkipTimerOutcome = client.skip_timer("id", StepExecutionId(MirrorStep), TimerId.by_condition_index(0))
    number: int = client.invoke_rpc(flow.tidy, "id")
    print(outcome, number)


class Parent(Step[int]):
    """Waits for children, and takes an hour at most."""

    def wait_for(self, context: Context, input: int) -> Wait:
        children = [SubFlow.run(Counting, input), SubFlow.run(Counting(), 2, SubFlowOptions(condition_id="second"))]
        return Wait.any_of(*children, SubFlow.run(LockingFlow, None), Timer.by_duration(3600.0))

    def execute(self, context: Context, input: int) -> StepDecision:
        result: FlowResult = SubFlow.get_condition_results(context, 1)
        flow_id: str = SubFlow.get_flow_id(context)
        return force_complete((flow_id, result.status.value))


class Counting(Flow[int]):
    """Ends in good order when its time is over."""

    def get_steps(self) -> StepList[int]:
        return StepList.start_step(Parent())

    def handle_timeout(self, context: Context) -> StepDecision:
        return go_to(Parent, 1)


async def later_calls(client: AsyncClient) -> None:
    config = FlowConfig(step_durability=StepDurability.ASYNC, record_rpc_io=True)
    options = StartFlowOptions(
        start_delay=timedelta(hours=1),
        timeout=60,
        timeout_policy=FlowTimeoutPolicy.HANDLER,
        retry_policy=RetryPolicy(maximum_attempts=2),
        config_override=config,
    )
    await client.start_flow(Counting, "id", 5, options)
    await client.update_flow_config("id", config)
    await client.wait_for_attribute_equal("id", STATUS, "paid", 5.0)
    score: int = await client.wait_for_attribute_match("id", SCORES, "a", AttributeMatch.greater_than(3))
    print(score)


async def scheduled_calls(client: AsyncClient) -> None:
    spec = ScheduleSpec("30 6 * * *", time_zone="Europe/Berlin", jitter=timedelta(minutes=1))
    policy = SchedulePolicy(OverlapPolicy.BUFFER_ONE, pause_on_failure=True)
    await client.schedules.create("s", spec, ScheduleAction(Counting, 5), policy)
    fires: list[datetime] = await client.schedules.preview("s", 3)
    occurrence: str = await client.schedules.trigger_now("s", OverlapPolicy.ALLOW_ALL)
    print(fires, occurrence, (await client.schedules.describe("s")).planned)
