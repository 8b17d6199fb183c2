"""Events of time travel; they are events of runs like all in `dexd.core.events` [TT-1]."""

import msgspec

from dexd.core.ids import RunId
from dexd.core.values import RequestRecord


class FlowForked(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The run goes on from an earlier point of its execution; second event of its run [TT-1].

    External writes of the time after the point follow as events of this run [TT-5].
    """

    from_run_id: RunId
    """The run that the point lies in."""
    from_event_id: int
    """Last event of it that is kept."""
    previous_run_id: RunId
    """The execution's newest run before this one."""
    first_run_id: RunId
    message_base: int
    """Where the numbering of messages goes on, so that their IDs stay unique and in order [ID-13]."""
    carried: bytes
    """State at the point, fit for another run; see `dexd.core.flow.carrying`."""
    request: RequestRecord
    requests: tuple[tuple[RequestRecord, int], ...] = ()
    """Requests of the execution that are remembered, oldest first, and when each was applied [RPC-12]."""
    reason: str = ""
    is_dropping_writes: bool = False
    """External writes after the point are not applied again."""
    reapplied: int = 0
    """How many of the next events belong to the fork: overdue Timers, and external writes that are applied again."""


class FlowReopened(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The execution of this closed run goes on in another one; how the run ended stays true [TT-1]."""

    next_run_id: RunId
    reason: str = ""
