"""Given events, when a command arrives, then exactly these events, effects and reply: the unit test of the pure core.

State is built only by events, as after a restart; workers, which no event creates, connect through commands in
`after`. Every step checks the kernel's invariants, and that live state is the fold of the events.

    given(started(), scheduled("A-1")).after(*connect()).when(complete(force())).then(events=[...], effects=[...])
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

from dexd.core import commands as c
from dexd.core.config import KernelConfig
from dexd.core.effects import SubmitCommand
from dexd.core.events import Event
from dexd.core.flow.evolve import evolve
from dexd.core.flow.invariants import history_violations
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.ids import RunId, StepExecutionId
from dexd.core.invariants import violations
from dexd.core.kernel import Kernel
from dexd.core.outcome import Outcome, RecordedEvent
from dexd.core.rejections import Code, Rejection
from dexd.core.sub_flows import SubFlowKey
from tests.support.builders import RUN, T0, At, history
from tests.support.matchers import Like

TICKS_MAX = 200
"""Deadlines that one passage of time may have; more is a livelock."""


def given(*events: Event | At, config: KernelConfig | None = None) -> "Given":
    """A kernel that recovered from the events and began to serve at the instant of the last one."""
    recorded = history(*events)
    return Given(recorded, config or KernelConfig(), now=recorded[-1].at if recorded else T0)


class Given:
    """A kernel before the command under test."""

    def __init__(self, recorded: Sequence[RecordedEvent], config: KernelConfig, *, now: int) -> None:
        self.config = config
        self.log = list(recorded)
        self.parked: dict[RunId, RunState] = {}
        """Runs that left memory; the test brings them back."""
        states: dict[int, RunState] = {}
        for event in recorded:
            states[event.stream_id] = evolve(states.get(event.stream_id), event)
        self.kernel = Kernel(config, last_stream_id=len(states))
        for state in states.values():
            self.kernel.adopt(state)
        begun = self._handle(c.BeginServing(), now)
        self.owed = [effect.command for effect in begun.effects if isinstance(effect, SubmitCommand)]
        """What runs owed each other when the server came back [ARCH-14]; the test hands it over."""

    def restarted(self, now: int | None = None) -> "Given":
        """The server dies and comes back with the same log; workers and callers are gone."""
        return Given(self.log, self.config, now=self.now if now is None else now)

    def after(self, *commands: c.Command, now: int | None = None) -> "Given":
        """Let something happen that the test is not about."""
        for command in commands:
            self._handle(command, self.now if now is None else now)
        return self

    def ticked(self, *instants: int) -> "Given":
        """Let time pass."""
        for instant in instants:
            self._handle(c.Tick(), instant)
        return self

    def park(self, run_id: str = RUN) -> "Given":
        """Have a run leave memory [ARCH-11]."""
        state = self.run(run_id)
        assert self.kernel.can_park(state.run_id, until=self.now)
        assert self.kernel.park(state.run_id)
        assert self.kernel.run_by_id(state.run_id) is None
        assert self.kernel.run(state.flow_id) is None
        self.parked[state.run_id] = state
        return self.after(c.Tick())

    def bring_back(self, run_id: str = RUN, waiting: Iterable[tuple[SubFlowKey, RunId]] = ()) -> "Given":
        """Bring a parked run back into memory."""
        self.kernel.adopt(self.parked.pop(RunId(run_id)), waiting)
        return self.after(c.Tick())

    def when(self, *commands: c.Command, now: int | None = None) -> "Then":
        """Hand over the command under test; several count as one."""
        outcomes = [self._handle(command, self.now if now is None else now) for command in commands]
        return Then(self, outcomes)

    def when_time_passes(self, until: int) -> "Then":
        """Tick at every deadline on the way, and at the end."""
        outcomes: list[Outcome] = []
        while (due := self.next_deadline) is not None and due <= until:
            assert len(outcomes) < TICKS_MAX, f"time does not get on: due at {due}"
            outcomes.append(self._handle(c.Tick(), max(self.now, due)))
        outcomes.append(self._handle(c.Tick(), until))
        return Then(self, outcomes)

    @property
    def next_deadline(self) -> int | None:
        return self.kernel.next_deadline()

    def run(self, run_id: str = RUN) -> RunState:
        """For what only state shows; prefer events and effects."""
        return self.kernel.runs[RunId(run_id)]

    def step(self, step_id: str = "A-1") -> StepExecution:
        """An active Step execution, for what only state shows."""
        return self.run().steps[StepExecutionId(step_id)]

    def _handle(self, command: c.Command, now: int) -> Outcome:
        self.now = now
        outcome = self.kernel.handle(command, now=now)
        self.log += outcome.events
        faults = violations(self.kernel, now=now)
        assert not faults, f"after {command}: {faults}"
        return outcome

    def check_replay(self) -> None:
        """Live state is the fold of the events [INV-8]."""
        streams: dict[int, list[RecordedEvent]] = {}
        for event in self.log:
            streams.setdefault(event.stream_id, []).append(event)
        for events in streams.values():
            assert not history_violations(events)
            state: RunState | None = None
            for event in events:
                state = evolve(state, event)
            assert state is not None
            assert state == (self.parked.get(state.run_id) or self.kernel.run_by_id(state.run_id))


class Then:
    """What came of the command."""

    def __init__(self, before: Given, outcomes: Sequence[Outcome]) -> None:
        self.given = before
        """The kernel after it."""
        self.events = [recorded.event for outcome in outcomes for recorded in outcome.events]
        self.effects = [effect for outcome in outcomes for effect in outcome.effects]
        self.reply = outcomes[-1].reply
        before.check_replay()

    def then(
        self,
        *,
        events: Iterable[Event | Like] = (),
        effects: Iterable[Any] = (),
        reply: Any = None,
        next_deadline: Any = ...,
    ) -> "Given":
        """Exactly this, in this order, and nothing else."""
        _check_equal(self.events, events)
        _check_equal(self.effects, effects)
        assert self.reply == reply, f"replied {self.reply}, not {reply}"
        if next_deadline is not ...:
            found = self.given.next_deadline
            assert found == next_deadline, f"next deadline is {found}, not {next_deadline}"
        return self.given

    def then_events(self, *events: Event | Like) -> "Given":
        """Exactly these events, whatever else is owed; for rules that are about history only."""
        _check_equal(self.events, events)
        return self.given

    def then_effects(self, *effects: Any) -> "Given":
        """Exactly these effects, whatever is recorded; for rules that are about deliveries only."""
        _check_equal(self.effects, effects)
        return self.given

    def then_rejected(self, code: Code, **fields: str) -> "Given":
        """Refused with the code and at least these fields, and nothing stored [GEN-2]."""
        assert isinstance(self.reply, Rejection), self.reply
        assert self.reply.code is code
        assert fields.items() <= self.reply.fields.items()
        assert not self.events
        assert not self.effects
        return self.given


def _check_equal(found: Sequence[Any], expected: Iterable[Any]) -> None:
    wanted = list(expected)
    lines = [
        f"  {'  ' if a == b else '!='} {a}\n     {b}" for a, b in zip_longest(found, wanted, fillvalue="(nothing)")
    ]
    assert found == wanted, "found, and expected below it:\n" + "\n".join(lines)
