"""What the log keeps of parked runs beside their snapshots: when they wake up, and for whom they wait.

A parked run is open, and its snapshot is of its last event, so that it can be taken in without reading any [ARCH-11].
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class ChildWait(msgspec.Struct, frozen=True, gc=False):
    """A child whose end a parked run waits for."""

    stream_id: int
    """Stream of the run that waits."""
    run_id: str
    step_execution_id: str
    number: int
    """Position among the children of the Wait."""
    child_flow_id: str
    execution_id: str
    """Which execution of the child's Flow ID."""


class ParkingRow(msgspec.Struct, frozen=True, gc=False):
    """Projection of one run: whether it is parked, and what follows from that [ARCH-10]."""

    stream_id: int
    is_parked: bool
    """Written as true with a snapshot of the run's last event, and as false with the first event after it."""
    wakes_at: int = 0
    """When a parked run wakes up by itself, 0 for never."""
    waits: Sequence[ChildWait] = ()


class ParkedCounts(msgspec.Struct, frozen=True, gc=False):
    """How much is parked."""

    runs: int
    waits: int


class ParkedDeadline(msgspec.Struct, frozen=True, gc=False, order=True):
    """A parked run and when it wakes up; ordered by that, and by the age of the run."""

    at: int
    stream_id: int


class ParkedRuns(Protocol):
    """The part of a log that is about parked runs."""

    def parked_counts(self) -> ParkedCounts:
        """Count them; reads an index, not the runs."""
        ...

    def parked_deadlines(self, after: ParkedDeadline, limit: int) -> Sequence[ParkedDeadline]:
        """Parked runs that wake up by themselves, in order, from behind a place on."""
        ...

    def parking_of(self, stream_id: int) -> ParkingRow:
        """The row of one run; of one that the log does not know, as of one that is not parked."""
        ...

    def waits_for(self, child_flow_ids: Sequence[str]) -> Sequence[ChildWait]:
        """Who, of the parked runs, waits for executions of these Flow IDs."""
        ...
