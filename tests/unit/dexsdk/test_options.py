"""Options that are valid once they exist [RETRY-1, RETRY-3, RETRY-5, STEP-8, ATTR-4, RES-1]."""

import math
from datetime import timedelta
from typing import Any

import pytest

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames
from dexsdk import (
    Attribute,
    AttributeMap,
    IdReusePolicy,
    PullWorkerOptions,
    RetryPolicy,
    StartFlowOptions,
    StepOptions,
    StopFlowOptions,
    StopType,
    TlsOptions,
    WaitForFailurePolicy,
)
from dexsdk._start_requests import to_standing
from dexsdk.options import qualified_error_name
from tests.unit.dexsdk.flows import CountStep

COUNT: Attribute[int] = Attribute("count", int)
COUNTS: AttributeMap[int] = AttributeMap("counts", int)


@pytest.mark.parametrize("priority", [0, 6, 2.0, True, "1"])
def test_limit_7_1_priority_is_a_whole_number_from_1_to_5(priority: Any) -> None:
    """[ROUTE-7]"""
    with pytest.raises(ValueError, match=r"priority is .*, an int from 1 \(first\) to 5 is needed"):
        StepOptions(priority=priority)
    with pytest.raises(ValueError, match="priority"):
        StartFlowOptions(priority=priority)


@pytest.mark.parametrize(
    "fields",
    [{"fairness_key": "a\0b"}, {"fairness_key": None}, {"fairness_weight": 0}, {"fairness_weight": 1_001}],
)
def test_limit_7_6_fairness_is_checked_when_the_options_are_made(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="fairness"):
        StartFlowOptions(**fields)


def test_only_a_start_that_differs_says_where_its_calls_stand() -> None:
    assert to_standing(StartFlowOptions()) is None
    chosen = StartFlowOptions(priority=1, fairness_key="acme", fairness_weight=2)
    assert to_standing(chosen) == pb.Standing(priority=1, fairness_key="acme", fairness_weight=2.0)


class ShopError(Exception):
    """Listed as not retryable."""


def test_retry_1_the_default_policy_leaves_the_cap_to_the_server() -> None:
    assert RetryPolicy().to_frame() == frames.RetryPolicy(1_000, 2.0, None, 0, None, 0.0)


def test_retry_3_a_policy_travels_in_milliseconds() -> None:
    policy = RetryPolicy(0.5, 1, timedelta(hours=1), 3, 60, 1)
    assert policy.to_frame() == frames.RetryPolicy(500, 1.0, 3_600_000, 3, 60_000, 1.0)


@pytest.mark.parametrize(
    "fields",
    [
        {"backoff_coefficient": 0.99},
        {"backoff_coefficient": math.nan},
        {"backoff_coefficient": math.inf},
        {"backoff_coefficient": "2"},
        {"initial_interval": 0},
        {"initial_interval": -1},
        {"initial_interval": 5, "maximum_interval": 4},
        {"maximum_attempts": -1},
        {"maximum_attempts": 1.5},
        {"maximum_attempts": True},
        {"maximum_attempts": 2**63},
        {"total_duration": math.inf},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": math.nan},
    ],
)
def test_retry_3_policies_out_of_range_are_value_errors_naming_the_field(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=list(fields)[-1]):
        RetryPolicy(**fields)


def test_retry_5_classes_are_listed_by_class_or_qualified_name() -> None:
    assert qualified_error_name(ShopError) == f"{__name__}.ShopError"
    assert qualified_error_name("shop.errors.SoldOut") == "shop.errors.SoldOut"
    assert qualified_error_name("ValueError") == qualified_error_name(ValueError) == "builtins.ValueError"


@pytest.mark.parametrize("errors", ["ValueError", ValueError, [5], ["SoldOut"], [""]])
def test_retry_5_what_names_no_class_is_refused(errors: Any) -> None:
    with pytest.raises(ValueError, match="non_retryable_errors"):
        StepOptions(non_retryable_errors=errors)


