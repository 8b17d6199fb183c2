"""Schedules as users write them: what is refused before anything is sent [SCHED-3, GEN-2], and the blocking client."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dexsdk import (
    Context,
    Flow,
    FlowDefinitionError,
    IdReusePolicy,
    OverlapPolicy,
    RetryPolicy,
    ScheduleAction,
    SchedulePolicy,
    ScheduleSpec,
    StartFlowOptions,
    Step,
    StepDecision,
    StepList,
    graceful_complete,
)
from dexsdk.testing import start_env_sync

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class AddStep(Step[int]):
    def execute(self, context: Context, input: int) -> StepDecision:
        return graceful_complete(input + 1)


class Add(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(AddStep())


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "exactly one"),
        ({"cron": "* * * * *", "interval": 5}, "exactly one"),
        ({"interval": -1}, "interval"),
        ({"interval": float("nan")}, "interval"),
        ({"cron": "* * * * *", "jitter": -1}, "jitter"),
        ({"cron": "* * * * *", "start_at": NOON.replace(tzinfo=None)}, "start_at"),
        ({"cron": "* * * * *", "end_at": NOON.replace(tzinfo=None)}, "end_at"),
    ],
)
def test_sched_3_spec_that_makes_no_sense_is_a_value_error(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        ScheduleSpec(**fields)


@pytest.mark.parametrize(
    "options", [StartFlowOptions(request_id="mine"), StartFlowOptions(id_reuse_policy=IdReusePolicy.DISALLOW)]
)
def test_sched_2_action_has_neither_request_id_nor_reuse_policy(options: StartFlowOptions) -> None:
    with pytest.raises(ValueError, match="neither"):
        ScheduleAction(Add, 1, options)


def test_sched_2_flow_id_of_an_action_is_a_flow_id() -> None:
    with pytest.raises(ValueError, match="sys:"):
        ScheduleAction(Add, 1, flow_id="sys:mine")
    with pytest.raises(ValueError, match="catch_up_window"):
        SchedulePolicy(catch_up_window=timedelta(seconds=-1))


def test_sched_1_blocking_client_drives_schedules() -> None:
    """[TYPE-2] And what does not fit the Flow is refused before anything is sent."""
    with start_env_sync(Add(), start_at=NOON) as env:
        schedules = env.client.schedules
        wrong: Any = "text"
        with pytest.raises(FlowDefinitionError):
            schedules.create("add", ScheduleSpec(interval=60), ScheduleAction(Add, wrong))
        options = StartFlowOptions(timeout=30, retry_policy=RetryPolicy(maximum_attempts=2), priority=2)
        action = ScheduleAction(Add, 41, options)
        schedules.create("add", ScheduleSpec(interval=60), action, SchedulePolicy(OverlapPolicy.ALLOW_ALL))
        env.advance(timedelta(minutes=2))
        [first, second] = schedules.outcomes("add").outcomes
        assert (first.first, second.first) == (NOON + timedelta(minutes=1), NOON + timedelta(minutes=2))
        assert first.flow_id is not None
        assert env.client.wait_for_flow(first.flow_id).single_output(int) == 42
        assert env.client.get_flow_state(first.flow_id).schedule_id == "add"
        info = schedules.describe("add")
        assert (info.input, info.spec.interval, info.next_fire_at) == (41, 60, NOON + timedelta(minutes=3))
        assert [info.schedule_id for info in schedules.list().schedules] == ["add"]
        schedules.delete("add")
        assert schedules.list().schedules == ()
