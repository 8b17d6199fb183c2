"""What a start says beyond its input, and settings of a Flow [START-7, START-8, TIME-2, TIME-3, CFG-1]."""

import math
from datetime import timedelta
from typing import Any

import pytest

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames
from dexsdk import (
    ActiveStepSearchMode,
    Context,
    Flow,
    FlowConfig,
    FlowDefinitionError,
    FlowTimeoutPolicy,
    Registry,
    RetryPolicy,
    StartFlowOptions,
    Step,
    StepDecision,
    StepDurability,
    StepList,
    StepOptions,
    dead_end,
    force_complete,
)
from dexsdk._handlers import find_async_handlers
from dexsdk._invoker import Invoker, PreparedCall
from dexsdk._start_options import to_start_options


class Mend(Step[None]):
    def execute(self, context: Context, input: None) -> StepDecision:
        return dead_end()


class Count(Step[int]):
    def execute(self, context: Context, input: int) -> StepDecision:
        return dead_end()


class Plain(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(Count()).other_steps(Mend())


class Graceful(Plain):
    def handle_timeout(self, context: Context) -> StepDecision:
        return force_complete(context.step_execution_id)


class Patient(Plain):
    async def handle_timeout(self, context: Context) -> StepDecision:
        return dead_end()


REGISTRY = Registry([Plain(), Graceful(), Patient()], allow_async_handlers=True)


def options_of(flow: type[Plain], **fields: Any) -> pb.StartOptions | None:
    return to_start_options(REGISTRY.resolve_flow(flow), StartFlowOptions(**fields))


def test_start_without_options_says_nothing() -> None:
    assert options_of(Plain) is None
    assert options_of(Plain, timeout=0, start_delay=timedelta(0)) is None


def test_every_option_travels() -> None:
    options = options_of(
        Plain,
        timeout=timedelta(minutes=1),
        start_delay=0.5,
        retry_policy=RetryPolicy(initial_interval=2, maximum_attempts=3),
        config_override=FlowConfig(step_durability=StepDurability.ASYNC, record_rpc_io=False),
    )
    assert options == pb.StartOptions(
        timeout_ms=60_000,
        timeout_policy=1,
        start_delay_ms=500,
        retry=pb.RetryPolicy(initial_interval_ms=2_000, backoff_coefficient=2.0, maximum_attempts=3),
        config=pb.FlowConfig(step_durability=1, record_rpc_io=False),
    )


@pytest.mark.parametrize(
    ("flow", "policy", "number"),
    [
        (Plain, FlowTimeoutPolicy.DEFAULT, 1),
        (Graceful, FlowTimeoutPolicy.DEFAULT, 3),
        (Graceful, FlowTimeoutPolicy.FAIL, 1),
        (Graceful, FlowTimeoutPolicy.HANDLER, 3),
        (Plain, FlowTimeoutPolicy.CANCEL, 2),
    ],
)
def test_time_2_default_is_the_handler_if_there_is_one(
    flow: type[Plain], policy: FlowTimeoutPolicy, number: int
) -> None:
    options = options_of(flow, timeout=1, timeout_policy=policy)
    assert options is not None
    assert options.timeout_policy == number


def test_time_2_handler_without_a_handler_is_rejected_before_the_start() -> None:
    with pytest.raises(FlowDefinitionError, match="does not override handle_timeout"):
        options_of(Plain, timeout=1, timeout_policy=FlowTimeoutPolicy.HANDLER)
    with pytest.raises(FlowDefinitionError, match="does not override handle_timeout"):
        options_of(Plain, timeout=1, timeout_handler_options=StepOptions())


@pytest.mark.parametrize(
    "fields",
    [
        {"timeout_policy": FlowTimeoutPolicy.FAIL},
        {"timeout": 0, "timeout_policy": FlowTimeoutPolicy.CANCEL},
        {"timeout": -1},
        {"timeout": math.inf},
        {"timeout": timedelta(days=36_526)},
        {"timeout_policy": "FAIL"},
        {"start_delay": math.nan},
        {"retry_policy": RetryPolicy(total_duration=1)},
    ],
)
def test_gen_2_illegal_options_are_rejected_at_once(fields: dict[str, Any]) -> None:
    """[TIME-2, START-8, TIMER-2]"""
    with pytest.raises(ValueError, match=r"timeout|start_delay|total_duration"):
        StartFlowOptions(**fields)


def test_time_3_recovery_step_of_the_handler_takes_none() -> None:
    fits = options_of(Graceful, timeout=1, timeout_handler_options=StepOptions().on_execute_failure_proceed_to(Mend))
    assert fits is not None
    assert fits.timeout_handler_options.recovery.step_type == "Mend"
    with pytest.raises(FlowDefinitionError, match="takes int"):
        options_of(Graceful, timeout=1, timeout_handler_options=StepOptions().on_execute_failure_proceed_to(Count))


def test_time_3_worker_announces_the_handler_that_a_flow_overrides() -> None:
    """[WIRE-4]"""
    announced = {flow.flow_type: flow.descriptor().step_types for flow in REGISTRY.flows}
    assert announced["Plain"] == ("Count", "Mend")
    assert announced["Graceful"] == ("Count", "Mend", frames.TIMEOUT_HANDLER)
    assert find_async_handlers(REGISTRY) == {("Patient", frames.TIMEOUT_HANDLER, frames.METHOD_EXECUTE)}


def call(flow_type: str) -> frames.Assign:
    token = frames.Token("r", "sys:timeout_handler-1", frames.METHOD_EXECUTE, 1, 1)
    return frames.Assign(1, token, "f", flow_type, frames.TIMEOUT_HANDLER, b"", 1, 0, 0, 0)


def test_time_3_handler_runs_with_the_context_alone_and_its_decision_travels() -> None:
    """[ID-12]"""
    prepared = Invoker(REGISTRY).prepare(call("Graceful"))
    assert isinstance(prepared, PreparedCall)
    response = prepared.run()
    assert isinstance(response, frames.Output)
    assert response.decision is not None
    assert response.decision.output == b'"sys:timeout_handler-1"'


def test_time_3_flow_without_handler_declines_it() -> None:
    """[ROUTE-5]"""
    declined = Invoker(REGISTRY).prepare(call("Plain"))
    assert isinstance(declined, frames.Decline)
    assert declined.reason == frames.DECLINE_UNKNOWN_STEP


class TakesInput(Plain):
    def handle_timeout(self, context: Context, input: int) -> StepDecision:  # type: ignore[override]  # the fault
        return dead_end()


def test_reg_1_handler_with_another_signature_is_a_definition_error() -> None:
    with pytest.raises(FlowDefinitionError, match="handle_timeout: takes the context and nothing else"):
        Registry([TakesInput()])
    with pytest.raises(FlowDefinitionError, match="handle_timeout: it is a coroutine"):
        Registry([Patient()])


async def test_flow_without_handler_has_none_to_call() -> None:
    with pytest.raises(NotImplementedError, match="Plain does not override"):
        Plain().handle_timeout(None)  # type: ignore[arg-type]  # nobody looks at it


@pytest.mark.parametrize(
    "fields",
    [
        {"active_step_search_mode": "ALL"},
        {"continue_as_new_threshold": -1},
        {"continue_as_new_threshold": True},
        {"continue_as_new_threshold": 1.0},
        {"step_durability": 1},
        {"record_rpc_io": "yes"},
    ],
)
def test_cfg_1_settings_are_checked(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        FlowConfig(**fields)


def test_cfg_1_unset_fields_stay_unset() -> None:
    assert FlowConfig().is_empty
    assert FlowConfig().to_message() == pb.FlowConfig()
    every = FlowConfig(ActiveStepSearchMode.ALL, 0, StepDurability.SYNC, True)
    assert every.to_message() == pb.FlowConfig(
        active_step_search_mode=0, continue_as_new_threshold=0, step_durability=0, record_rpc_io=True
    )
