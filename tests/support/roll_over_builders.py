"""What tests of roll-over share: runs of one chain, and how one is continued."""

from typing import Any

from dexd.core import commands as c
from dexd.core import events as e
from dexd.core.config import KernelConfig
from dexd.core.flow.decide_flow_retry import derived_run_id
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, RequestId, RunId, StepExecutionId
from dexd.core.values import FlowStatus
from tests.support.builders import FLOW, RUN, digest
from tests.support.given import Given
from tests.support.matchers import Like

RUN_2 = derived_run_id(f"{RUN}/continue")
RUN_3 = derived_run_id(f"{RUN_2}/continue")


def continued_as_new(next_run_id: str) -> e.FlowClosed:
    return e.FlowClosed(FlowStatus.CONTINUED_AS_NEW, next_run_id=RunId(next_run_id))


CONTINUED = Like(e.FlowContinued, previous_run_id=RUN, first_run_id=RUN)
ROLLED = (continued_as_new(RUN_2), Like(e.FlowStarted, run_id=RUN_2, flow_id=FLOW), CONTINUED)
"""Events of a roll-over of the first run."""


def small(events: int) -> KernelConfig:
    """Runs of few events."""
    return KernelConfig(rollover_events=events)


def roll(request_id: str = "roll", *, flow_id: str = FLOW, run_id: str | None = None) -> c.ContinueAsNew:
    run = None if run_id is None else RunId(run_id)
    return c.ContinueAsNew(FlowId(flow_id), run, RequestId(request_id), digest(request_id))


def latest(before: Given) -> RunState:
    run = before.kernel.run(FLOW)
    assert run is not None
    return run


def step(before: Given, step_id: str = "A-1") -> Any:
    """A Step execution of the latest run."""
    return latest(before).steps[StepExecutionId(step_id)]
