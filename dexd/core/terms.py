"""What a start fixes for an execution beyond its input: timeout, delay, Flow retry, configuration [TIME-*, CFG-*].

A Flow started without any of it has no `FlowTerms` at all, so that it pays for none.
"""

from enum import IntEnum

import msgspec

from dexd.core.ids import FlowId, ScheduleId
from dexd.core.index_values import IndexWrite
from dexd.core.values import RetryPolicy, StepDurability, StepOptions, StepPlan


class FlowTimeoutPolicy(IntEnum):
    """What the end of a Flow's time does [TIME-2]."""

    DEFAULT = 0
    """HANDLER if the Flow's code has a handler, else FAIL. Who knows the code resolves it; here it means FAIL."""
    FAIL = 1
    CANCEL = 2
    HANDLER = 3


class ActiveStepSearchMode(IntEnum):
    """Which Steps the search field ActiveStepTypes shows [CFG-1]."""

    ALL = 0
    WITH_WAIT_FOR = 1
    DISABLED = 2


class FlowConfig(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Settings of one execution; None leaves the server's default at the time of use [CFG-1, CFG-3]."""

    active_step_search_mode: ActiveStepSearchMode | None = None
    continue_as_new_threshold: int | None = None
    step_durability: StepDurability | None = None
    record_rpc_io: bool | None = None

    def overridden_by(self, other: "FlowConfig") -> "FlowConfig":
        """The same with the fields that the other has set [CFG-2, SUB-3]."""
        fields = {name: value for name in other.__struct_fields__ if (value := getattr(other, name)) is not None}
        return msgspec.structs.replace(self, **fields) if fields else self


class FlowRetry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How a FAILED execution begins again, and with what [START-8]."""

    policy: RetryPolicy
    start_step: StepPlan | None
    attributes: tuple[tuple[str, bytes], ...] = ()
    """Initial Attributes."""
    indexed: tuple[IndexWrite, ...] = ()
    """Their index values."""


class Parent(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Which Flow began this one as a SubFlow [SUB-3]."""

    flow_id: FlowId
    depth: int
    """How many Flows stand above this one, from 1 [SUB-8]."""


class ScheduledBy(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Which fire of which schedule started the execution [SCHED-2]."""

    schedule_id: ScheduleId
    scheduled_at: int
    """Nominal instant of the occurrence [SCHED-10, CTX-1]."""


class FlowTerms(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The options of a start that go on to matter; all durations are milliseconds."""

    timeout_ms: int = 0
    """0 is off; counted from the moment the start Step is eligible [TIME-1]."""
    timeout_policy: FlowTimeoutPolicy = FlowTimeoutPolicy.DEFAULT
    timeout_handler_options: StepOptions | None = None
    start_delay_ms: int = 0
    """How long after its acceptance the start Step is eligible [START-7]."""
    retry: FlowRetry | None = None
    config: FlowConfig | None = None
    parent: Parent | None = None
    schedule: ScheduledBy | None = None

    @property
    def scheduled_at(self) -> int:
        """Nominal instant of the fire that started it; 0 if no schedule did."""
        return 0 if self.schedule is None else self.schedule.scheduled_at

    @property
    def depth(self) -> int:
        """How many Flows stand above this one."""
        return 0 if self.parent is None else self.parent.depth