@pytest.mark.parametrize("field", ["wait_for_method_timeout", "execute_method_timeout"])
def test_timer_2_method_timeouts_are_durations(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        StepOptions(**{field: -1})  # type: ignore[arg-type] # mypy cannot see which field


def test_step_8_only_fields_that_are_set_override() -> None:
    own = StepOptions(
        execute_method_timeout=5, non_retryable_errors=[ShopError], wait_for_failure=WaitForFailurePolicy.PROCEED
    ).on_execute_failure_proceed_to(CountStep)
    assert own.overridden_by(StepOptions(execute_method_timeout=7)) == StepOptions(
        execute_method_timeout=7, non_retryable_errors=[ShopError], wait_for_failure=WaitForFailurePolicy.PROCEED
    ).on_execute_failure_proceed_to(CountStep)
    assert own.overridden_by(None) is own


def test_attr_4_with_attribute_returns_a_copy_with_one_more_initial_value() -> None:
    first = StartFlowOptions(request_id="r")
    second = first.with_attribute(COUNT, 1).with_attribute(COUNTS, "a/b", 2)
    assert first.initial_attributes == ()
    assert [(entry.key, entry.value) for entry in second.initial_attributes] == [("count", 1), ("counts\0a/b", 2)]
    assert second.request_id == "r"


def test_attr_4_a_map_needs_its_instance_and_an_attribute_has_none() -> None:
    with pytest.raises(ValueError, match="'counts' needs exactly one instance key"):
        StartFlowOptions().with_attribute(COUNTS, 2)  # type: ignore[call-overload] # the case
    with pytest.raises(ValueError, match="'count' is no map"):
        StartFlowOptions().with_attribute(COUNT, "a", 2)  # type: ignore[call-overload] # the case


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (StartFlowOptions, {"request_id": "a\0"}),
        (StartFlowOptions, {"id_reuse_policy": "DISALLOW"}),
        (StopFlowOptions, {"type": "CANCEL"}),
        (StopFlowOptions, {"request_id": ""}),
        (StopFlowOptions, {"reason": 5}),
        (StopFlowOptions, {"reason": "a\ud800"}),
        (PullWorkerOptions, {"max_concurrent_tasks": 0}),
        (PullWorkerOptions, {"idle_streams_per_queue": 0}),
        (PullWorkerOptions, {"reserved_rpc_tasks": -1}),
        (PullWorkerOptions, {"sessions": True}),
        (PullWorkerOptions, {"stop_drain_timeout": -1}),
        (PullWorkerOptions, {"app_worker_id": "a\n"}),
        (TlsOptions, {"cert_file": "cert.pem"}),
    ],
)
def test_gen_2_options_out_of_range_are_value_errors_naming_the_field(options: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        options(**fields)


def test_gen_2_options_take_the_enums_of_the_surface() -> None:
    assert StopFlowOptions(StopType.FAIL, "why").type is StopType.FAIL
    assert StartFlowOptions(id_reuse_policy=IdReusePolicy.DISALLOW).id_reuse_policy is IdReusePolicy.DISALLOW


@pytest.mark.parametrize(
    ("options", "cpu_count", "capacity"),
    [
        (PullWorkerOptions(), 8, (8, 1)),
        (PullWorkerOptions(), 1, (1, 0)),
        (PullWorkerOptions(max_concurrent_tasks=2), 8, (2, 1)),
        (PullWorkerOptions(max_concurrent_tasks=8, reserved_rpc_tasks=0), 1, (8, 0)),
    ],
)
def test_res_1_the_reserve_is_one_slot_of_two_or_more(
    options: PullWorkerOptions, cpu_count: int, capacity: tuple[int, int]
) -> None:
    assert options.resolved_capacity(cpu_count) == capacity


def test_res_1_the_reserve_stays_below_the_resolved_limit() -> None:
    with pytest.raises(ValueError, match="reserved_rpc_tasks is 2, it must be below the task limit of 2"):
        PullWorkerOptions(reserved_rpc_tasks=2).resolved_capacity(2)
