"""A kernel with Flows and batch jobs, and the shell's part of it: commands that are owed come back, time passes."""

from collections import deque
from collections.abc import Iterable

import msgspec

from dexd.core import commands as c
from dexd.core.config import KernelConfig
from dexd.core.effects import SubmitCommand, TravelTarget
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, JobId, RequestId
from dexd.core.jobs import commands as jc
from dexd.core.jobs.events import JobEvent, JobKind, Operation, Target
from dexd.core.jobs.invariants import job_violations
from dexd.core.jobs.state import JobState
from dexd.core.kernel import Kernel
from dexd.core.outcome import Outcome, RecordedEvent, RecordedStreamEvent
from dexd.core.streams import StreamState, evolve_stream
from dexd.core.values import StopType
from tests.support.builders import T0, start

JOB = JobId("job-1")
STOP = Operation(JobKind.STOP, b"stop")
PUBLISH = Operation(JobKind.PUBLISH, b"publish")


class JobStage:
    """Runs commands; what they owe each other is carried out at once, unless it is `held`."""

    def __init__(self, *flow_ids: str) -> None:
        self.now = T0
        self.unmatched: set[str] = set()
        """Flows that the query does not find any more."""
        self.held: deque[c.Command] | None = None
        """Commands that are owed, while they are held back."""
        self.events: list[RecordedEvent] = []
        self.stream_events: list[RecordedStreamEvent] = []
        self.reached: list[tuple[int, str]] = []
        """When each target was reached for."""
        self.travels: list[jc.ReachTarget] = []
        """Targets that the shell is to take back in time."""
        self.kernel = Kernel(KernelConfig(), last_stream_id=0)
        self.do(c.BeginServing())
        for flow_id in flow_ids:
            self.do(start(flow_id, f"run-{flow_id}"))

    def do(self, command: c.Command) -> Outcome:
        """Handle a command, and everything that it leads to without time."""
        outcome = self._handle(command)
        if self.held is None:
            owed = deque(_owed(outcome))
            while owed:
                owed.extend(_owed(self._handle(owed.popleft())))
        else:
            self.held.extend(_owed(outcome))
        return outcome

    def pass_time(self, until: int) -> None:
        """Tick at every deadline on the way."""
        while (due := self.kernel.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.do(c.Tick())
        self.now = until

    def crash(self) -> None:
        """Come back from the log; what was owed and held is gone."""
        runs: dict[int, RunState] = {}
        streams: dict[int, StreamState] = {}
        for recorded in self.events:
            runs[recorded.stream_id] = evolve(runs.get(recorded.stream_id), recorded)
        for event in self.stream_events:
            streams[event.stream_id] = evolve_stream(streams.get(event.stream_id), event)
        self.kernel = Kernel(KernelConfig(), last_stream_id=len(runs) + len(streams))
        for run in runs.values():
            self.kernel.adopt(run)
        for state in streams.values():
            self.kernel.adopt_stream(state)
        self.held = None
        self.do(c.BeginServing())

    def _handle(self, command: c.Command) -> Outcome:
        if isinstance(command, jc.ReachTarget):
            assert self.kernel.wanted(command) is command
            self.reached.append((self.now, command.flow_id))
            command = msgspec.structs.replace(
                command, call=_call_of(command), is_matching=command.flow_id not in self.unmatched
            )
        outcome = self.kernel.handle(command, now=self.now)
        self.events += outcome.events
        self.stream_events += outcome.stream_events
        self.travels += [effect.reach for effect in outcome.effects if isinstance(effect, TravelTarget)]
        faults = job_violations(self.kernel.jobs, self.kernel.dispatcher.deadlines)
        assert not faults, f"after {command}: {faults}"
        return outcome

    @property
    def job(self) -> JobState:
        job = self.kernel.jobs.get(JOB)
        assert job is not None
        return job

    @property
    def job_events(self) -> list[JobEvent]:
        return [recorded.event for recorded in self.stream_events]  # type: ignore[misc]  # jobs are the only streams here

    def run(self, flow_id: str) -> RunState:
        run = self.kernel.run(FlowId(flow_id))
        assert run is not None
        return run


def _owed(outcome: Outcome) -> Iterable[c.Command]:
    return [effect.command for effect in outcome.effects if isinstance(effect, SubmitCommand)]


def _call_of(reach: jc.ReachTarget) -> c.ClientCommand | None:
    if reach.operation.kind is JobKind.TIME_TRAVEL:
        return None
    if reach.operation.kind is JobKind.PUBLISH:
        return c.PublishMessages(reach.flow_id, None, "c", (b"1",), reach.request_id, b"d")
    return c.StopFlow(reach.flow_id, None, StopType.CANCEL, "", reach.request_id, b"d")


def create_job(
    *flow_ids: str, operation: Operation = STOP, rate: float = 50.0, request_id: str = "r", digest: bytes = b"d"
) -> jc.CreateJob:
    """A job over the first executions of these Flows."""
    targets = tuple(Target(FlowId(flow_id), 1) for flow_id in flow_ids)
    return jc.CreateJob(JOB, "Status = 'RUNNING'", operation, rate, targets, RequestId(request_id), digest)
