"""Time travel as clients ask for it [TT-2, TT-3]."""

from typing import Any

import pytest

from dexd.codec.flow_requests import REASON_LENGTH_MAX, Minted
from dexd.codec.time_travel_requests import TimeTravelQuery, to_time_travel
from dexd.core.forks.selectors import Selector, TimeTravelType
from dexd.core.ids import RequestId, RunId, StepExecutionId
from dexd.core.rejections import Code, Rejection
from dexd.core.values import Method
from dexpb.v1 import flow_service_pb2 as pb

MINTED = Minted(RunId("minted-run"), 42, RequestId("minted-request"))


def read(**fields: Any) -> TimeTravelQuery | Rejection:
    return to_time_travel(pb.TimeTravelRequest(**{"flow_id": "f", **fields}), MINTED)


def query(**fields: Any) -> TimeTravelQuery:
    found = read(**fields)
    assert isinstance(found, TimeTravelQuery), found
    return found


@pytest.mark.parametrize(
    ("fields", "selector"),
    [
        ({}, Selector(TimeTravelType.BEGINNING)),
        ({"type": 1, "history_event_time": 0}, Selector(TimeTravelType.HISTORY_EVENT_TIME)),
        ({"type": 1, "history_event_time": 9}, Selector(TimeTravelType.HISTORY_EVENT_TIME, at=9)),
        ({"type": 2, "step_type": "A"}, Selector(TimeTravelType.STEP_TYPE, step_type="A")),
        (
            {"type": 3, "step_execution_id": "A-1", "step_method": 1},
            Selector(
                TimeTravelType.STEP_EXECUTION_ID, step_execution_id=StepExecutionId("A-1"), method=Method.WAIT_FOR
            ),
        ),
        (
            {"type": 3, "step_execution_id": "A-1", "step_method": 2},
            Selector(TimeTravelType.STEP_EXECUTION_ID, step_execution_id=StepExecutionId("A-1"), method=Method.EXECUTE),
        ),
    ],
)
def test_tt_2_each_selector_is_read(fields: dict[str, Any], selector: Selector) -> None:
    assert query(**fields).selector == selector


def test_tt_5_what_becomes_of_writes_and_the_reason_are_read() -> None:
    """IDs are minted where the caller gave none; the content decides whether a repeat is one [RPC-12]."""
    plain = query()
    assert (plain.new_run_id, plain.request_id) == (MINTED.run_id, MINTED.request_id)
    asked = query(skip_writes_reapply=True, reason="why", request_id="mine")
    assert (asked.is_dropping_writes, asked.reason, asked.request_id) == (True, "why", "mine")
    assert len({plain.digest, asked.digest, query(reason="why").digest}) == 3


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"type": 4}, "type"),
        ({"type": 0, "history_event_time": 1}, "history_event_time"),
        ({"type": 1}, "history_event_time"),
        ({"type": 1, "history_event_time": 1, "step_type": "A"}, "step_type"),
        ({"type": 2}, "step_type"),
        ({"type": 2, "step_type": ""}, "step_type"),
        ({"type": 3, "step_execution_id": "A-1"}, "step_method"),
        ({"type": 3, "step_method": 1}, "step_execution_id"),
        ({"type": 3, "step_execution_id": "A-1", "step_method": 3}, "step_method"),
        ({"flow_id": ""}, "flow_id"),
        ({"reason": "x" * (REASON_LENGTH_MAX + 1)}, "reason"),
        ({"request_id": "a\0"}, "request_id"),
    ],
)
def test_tt_3_exactly_the_selector_of_the_type_must_be_given(fields: dict[str, Any], field: str) -> None:
    """Anything else is refused, naming the field [GEN-2]."""
    refused = read(**fields)
    assert isinstance(refused, Rejection)
    assert (refused.code, refused.fields) == (Code.INVALID_ARGUMENT, {"field": field})


def test_tt_3_text_that_is_no_step_execution_is_refused() -> None:
    refused = read(type=3, step_execution_id="A", step_method=1)
    assert isinstance(refused, Rejection)
    assert refused.code is Code.STEP_NOT_FOUND
