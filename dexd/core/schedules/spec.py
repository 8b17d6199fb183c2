"""What a schedule is made of: when it fires, what it starts, and how starts stand to each other [SCHED-3, SCHED-11].

Instants and durations are milliseconds; whoever takes them from a client has checked them.
"""

from enum import IntEnum

import msgspec

from dexd.core.ids import FlowId
from dexd.core.index_values import IndexWrite
from dexd.core.terms import FlowTerms
from dexd.core.values import Standing, StepPlan


class GapPolicy(IntEnum):
    """What becomes of a reading that a clock change leaves out [SCHED-8]."""

    SHIFT = 0
    """It fires with the offset before the change."""
    SKIP = 1
    """It is no planned fire."""


class FoldPolicy(IntEnum):
    """Which pass counts for a reading that a clock change repeats [SCHED-8]."""

    FIRST = 0
    LAST = 1
    BOTH = 2


class OverlapPolicy(IntEnum):
    """What a fire does while an execution of the schedule is still open [SCHED-11]."""

    SKIP = 0
    BUFFER_ONE = 1
    """The first one waits until the others have ended; later ones are skipped."""
    BUFFER_ALL = 2
    """Up to 1,000 wait."""
    CANCEL_OTHER = 3
    """Open ones are canceled, then it starts."""
    TERMINATE_OTHER = 4
    ALLOW_ALL = 5


class ScheduleSpec(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """When a schedule fires: cron text or an interval, never both [SCHED-3]."""

    cron: str = ""
    interval_ms: int = 0
    time_zone: str = "UTC"
    start_at: int | None = None
    """Fires lie after it; an interval counts from it, else from the epoch."""
    end_at: int | None = None
    """The last instant at which a fire may lie."""
    jitter_ms: int = 0
    """A fire is late by up to this [SCHED-10]."""
    gap_policy: GapPolicy = GapPolicy.SHIFT
    fold_policy: FoldPolicy = FoldPolicy.FIRST


class ScheduleAction(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What every fire starts [SCHED-2]."""

    flow_type: str
    start_step: StepPlan | None
    digest: bytes
    """Hash of Flow type, input and initial Attributes [START-3]."""
    attributes: tuple[tuple[str, bytes], ...] = ()
    standing: Standing | None = None
    terms: FlowTerms | None = None
    flow_id: FlowId | None = None
    """The Flow ID of all executions; None: each has its occurrence ID."""
    indexed: tuple[IndexWrite, ...] = ()
    """Index values of the initial Attributes."""


class SchedulePolicy(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How fires stand to open executions and to downtime [SCHED-11, SCHED-13, SCHED-15]."""

    overlap: OverlapPolicy = OverlapPolicy.SKIP
    catch_up_window_ms: int = 3_600_000
    pause_on_failure: bool = False
