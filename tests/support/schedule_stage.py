"""A kernel with schedules whose fires, starts and ends are in the test's hands.

Fires of intervals are computed here, naively; what schedules and executions owe each other is handed over at once or
when the test says so; executions end when it says so.
"""

from collections import deque
from typing import Any

from dexd.core import commands as c
from dexd.core.config import KernelConfig
from dexd.core.effects import SubmitCommand
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, RequestId, ScheduleId
from dexd.core.kernel import Kernel
from dexd.core.outcome import Outcome, RecordedEvent, RecordedStreamEvent
from dexd.core.rejections import Code, Rejection
from dexd.core.schedules import commands as sc
from dexd.core.schedules import events as e
from dexd.core.schedules.clockwork import window_ms
from dexd.core.schedules.evolve import evolve_schedule
from dexd.core.schedules.invariants import schedule_violations
from dexd.core.schedules.occurrences import NO_FIRES, Fire, FireCount, due_at, occurrence_id
from dexd.core.schedules.spec import OverlapPolicy, SchedulePolicy
from dexd.core.schedules.state import ScheduleState, ScheduleStatus
from dexd.core.values import StopType
from tests.support.schedule_builders import SCHEDULE, create_schedule

T0 = 1_700_000_000_000 - 1_700_000_000_000 % 60_000
"""A full minute."""
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
FOLDED_MAX = 200
"""Events up to which live state is compared with the fold of all of them after every command."""
DUE_MAX = 1_001
AHEAD = 3


