"""The Flow model told once more, in the simplest words: lists, dictionaries, and everything looked at every time.

Written from the specification and not from `dexd.core`, of which it uses nothing but the plain values that commands
carry. It knows no workers: whatever wants to run is running, and somebody else says how it ends. Nothing is indexed,
remembered or optimised, so that a reader can check each rule against its clause.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dexd.core.terms import FlowTerms, FlowTimeoutPolicy
from dexd.core.values import (
    Condition,
    ConditionKind,
    Decision,
    DecisionKind,
    Failure,
    IdReusePolicy,
    Response,
    RetryPolicy,
    StepOptions,
    StepPlan,
    StopType,
    Wait,
    WaitForFailurePolicy,
    WaitKind,
)

METHOD_TIMEOUT_MS = 2 * 3_600_000
TIMEOUT_HANDLER = "sys:timeout_handler"
RUNNING, WAITING, BACKOFF = "running", "waiting", "backoff"
WAIT_FOR, EXECUTE = "wait_for", "execute"
Deleted: TypeAlias = Sequence[tuple[str, bytes]]
"""Channel and value of each message that a handler deletes; no two messages of a test are equal."""
CLOSED_BY_STOP = {StopType.CANCEL: "CANCELED", StopType.FAIL: "FAILED", StopType.TERMINATE: "TERMINATED"}


@dataclass
class NaiveStep:
    """One active Step execution [STEP-2]."""

    id: str
    type: str
    source: str
    input: bytes
    options: StepOptions
    method: str
    method_began: int
    """Hand-over of the method's first attempt; nothing ever waits for a worker here."""
    phase: str = RUNNING
    attempt: int = 1
    """In backoff, the attempt that comes."""
    attempt_began: int = 0
    retry_at: int = 0
    wait: Wait | None = None
    due: list[int] = field(default_factory=list)
    """Deadline by condition; no meaning where there is no Timer."""
    fired: list[int] = field(default_factory=list)
    won: list[int] = field(default_factory=list)
    taken: dict[int, list[bytes]] = field(default_factory=dict)
    """Messages by the condition that took them [WAIT-8]."""
    wait_for_failed: bool = False
    error: str | None = None
    """Type of the error that a recovery Step, or execute after a failed wait_for, is shown [OPT-3..5]."""

    @property
    def times_out_at(self) -> int:
        """When the running attempt has taken too long [OPT-1, OPT-2]."""
        chosen = self.options.wait_for_timeout_ms if self.method == WAIT_FOR else self.options.execute_timeout_ms
        return self.attempt_began + (METHOD_TIMEOUT_MS if chosen is None else chosen)

    def shown(self) -> tuple[object, ...]:
        """Everything that can be seen of it from outside."""
        return (
            self.type,
            self.source if not self.source.startswith("sys:") else "sys:",
            self.method,
            self.phase,
            self.attempt,
            self.retry_at if self.phase == BACKOFF else 0,
            sorted(self.fired) if self.phase == WAITING else [],
            self.results(),
            self.wait_for_failed,
            self.error,
        )

    def results(self) -> list[tuple[bool, list[bytes]]]:
        """What execute is told of each condition [WAIT-9, WAIT-11]."""
        if self.wait is None or self.method == WAIT_FOR:
            return []
        return [(index in self.won, self.taken.get(index, [])) for index in range(len(self.wait.conditions))]


@dataclass
class NaiveRun:
    """One life of a Flow ID."""

    run_id: str
    flow_id: str
    status: str = "RUNNING"
    error_type: str = "NONE"
    steps: list[NaiveStep] = field(default_factory=list)
    """Active ones, in order of scheduling."""
    waiting: list[str] = field(default_factory=list)
    """IDs of those that wait, oldest wait first [WAIT-10]."""
    numbers: dict[str, int] = field(default_factory=dict)
    channels: dict[str, list[bytes]] = field(default_factory=dict)
    attributes: dict[str, bytes] = field(default_factory=dict)
    completions: list[tuple[str, str, bytes]] = field(default_factory=list)
    is_completing: bool = False
    rpcs: int = 0
    plan: StepPlan | None = None
    terms: FlowTerms = field(default_factory=FlowTerms)
    times_out_at: int | None = None
    attempt: int = 1
    """Of the Flow, by its retry policy [START-8]."""
    own: list[bytes] = field(default_factory=list)
    """Messages that its Steps published; no two messages of a test are equal."""
    previous: "NaiveRun | None" = None
    """The run that this one tries again. Its ID is the server's business, so somebody must tell."""

    @property
    def is_open(self) -> bool:
        return self.status == "RUNNING"

    def step(self, step_id: str) -> NaiveStep | None:
        return next((step for step in self.steps if step.id == step_id), None)

    def shown(self) -> dict[str, object]:
        """Everything that can be seen of it from outside."""
        return {
            "status": self.status,
            "error_type": self.error_type,
            "steps": {step.id: step.shown() for step in self.steps},
            "channels": {name: values for name, values in self.channels.items() if values},
            "attributes": self.attributes,
            "completions": self.completions,
            "is_completing": self.is_completing,
        }


