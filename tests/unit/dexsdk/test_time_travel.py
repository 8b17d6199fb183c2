"""Options of a time travel [TT-3]."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dexsdk import StepExecutionId, TimeTravelOptions, TimeTravelStepMethod, TimeTravelType

AT = datetime(2026, 1, 1, tzinfo=UTC)
STEP = StepExecutionId("A")
METHOD = TimeTravelStepMethod.EXECUTE


@pytest.mark.parametrize(
    "fields",
    [
        {"type": TimeTravelType.BEGINNING},
        {"type": TimeTravelType.HISTORY_EVENT_TIME, "history_event_time": AT},
        {"type": TimeTravelType.STEP_TYPE, "step_type": "A"},
        {"type": TimeTravelType.STEP_EXECUTION_ID, "step_execution_id": STEP, "step_method": METHOD},
        {"type": TimeTravelType.BEGINNING, "reason": "why", "skip_writes_reapply": True, "request_id": "r"},
    ],
)
def test_tt_2_each_selector_may_be_given(fields: dict[str, Any]) -> None:
    options = TimeTravelOptions(**fields)
    assert all(getattr(options, name) == value for name, value in fields.items())


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"type": "BEGINNING"}, "TimeTravelType"),
        ({"type": TimeTravelType.BEGINNING, "step_type": "A"}, "step_type"),
        ({"type": TimeTravelType.HISTORY_EVENT_TIME}, "history_event_time"),
        ({"type": TimeTravelType.HISTORY_EVENT_TIME, "history_event_time": datetime(2026, 1, 1)}, "naive"),  # noqa: DTZ001
        ({"type": TimeTravelType.HISTORY_EVENT_TIME, "history_event_time": AT, "step_method": METHOD}, "step_method"),
        ({"type": TimeTravelType.STEP_TYPE}, "step_type"),
        ({"type": TimeTravelType.STEP_TYPE, "step_type": ""}, "Step type"),
        ({"type": TimeTravelType.STEP_EXECUTION_ID, "step_execution_id": STEP}, "step_method"),
        ({"type": TimeTravelType.STEP_EXECUTION_ID, "step_method": METHOD}, "step_execution_id"),
        (
            {"type": TimeTravelType.STEP_EXECUTION_ID, "step_execution_id": "A-1", "step_method": METHOD},
            "step_execution_id",
        ),
        (
            {"type": TimeTravelType.STEP_EXECUTION_ID, "step_execution_id": STEP, "step_method": "EXECUTE"},
            "step_method",
        ),
        ({"type": TimeTravelType.BEGINNING, "skip_writes_reapply": 1}, "skip_writes_reapply"),
        ({"type": TimeTravelType.BEGINNING, "request_id": ""}, "request_id"),
        ({"type": TimeTravelType.BEGINNING, "reason": 5}, "reason"),
        ({"type": TimeTravelType.BEGINNING, "reason": "a\ud800"}, "reason"),
    ],
)
def test_tt_3_anything_but_the_selector_of_the_type_is_a_value_error(fields: dict[str, Any], named: str) -> None:
    """Raised where the options are made, before anything is sent [GEN-2]."""
    with pytest.raises(ValueError, match=named):
        TimeTravelOptions(**fields)
