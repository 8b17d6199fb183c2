"""How a start says where its calls stand in queues [ROUTE-7, LIMIT-7.6]."""

import math

import pytest

from dexd.codec.faults import options_fault
from dexd.codec.standings import standing_fault, standing_of_proto
from dexd.core.values import Standing, StepOptions
from dexpb.v1 import flow_service_pb2 as pb


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        (pb.Standing(), None),
        (pb.Standing(priority=3, fairness_weight=1.0), None),
        (pb.Standing(priority=1), Standing(1)),
        (pb.Standing(fairness_key="acme"), Standing(3, "acme", 1_000)),
        (pb.Standing(priority=5, fairness_key="acme", fairness_weight=0.001), Standing(5, "acme", 1)),
        (pb.Standing(fairness_weight=1_000), Standing(3, "", 1_000_000)),
    ],
)
def test_standing_is_taken_in_whole_thousandths(sent: pb.Standing, taken: Standing | None) -> None:
    assert standing_fault(sent) is None
    assert standing_of_proto(sent) == taken


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (pb.Standing(priority=6), "priority is 6, allowed are 1 (first) to 5"),
        (pb.Standing(priority=-1), "priority is -1"),
        (pb.Standing(fairness_key="a\0b"), "fairness_key has the control"),
        (pb.Standing(fairness_key="x" * 256), "fairness_key has 256 characters"),
        (pb.Standing(fairness_weight=0.0001), "fairness_weight is 0.0001, allowed are 0.001 to 1000"),
        (pb.Standing(fairness_weight=1_001), "fairness_weight is 1001"),
        (pb.Standing(fairness_weight=-1), "fairness_weight is -1"),
        (pb.Standing(fairness_weight=math.inf), "fairness_weight is inf"),
        (pb.Standing(fairness_weight=math.nan), "fairness_weight is nan"),
    ],
)
def test_what_is_out_of_range_is_named_with_the_range(sent: pb.Standing, says: str) -> None:
    fault = standing_fault(sent)
    assert fault is not None
    assert says in fault


@pytest.mark.parametrize("priority", [0, 6])
def test_step_priority_out_of_range_is_named_with_the_range(priority: int) -> None:
    assert options_fault(StepOptions(priority=priority)) == f"priority is {priority}, allowed are 1 (first) to 5"