class NaiveFlows:
    """All Flows, and the clock."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.runs: list[NaiveRun] = []

    # ---- clients ----

    def latest(self, flow_id: str) -> NaiveRun | None:
        return next((run for run in reversed(self.runs) if run.flow_id == flow_id), None)

    def start(
        self, flow_id: str, run_id: str, plan: StepPlan, policy: IdReusePolicy, terms: FlowTerms | None = None
    ) -> bool:
        """[START-4] gives whether a run began."""
        old = self.latest(flow_id)
        if old is not None and old.is_open:
            if policy is not IdReusePolicy.ALLOW_TERMINATE_IF_RUNNING:
                return False
            self._close(old, "TERMINATED")
        elif old is not None:
            if policy is IdReusePolicy.DISALLOW:
                return False
            if policy is IdReusePolicy.ALLOW_IF_PREVIOUS_FAILED and old.status == "COMPLETED":
                return False
        terms = terms or FlowTerms()
        self._begin(NaiveRun(run_id, flow_id, plan=plan, terms=terms), terms.start_delay_ms)
        return True

    def publish(self, flow_id: str, channel: str, values: tuple[bytes, ...]) -> bool:
        """[CHAN-1, CHAN-3, WAITAPI-7]"""
        run = self.latest(flow_id)
        if run is None or not run.is_open:
            return False
        run.channels.setdefault(channel, []).extend(values)
        self._look_at_waits(run)
        return True

    def delete_message(self, flow_id: str, channel: str, value: bytes) -> bool:
        """[CHAN-9] gives whether the message was there, in an active Flow."""
        run = self.latest(flow_id)
        if run is None or not run.is_open or value not in run.channels.get(channel, []):
            return False
        self._delete(run, ((channel, value),))
        return True

    def set_attribute(self, flow_id: str, key: str, value: bytes | None) -> bool:
        """[ATTR-2, ATTR-5]"""
        run = self.latest(flow_id)
        if run is None or not run.is_open:
            return False
        self._write(run, ((key, value),))
        return True

    def stop(self, flow_id: str, kind: StopType) -> str | None:
        """[STOP-1, STOP-2] gives the final status; None for an unknown Flow."""
        run = self.latest(flow_id)
        if run is not None and run.is_open:
            self._close(
                run, CLOSED_BY_STOP[kind], "CLIENT_API_FAILED" if kind is StopType.FAIL else "NONE", is_last=True
            )
        return None if run is None else run.status

    def skip_timer(self, run: NaiveRun, step_id: str, index: int) -> str | None:
        """[TIMER-8, TIMER-9] for a Step that waits; gives the outcome, None if there is no such Timer."""
        step = run.step(step_id)
        assert step is not None
        assert step.wait is not None
        timers = [at for at, each in enumerate(step.wait.conditions) if each.kind is ConditionKind.TIMER]
        if index >= len(timers):
            return None
        if timers[index] in step.fired:
            return "ALREADY_FIRED"
        step.fired.append(timers[index])
        self._look_at_waits(run)
        return "APPLIED"

    def rpc(self, run: NaiveRun, response: Response, deleted: Deleted = (), *, is_transactional: bool = False) -> bool:
        """[RPC-3..5] an RPC handler that returns at once; gives whether it is answered with its output.

        A transaction is all or nothing: it is refused if a message that it deletes is not there [CHAN-8].
        """
        there = [value in run.channels.get(channel, []) for channel, value in deleted]
        if is_transactional and not (run.is_open and all(there)):
            return False
        if not (response.writes or response.publications or response.next_steps or any(there)):
            return True
        if not run.is_open:
            return False
        run.rpcs += 1
        self._write(run, response.writes)
        self._delete(run, deleted)
        self._queue(run, response.publications)
        for plan in response.next_steps:
            self._schedule(run, plan, f"sys:rpc:#{run.rpcs}")
        self._look_at_waits(run)
        return True

    # ---- handlers ----

    def wait_for_returned(self, run: NaiveRun, step: NaiveStep, response: Response, deleted: Deleted = ()) -> None:
        """[STEP-3, GEN-6, TIMER-1]"""
        assert response.wait is not None
        self._write(run, response.writes)
        self._delete(run, deleted)
        self._queue(run, response.publications)
        run.own += [value for _, value in response.publications]
        step.wait = response.wait
        if response.wait.kind is WaitKind.SKIP:
            self._begin_execute(run, step)
        else:
            step.phase = WAITING
            run.waiting.append(step.id)
            step.due = [self._deadline(condition) for condition in response.wait.conditions]
            step.fired = [index for index in _timers(response.wait) if step.due[index] <= self.now]
        self._look_at_waits(run)

    def execute_returned(self, run: NaiveRun, step: NaiveStep, response: Response, deleted: Deleted = ()) -> None:
        """[GEN-6, DEC-1..11]"""
        decision = response.decision
        assert decision is not None
        run.steps.remove(step)
        self._write(run, response.writes)
        self._delete(run, deleted)
        self._queue(run, response.publications)
        run.own += [value for _, value in response.publications]
        self._cancel(run, step, decision)
        self._decide(run, step, decision)
        if run.is_open and run.is_completing and not run.steps:
            self._close(run, "COMPLETED")
        self._look_at_waits(run)

    def attempt_failed(self, run: NaiveRun, step: NaiveStep, failure: Failure) -> None:
        """[RETRY-1..6, OPT-3..5]"""
        is_wait_for = step.method == WAIT_FOR
        policy = (step.options.wait_for_retry if is_wait_for else step.options.execute_retry) or RetryPolicy()
        delay = _delay(policy, step.attempt) if failure.retry_after_ms is None else failure.retry_after_ms
        is_last = failure.non_retryable or step.attempt == policy.maximum_attempts
        if policy.total_duration_ms is not None:
            is_last = is_last or self.now + delay > step.method_began + policy.total_duration_ms
        if not is_last:
            step.phase, step.attempt, step.retry_at = BACKOFF, step.attempt + 1, self.now + delay
            return
        error = failure.error_type
        if is_wait_for and step.options.wait_for_failure is WaitForFailurePolicy.PROCEED:
            step.wait_for_failed, step.error = True, error
            self._begin_execute(run, step)
        elif not is_wait_for and step.options.recovery is not None:
            run.steps.remove(step)
            recovery = step.options.recovery
            plan = StepPlan(recovery.step_type, step.input, recovery.has_wait_for, recovery.options)
            self._schedule(run, plan, step.id).error = error
        else:
            self._close(run, "FAILED", "WORKER_API_FAILED")

    # ---- time ----

    def next_instant(self) -> int | None:
        """When something becomes due by itself."""
        instants = [at for run in self.runs for step in run.steps for at in _instants(step)]
        instants += [run.times_out_at for run in self.runs if run.times_out_at is not None]
        return min(instants, default=None)

    def has_tie(self, at: int) -> bool:
        """Whether Steps of one Flow time out at that instant together; which one is first is not promised [FLOW-5]."""
        return any(
            len([step for step in run.steps if step.phase == RUNNING and step.times_out_at == at]) > 1
            for run in self.runs
        )

    def pass_time(self, milliseconds: int) -> None:
        """[TIMER-4] everything due on the way happens in order, each at its instant."""
        until = self.now + milliseconds
        while (at := self.next_instant()) is not None and at <= until:
            self.now = max(self.now, at)
            for run in list(self.runs):
                self._let_due_things_happen(run)
        self.now = until

    def _let_due_things_happen(self, run: NaiveRun) -> None:
        if run.times_out_at is not None and run.times_out_at <= self.now:
            self._time_out(run)
        for step in run.steps:
            if step.phase == WAITING and step.wait is not None:
                timers = _timers(step.wait)
                step.fired += [at for at in timers if at not in step.fired and step.due[at] <= self.now]
        self._look_at_waits(run)
        for step in list(run.steps):
            if step in run.steps and step.phase == RUNNING and step.times_out_at <= self.now:
                self.attempt_failed(run, step, Failure("METHOD_TIMEOUT"))
        for step in run.steps:
            if step.phase == BACKOFF and step.retry_at <= self.now:
                step.phase, step.attempt_began = RUNNING, self.now
                if step.attempt == 1:
                    step.method_began = self.now

    def _time_out(self, run: NaiveRun) -> None:
        """[TIME-1..3]"""
        run.times_out_at = None
        match run.terms.timeout_policy:
            case FlowTimeoutPolicy.HANDLER:
                plan = StepPlan(TIMEOUT_HANDLER, b"", has_wait_for=False, options=run.terms.timeout_handler_options)
                self._schedule(run, plan, "")
            case FlowTimeoutPolicy.CANCEL:
                self._close(run, "CANCELED")
            case _:
                self._close(run, "FAILED", "FLOW_TIMEOUT")

    # ---- what follows ----

    def _begin(self, run: NaiveRun, delay: int) -> None:
        """[START-7, TIME-1]"""
        self.runs.append(run)
        if run.terms.timeout_ms:
            run.times_out_at = self.now + delay + run.terms.timeout_ms
        assert run.plan is not None
        step = self._schedule(run, run.plan, "")
        if delay:
            step.phase, step.retry_at = BACKOFF, self.now + delay

    def _begin_again(self, old: NaiveRun) -> None:
        """[START-8] from the beginning, with what came from outside and was not consumed."""
        retry = old.terms.retry
        if retry is None or old.attempt == retry.policy.maximum_attempts:
            return
        run = NaiveRun("", old.flow_id, plan=old.plan, terms=old.terms, attempt=old.attempt + 1, previous=old)
        for name, queue in old.channels.items():
            run.channels[name] = [value for value in queue if value not in old.own]
        self._begin(run, _delay(retry.policy, old.attempt))

    def _schedule(self, run: NaiveRun, plan: StepPlan, source: str) -> NaiveStep:
        """[ID-6, ID-12, STEP-1]"""
        number = run.numbers[plan.step_type] = run.numbers.get(plan.step_type, 0) + 1
        step = NaiveStep(
            f"{plan.step_type}-{number}",
            plan.step_type,
            source,
            plan.input,
            plan.options or StepOptions(),
            WAIT_FOR if plan.has_wait_for else EXECUTE,
            self.now,
            attempt_began=self.now,
        )
        run.steps.append(step)
        return step

    def _begin_execute(self, run: NaiveRun, step: NaiveStep) -> None:
        step.method, step.phase, step.attempt = EXECUTE, RUNNING, 1
        step.method_began = step.attempt_began = self.now
        if step.id in run.waiting:
            run.waiting.remove(step.id)

    def _cancel(self, run: NaiveRun, by: NaiveStep, decision: Decision) -> None:
        """[DEC-9, DEC-10]"""
        if decision.canceling is not None:
            everywhere, siblings = decision.canceling.step_types, decision.canceling.sibling_types
            run.steps = [
                step
                for step in run.steps
                if step.type not in everywhere
                and not (step.type in siblings and step.source == by.source and by.source != "")
            ]
            run.waiting = [step_id for step_id in run.waiting if run.step(step_id) is not None]

    def _decide(self, run: NaiveRun, step: NaiveStep, decision: Decision) -> None:
        if decision.output and decision.kind is not DecisionKind.FORCE_COMPLETE_IF_CHANNELS_EMPTY:
            run.completions.append((step.type, step.id, decision.output))
        match decision.kind:
            case DecisionKind.GO_TO:
                for plan in decision.movements:
                    self._schedule(run, plan, step.id)
            case DecisionKind.GRACEFUL_COMPLETE:
                run.is_completing = True
            case DecisionKind.FORCE_COMPLETE:
                self._close(run, "COMPLETED")
            case DecisionKind.FORCE_FAIL:
                self._close(run, "FAILED", "STEP_DECISION_FAILED")
            case DecisionKind.FORCE_COMPLETE_IF_CHANNELS_EMPTY:
                self._complete_if_empty(run, step, decision)
            case DecisionKind.DEAD_END:
                pass

    def _complete_if_empty(self, run: NaiveRun, step: NaiveStep, decision: Decision) -> None:
        """[DEC-4, DEC-5] what others have taken and not finished counts as present."""
        held = [
            other.wait.conditions[index].channel
            for other in run.steps
            if other.wait is not None
            for index, taken in other.taken.items()
            if taken
        ]
        if any(run.channels.get(name) or name in held for name in decision.channels):
            self._schedule(run, decision.movements[0], step.id)
            return
        if decision.output:
            run.completions.append((step.type, step.id, decision.output))
        self._close(run, "COMPLETED")

    def _close(self, run: NaiveRun, status: str, error_type: str = "NONE", *, is_last: bool = False) -> None:
        """[FLOW-8]"""
        run.status, run.error_type = status, error_type
        run.steps, run.waiting, run.times_out_at = [], [], None
        if status == "FAILED" and not is_last:
            self._begin_again(run)

    def _write(self, run: NaiveRun, writes: tuple[tuple[str, bytes | None], ...]) -> None:
        for key, value in writes:
            run.attributes.pop(key, None)
            if value is not None:
                run.attributes[key] = value

    def _delete(self, run: NaiveRun, deleted: Deleted) -> None:
        """[CHAN-8] what is not there is passed over."""
        for channel, value in deleted:
            if value in run.channels.get(channel, []):
                run.channels[channel].remove(value)

    def _queue(self, run: NaiveRun, publications: tuple[tuple[str, bytes], ...]) -> None:
        for channel, value in publications:
            run.channels.setdefault(channel, []).append(value)

    # ---- waits ----

    def _deadline(self, condition: Condition) -> int:
        if condition.at_ms is not None:
            return condition.at_ms
        return self.now + (condition.duration_ms or 0)

    def _look_at_waits(self, run: NaiveRun) -> None:
        """[WAIT-4, WAIT-10] oldest wait first, each consuming before the next is looked at."""
        for step_id in list(run.waiting):
            step = run.step(step_id)
            assert step is not None
            for candidate in _candidates(step):
                if self._is_satisfied(run, step, candidate):
                    self._consume(run, step, candidate)
                    self._begin_execute(run, step)
                    break

    def _is_satisfied(self, run: NaiveRun, step: NaiveStep, candidate: list[int]) -> bool:
        """[WAIT-7] one count per queue."""
        assert step.wait is not None
        needed: dict[str, int] = {}
        for index in candidate:
            condition = step.wait.conditions[index]
            if condition.kind is ConditionKind.TIMER:
                if index not in step.fired:
                    return False
            else:
                needed[condition.channel] = needed.get(condition.channel, 0) + condition.at_least
        return all(len(run.channels.get(channel, [])) >= count for channel, count in needed.items())

    def _consume(self, run: NaiveRun, step: NaiveStep, candidate: list[int]) -> None:
        """[WAIT-8, WAIT-9] all minimums, then extras up to each upper bound."""
        assert step.wait is not None
        step.won = candidate
        channels = [index for index in candidate if step.wait.conditions[index].kind is ConditionKind.CHANNEL]
        for index in channels:
            condition = step.wait.conditions[index]
            step.taken[index] = _take(run.channels.get(condition.channel, []), condition.at_least)
        for index in channels:
            condition = step.wait.conditions[index]
            queue = run.channels.get(condition.channel, [])
            room = len(queue) if condition.at_most is None else condition.at_most - condition.at_least
            step.taken[index] += _take(queue, room)


def _candidates(step: NaiveStep) -> Iterator[list[int]]:
    """[WAIT-5, WAIT-6] sets of conditions that could win, in the order in which they are tried."""
    wait = step.wait
    assert wait is not None
    everything = list(range(len(wait.conditions)))
    if wait.kind is WaitKind.ALL_OF:
        yield everything
    elif wait.kind is WaitKind.ANY_OF:
        yield from ([index] for index in everything if index in _timers(wait))
        yield from ([index] for index in everything if index not in _timers(wait))
    else:
        yield from (sorted(group) for group in wait.combinations)


def _timers(wait: Wait) -> list[int]:
    return [index for index, each in enumerate(wait.conditions) if each.kind is ConditionKind.TIMER]


def _instants(step: NaiveStep) -> list[int]:
    if step.phase == RUNNING:
        return [step.times_out_at]
    if step.phase == BACKOFF:
        return [step.retry_at]
    assert step.wait is not None
    return [step.due[index] for index in _timers(step.wait) if index not in step.fired]


def _take(queue: list[bytes], count: int) -> list[bytes]:
    taken, queue[:] = queue[:count], queue[count:]
    return taken


def _delay(policy: RetryPolicy, attempt: int) -> int:
    """[RETRY-2, RETRY-3] without jitter, which is nobody's business here."""
    cap = policy.maximum_interval_ms
    if cap is None:
        cap = max(100_000, policy.initial_interval_ms)
    return int(min(policy.initial_interval_ms * policy.backoff_coefficient ** (attempt - 1), cap))