class Stage:
    """A kernel, everything that it decided, and the world around it."""

    def __init__(self, *, is_prompt: bool = True, now: int = T0) -> None:
        """`is_prompt` hands over what is owed at once."""
        self.now = now
        self.is_prompt = is_prompt
        self.kernel = Kernel(KernelConfig(), last_stream_id=0)
        self.log: list[RecordedEvent | RecordedStreamEvent] = []
        self.owed: deque[c.Command] = deque()
        self.handle(c.BeginServing())

    # ---- what a test does ----

    def do(self, command: c.Command) -> Any:
        """A client's command, and what follows; gives the reply."""
        outcome = self.handle(command)
        self.settle()
        return outcome.reply

    def advance(self, milliseconds: int) -> None:
        """Let time pass, deadline by deadline."""
        end = self.now + milliseconds
        while (due := self.kernel.next_deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self.do(c.Tick())
        self.now = end
        self.do(c.Tick())

    def jump(self, milliseconds: int) -> None:
        """The clock jumps forward, or the server stood still."""
        self.now += milliseconds
        self.do(c.Tick())

    def end(self, nominal: int, stop: StopType = StopType.CANCEL, flow_id: str | None = None) -> None:
        """Have an execution end."""
        name = FlowId(flow_id or occurrence_id(SCHEDULE, nominal))
        self.do(c.StopFlow(name, None, stop, "over", RequestId(f"end-{nominal}"), b""))

    def restart(self, after_ms: int = 0) -> None:
        """kill -9: only the log is left; what was owed is derived again."""
        self.now += after_ms
        self.owed.clear()
        runs, schedules = self._folded()
        self.kernel = Kernel(KernelConfig(), last_stream_id=len(runs) + len(schedules))
        for run in runs:
            self.kernel.adopt(run)
        for schedule in schedules:
            self.kernel.adopt_stream(schedule)
        self.handle(c.BeginServing())
        self.settle()

    def settle(self) -> None:
        """Compute fires, and hand over what is owed if that is at once."""
        while True:
            if self.kernel.schedules.clockwork.wanting:
                self.provide()
            elif self.owed and self.is_prompt:
                self.handle(self.owed.popleft())
            else:
                return

    def hand_over(self) -> None:
        """Hand over all that is owed."""
        while self.owed:
            self.handle(self.owed.popleft())
            while self.kernel.schedules.clockwork.wanting:
                self.provide()

    # ---- what it sees ----

    @property
    def state(self) -> ScheduleState:
        state = self.kernel.schedules.get(SCHEDULE)
        assert state is not None
        return state

    @property
    def events(self) -> list[e.ScheduleEvent]:
        """Of all schedules."""
        events = [recorded.event for recorded in self.log if isinstance(recorded, RecordedStreamEvent)]
        return [event for event in events if isinstance(event, e.ScheduleEvent)]

    def of_type(self, kind: type[e.ScheduleEvent]) -> list[Any]:
        """Events of one type."""
        return [event for event in self.events if type(event) is kind]

    def minutes(self, kind: type[e.ScheduleEvent]) -> list[int]:
        """Nominal instants of those events, in minutes since the beginning."""
        return [(event.nominal - T0) // MINUTE for event in self.of_type(kind)]

    @property
    def runs(self) -> list[RunState]:
        return list(self.kernel.runs.values())

    @property
    def open_flow_ids(self) -> list[str]:
        return [run.flow_id for run in self.runs if run.is_open]

    @property
    def is_planned(self) -> bool:
        """Whether the schedule has fires to come, or wants to know."""
        return any(self.kernel.schedules.clockwork.stands(self.state))

    @property
    def counts(self) -> dict[str, int]:
        """The account of the schedule [SCHED-12]; what is zero is left out."""
        state = self.state
        skipped = {e.SkipReason(reason).name: count for reason, count in state.counts.skipped.items()}
        counts = {"STARTED": state.counts.started, "MISSED": state.counts.missed, "BUFFERED": state.buffered_count}
        return {name: count for name, count in (counts | skipped).items() if count}

    def refused(self, command: c.Command) -> Code:
        """The code of the refusal; nothing was stored."""
        before = len(self.log)
        reply = self.do(command)
        assert isinstance(reply, Rejection), reply
        assert reply.fields["schedule_id"] == SCHEDULE
        assert len(self.log) == before
        return reply.code

    # ---- the world ----

    def handle(self, command: c.Command) -> Outcome:
        """Decide, and check what must hold after every command."""
        outcome = self.kernel.handle(command, now=self.now)
        self.log += outcome.events
        self.log += outcome.stream_events
        self.owed += [effect.command for effect in outcome.effects if isinstance(effect, SubmitCommand)]
        assert not schedule_violations(self.kernel.schedules), command
        for schedule in self._folded()[1] if len(self.log) < FOLDED_MAX else ():
            if not schedule.is_closed:
                assert schedule == self.kernel.stream(schedule.stream_id)
        return outcome

    def provide(self) -> None:
        """Compute the fires of the schedule that waits longest for them."""
        stream_id = next(iter(self.kernel.schedules.clockwork.wanting))
        state = self.kernel.schedules.of_stream(stream_id)
        paused = tuple(
            self._counted(state, span.since, span.after, span.until, span.spec.interval_ms) for span in state.pauses
        )
        begin = max(state.through, self.now - window_ms(state) - 1)
        interval_ms = state.spec.interval_ms
        missed = self._counted(state, state.since, state.through, begin, interval_ms)
        fires: list[Fire] = []
        nominal = max(begin - state.spec.jitter_ms, state.since) // interval_ms * interval_ms
        end_at = state.spec.end_at or self.now + 10**12
        while len(fires) < DUE_MAX + AHEAD and (nominal := nominal + interval_ms) <= end_at:
            due = due_at(state.schedule_id, nominal, state.spec.jitter_ms)
            if due > begin:
                fires.append(Fire(nominal, due))
            if fires and nominal > self.now + AHEAD * interval_ms + state.spec.jitter_ms:
                break
        fires.sort(key=lambda fire: (fire.due, fire.nominal))
        due_count = sum(fire.due <= self.now for fire in fires)
        rest = NO_FIRES
        if due_count > DUE_MAX:
            fires = fires[:DUE_MAX]
            rest = self._counted(state, state.since, fires[-1].due, self.now, interval_ms)
        else:
            fires = fires[: due_count + AHEAD]
        is_last = nominal > end_at
        self.handle(
            sc.ProvideFires(stream_id, state.revision, self.now, paused, missed, tuple(fires), rest, is_last=is_last)
        )

    def _counted(self, state: ScheduleState, since: int, after: int, until: int, interval_ms: int) -> FireCount:
        first = max(after, since) // interval_ms * interval_ms + interval_ms
        if state.status is ScheduleStatus.DELETED or first > until:
            return NO_FIRES
        return FireCount((until - first) // interval_ms + 1, first, until // interval_ms * interval_ms)

    def _folded(self) -> tuple[list[RunState], list[ScheduleState]]:
        """All that the log says; runs that are closed stay in the log."""
        runs: dict[int, RunState] = {}
        schedules: dict[int, ScheduleState] = {}
        for recorded in self.log:
            if isinstance(recorded, RecordedEvent):
                runs[recorded.stream_id] = evolve(runs.get(recorded.stream_id), recorded)
            else:
                schedules[recorded.stream_id] = evolve_schedule(schedules.get(recorded.stream_id), recorded)
        return list(runs.values()), list(schedules.values())


def schedule_command(kind: type[Any], request_id: str, **fields: Any) -> Any:
    """A client's command about the schedule."""
    return kind(schedule_id=ScheduleId(SCHEDULE), request_id=RequestId(request_id), digest=b"d", **fields)


def minutely(overlap: OverlapPolicy = OverlapPolicy.SKIP, **policy: object) -> Stage:
    """A schedule that fires every minute, created on a full one."""
    stage = Stage()
    stage.do(create_schedule(policy=SchedulePolicy(overlap, **policy)))  # type: ignore[arg-type]  # named fields
    return stage


def occurrence(minute: int) -> str:
    """ID of the occurrence so many minutes after the beginning."""
    return occurrence_id(SCHEDULE, T0 + minute * MINUTE)


def pause(request_id: str = "pause") -> sc.PauseSchedule:
    command: sc.PauseSchedule = schedule_command(sc.PauseSchedule, request_id)
    return command


def resume(request_id: str = "resume") -> sc.ResumeSchedule:
    command: sc.ResumeSchedule = schedule_command(sc.ResumeSchedule, request_id)
    return command


def delete() -> sc.DeleteSchedule:
    command: sc.DeleteSchedule = schedule_command(sc.DeleteSchedule, "delete")
    return command
