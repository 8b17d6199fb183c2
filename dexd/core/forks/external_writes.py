"""What came from outside after a point, to be applied again [TT-5].

External writes are RPC effects with the Steps that they scheduled or canceled, publications, Attribute writes and
deletions of messages. Settings and skipped timers are none: the state at the point has those of its time.
"""

from collections.abc import Sequence

import msgspec

from dexd.core import events as e
from dexd.core.forks.plan import ExternalWrite
from dexd.core.forks.search import is_opening
from dexd.core.ids import RunId
from dexd.core.outcome import RecordedEvent

RPC_SOURCE = "sys:rpc:"
_FORK_EVENTS = 2
"""FlowStarted and FlowForked."""


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Where a run took over from."""

    run_id: RunId
    version: int | None
    """The last event that it has in common with that run; None for all."""


class RunWrites:
    """Collects the external writes of one run after a version, event by event."""

    def __init__(self, run_id: RunId, *, after: int = 0) -> None:
        self.run_id = run_id
        self.origin: Origin | None = None
        self.writes: list[ExternalWrite] = []
        self._after = after
        self._copies_until = 0
        """Last event that the run has only because it was forked."""
        self._deletions: list[e.ChannelMessageDeleted] = []
        """Of an RPC whose completion comes next."""
        self._source = ""
        """Of the newest RPC."""

    def look_at(self, recorded: RecordedEvent) -> None:
        """See the next event of the run; it must see all from the first on."""
        event, version = recorded.event, recorded.version
        if is_opening(recorded):
            self._note_origin(event)
        elif version > self._after:
            self._note(event, version)

    def genuine(self) -> list[ExternalWrite]:
        """Those that came to this run from outside, and not from an earlier one."""
        return [write for write in self.writes if write.version > self._copies_until]

    def _note_origin(self, event: e.Event) -> None:
        match event:
            case e.FlowForked():
                self.origin = Origin(event.from_run_id, event.from_event_id)
                self._copies_until = _FORK_EVENTS + event.reapplied
            case e.FlowContinued() | e.FlowRetried():
                self.origin = Origin(event.previous_run_id, None)
            case _:
                pass

    def _note(self, event: e.Event, version: int) -> None:
        match event:
            case e.ChannelPublished() | e.AttributesSet():
                self.writes.append(ExternalWrite(version, event.request, (event,)))
            case e.ChannelMessageDeleted() if event.request is not None:
                self.writes.append(ExternalWrite(version, event.request, (event,)))
            case e.ChannelMessageDeleted() if event.by.startswith(RPC_SOURCE):
                self._deletions.append(event)
            case e.RpcCompleted():
                self.writes.append(ExternalWrite(version, event.request, (*self._deletions, event)))
                self._deletions.clear()
                self._source = f"{RPC_SOURCE}{event.name}#{event.number}"
            case e.StepCanceled() if event.by and event.by == self._source:
                self.writes[-1].events = (*self.writes[-1].events, event)
            case e.StepScheduled() if event.from_step and event.from_step == self._source:
                self.writes[-1].events = (*self.writes[-1].events, event)
            case _:
                pass


def writes_after(version: int, runs: Sequence[RunWrites]) -> list[ExternalWrite]:
    """Choose the writes to apply again, in their old order and each once.

    They are those on the way from the point to the present: where a run was forked, only what came before the fork,
    because the fork has the rest again or has dropped it. A point that lies beside that way, in what an earlier time
    travel left behind, takes what came after it in its run, and what came to any newer run from outside.

    Args:
        version: Last event before the point, in the first of the runs.
        runs: The run of the point and all newer ones of the execution, oldest first.
    """
    by_id = {run.run_id: run for run in runs}
    way: list[tuple[RunWrites, int | None]] = [(runs[-1], None)]
    while way[-1][0] is not runs[0]:
        origin = way[-1][0].origin
        run = None if origin is None else by_id.get(origin.run_id)
        if origin is None or run is None:
            break
        way.append((run, origin.version))
    last, until = way[-1]
    if last is not runs[0] or (until is not None and version > until):
        return [*runs[0].writes, *(write for run in runs[1:] for write in run.genuine())]
    return [write for run, until in reversed(way) for write in run.writes if until is None or write.version <= until]
