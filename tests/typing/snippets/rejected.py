"""What must not type-check: every line that ends in ``# error`` is one that mypy refuses, and no other is [TYPE-2]."""

from typing import Any

from dexsdk import (
    Attribute,
    AttributeMatch,
    AttributeMap,
    Channel,
    ChannelMap,
    Client,
    Context,
    Flow,
    RPCResult,
    ScheduleAction,
    StartFlowOptions,
    Step,
    StepDecision,
    StepList,
    StepMovement,
    StepOptions,
    StopFlowOptions,
    SubFlow,
    Timer,
    Wait,
    dead_end,
    force_complete_if_channels_empty,
    force_fail,
    go_to,
    go_to_many,
    rpc,
)

COUNT: Attribute[int] = Attribute("count", int)
SCORES: AttributeMap[int] = AttributeMap("scores", int)
NEWS: Channel[str] = Channel("news", str)
BY_USER: ChannelMap[str] = ChannelMap("by_user", str)
WRONG: Attribute[int] = Attribute("wrong", str)  # error


class Count(Step[int]):
    def execute(self, context: Context, input: int) -> StepDecision:
        return dead_end()


class Text(Step[str]):
    def wait_for(self, context: Context, input: int) -> Wait:  # error
        return Wait.skip_immediately()

    def execute(self, context: Context, input: str) -> StepDecision:
        return dead_end()


class Undecided(Step[int]):
    def execute(self, context: Context, input: int) -> Wait:  # error
        return Wait.skip_immediately()


class Unfinished(Step[int]):
    pass


class CountFlow(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(Text())  # error

    @rpc  # error
    def bare(self, context: Context) -> int:
        return 1

    @rpc
    def add(self, context: Context, input: int) -> RPCResult[int]:
        return RPCResult(input)

    @rpc
    def typed(self, context: Context) -> RPCResult[int]:
        return RPCResult("1")  # error


class StepsOnly(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.empty()  # error


def decisions(context: Context) -> None:
    go_to(Count, "1")  # error
    go_to(Count)  # error
    go_to(Count, None)  # error
    go_to(Count(), 1.5)  # error
    StepMovement.of(Text, 1)  # error
    go_to_many(go_to(Count, 1))  # error
    go_to(int, 1)  # error
    force_fail(5)  # error
    force_complete_if_channels_empty("done", StepMovement.of(Count, 1), BY_USER)  # error
    force_complete_if_channels_empty("done", go_to(Count, 1), NEWS)  # error
    go_to(Count, 1).with_canceling_steps(int)  # error
    go_to(Count, 1).with_canceling_sibling_steps("Count")  # error
    context.heartbeat(1).upper()  # error
    context.last_heartbeat_value(int).bit_length()  # error
    Unfinished()  # error


def definitions(context: Context) -> None:
    COUNT.set(context, "1")  # error
    COUNT.get(context, "instance")  # error
    COUNT.get(context, default="text")  # error
    SCORES.set(context, 1)  # error
    SCORES.set(context, "a", "1")  # error
    text: str = COUNT.get(context)  # error
    NEWS.publish(context, 1)  # error
    BY_USER.publish(context, "text")  # error
    numbers: list[int] = NEWS.results(context)  # error
    NEWS.for_n()  # error
    BY_USER.for_one()  # error
    Wait.any_of(NEWS)  # error
    Wait.until(COUNT)  # error
    Timer.by_duration("1 s")  # error
    print(text, numbers)


def invariance(attribute: Attribute[bool], channel: Channel[bool], step: Step[bool]) -> None:
    as_attribute: Attribute[int] = attribute  # error
    as_channel: Channel[int] = channel  # error
    as_step: Step[int] = step  # error
    anything: Step[Any] = step
    print(as_attribute, as_channel, as_step, anything)


def options(context: Context) -> None:
    StartFlowOptions().with_attribute(COUNT, "1")  # error
    StartFlowOptions().with_attribute(COUNT, "instance", 1)  # error
    StartFlowOptions().with_attribute(SCORES, 1)  # error
    StepOptions(execute_method_timeout="1 s")  # error
    StepOptions(heartbeat_timeout="1 s")  # error
    StepOptions(execute_durability="ASYNC")  # error
    StepOptions().on_execute_failure_proceed_to(int)  # error
    StopFlowOptions("CANCEL")  # error
    context.attempt = 2  # error
    context.get_step_execution_local("n", int).upper()  # error


def calls(client: Client, flow: CountFlow) -> None:
    client.start_flow(CountFlow, "id", "1")  # error
    client.start_flow(CountFlow, "id")  # error
    client.invoke_rpc(flow.add, "id", "1")  # error
    client.invoke_rpc(flow.add, "id")  # error
    client.invoke_rpc(flow.get_flow_type, "id")  # error
    text: str = client.invoke_rpc(flow.add, "id", 1)  # error
    client.set_attribute("id", COUNT, "1")  # error
    client.set_attribute("id", SCORES, 1)  # error
    client.publish("id", NEWS, 1)  # error
    client.publish("id", BY_USER, "u", 1)  # error
    client.wait_for_flow("id").single_output(int).upper()  # error
    print(text)


@rpc(lock_attributes=[COUNT])  # error
def locked(self: Any, context: Context) -> RPCResult[int]:
    return RPCResult.of(1)


def state_calls(client: Client, context: Context) -> None:
    COUNT.lock("a")  # error
    SCORES.lock()  # error
    NEWS.pending(context, "u")  # error
    BY_USER.delete_message(context, "m")  # error
    number: int = NEWS.pending(context)[0].value  # error
    client.list_channel_messages("id", BY_USER)  # error
    client.delete_channel_message("id", NEWS, 5)  # error
    client.skip_timer("id", "A-1", "x")  # error
    client.wait_for_attribute_equal("id", SCORES, 1)  # error
    client.wait_for_attribute_match("id", COUNT, 1)  # error
    client.wait_for_attribute_match("id", COUNT, AttributeMatch.equal(1)).upper()  # error
    client.update_flow_config("id", StepOptions())  # error
    print(number)


def sub_flows(context: Context) -> None:
    SubFlow.run(CountFlow, "1")  # error
    SubFlow.run(CountFlow)  # error
    SubFlow.run(Count, 1)  # error
    SubFlow.run(CountFlow, 1, StartFlowOptions())  # error
    Wait.all_of(CountFlow)  # error
    SubFlow.get_condition_results(context, "0")  # error
    StartFlowOptions(timeout_policy="FAIL")  # error
    StartFlowOptions(start_delay="1 s")  # error


def schedules(client: Client) -> None:
    ScheduleAction(CountFlow, "1")  # error
    ScheduleAction(CountFlow)  # error
    client.schedules.preview(5)  # error
    client.schedules.trigger_now("s", "SKIP")  # error
    client.schedules.describe("s").started.upper()  # error
