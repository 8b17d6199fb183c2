"""Writes logs of many Flows that wait, or have ended, far faster than clients and workers could make them.

Every event is decided by the product's own kernel, and every row is made as the server makes it; only gRPC, the event
loop and a commit for each Flow are left out.
"""

from collections.abc import Callable

from dexd.core import commands as c
from dexd.core.config import KernelConfig
from dexd.core.effects import AssignCall
from dexd.core.ids import FlowId, QueueName, RequestId, RunId, SessionId, StreamNumber, WorkerId
from dexd.core.kernel import Kernel
from dexd.core.outcome import Outcome
from dexd.core.values import (
    Condition,
    ConditionKind,
    Decision,
    DecisionKind,
    FlowCapability,
    Response,
    StepPlan,
    Wait,
    WaitKind,
)
from dexd.engine.batch import OpenBatch
from dexd.engine.parking_lot import parking_row
from dexd.engine.pending_timers import timer_rows
from dexd.log.writer import CheckpointedLog

FLOWS_PER_COMMIT = 1_000

DAY_MS = 86_400_000
SECOND_MS = 1_000

FLOW_TYPE, STEP_TYPE, CHANNEL = "EchoFlow", "EchoStep", "messages"
"""Those of `dextools.bench.product.echoes`, whose worker goes on with what is written here."""

_SESSION = SessionId(1)
_STREAM = StreamNumber(1)


class FlowAuthor:
    """Starts Flows and has a worker that answers at once."""

    def __init__(self, log: CheckpointedLog, *, now: int, advance: Callable[[int], None] | None = None) -> None:
        """Append to `log`, with all instants from `now` on; `advance` is told how many more Flows are written."""
        self._log = log
        self._now = now
        self._advance = advance or (lambda _: None)
        self._kernel = Kernel(KernelConfig(), last_stream_id=log.last_stream_id)
        self._batch = OpenBatch(log.last_seq)
        self._kernel.handle(c.BeginServing(), now=now)
        capability = FlowCapability(FLOW_TYPE, frozenset({STEP_TYPE}), frozenset())
        self._kernel.handle(c.OpenSession(_SESSION, WorkerId("author"), "i", 8, 0, (capability,)), now=now)
        self._kernel.handle(c.OpenStream(_SESSION, _STREAM, QueueName(FLOW_TYPE)), now=now)

    def write_parked(self, count: int, *, wakes_after_ms: int = 30 * DAY_MS) -> None:
        """Write Flows `echo-0` and so on; each waits for a message, or for a Timer, one second after the one before."""
        for number in range(count):
            timer_at = self._now + wakes_after_ms + number * SECOND_MS
            conditions = (
                Condition(ConditionKind.CHANNEL, channel=CHANNEL, at_least=1, at_most=1),
                Condition(ConditionKind.TIMER, at_ms=timer_at),
            )
            run_id = self._start(number)
            self._answer(Response(wait=Wait(WaitKind.ANY_OF, conditions)))
            run = self._kernel.runs[run_id]
            self._batch.note_run(run)
            for row in timer_rows(run):
                self._batch.note_timer(row)
            self._batch.note_parked(run, parking_row(run))
            assert self._kernel.park(run_id), "nothing is under way in it"
            self._commit_if_large(number + 1)
        self._commit()

    def write_finished(self, count: int) -> None:
        """Write Flows `echo-0` and so on that have completed at once."""
        for number in range(count):
            run_id = self._start(number, has_wait_for=False)
            run = self._kernel.runs[run_id]
            self._answer(Response(decision=Decision(DecisionKind.FORCE_COMPLETE, output=b"%d" % number)))
            self._batch.note_run(run)
            self._kernel.forget(run_id)
            self._commit_if_large(number + 1)
        self._commit()

    def _start(self, number: int, *, has_wait_for: bool = True) -> RunId:
        run_id = RunId(f"{number:032x}")
        outcome = self._handle(
            c.StartFlow(
                flow_id=FlowId(f"echo-{number}"),
                flow_type=FLOW_TYPE,
                run_id=run_id,
                seed=number,
                request_id=RequestId(f"author-{number}"),
                digest=b"",
                start_step=StepPlan(STEP_TYPE, b"null", has_wait_for),
            )
        )
        (self._assigned,) = [effect.call.token for effect in outcome.effects if isinstance(effect, AssignCall)]
        return run_id

    def _answer(self, response: Response) -> None:
        self._handle(c.CompleteCall(_SESSION, _STREAM, self._assigned, response))

    def _handle(self, command: c.Command) -> Outcome:
        outcome = self._kernel.handle(command, now=self._now)
        self._batch.record(outcome.events)
        return outcome

    def _commit_if_large(self, written: int) -> None:
        if not written % FLOWS_PER_COMMIT:
            self._commit()
            self._advance(FLOWS_PER_COMMIT)

    def _commit(self) -> None:
        self._log.append(self._batch.to_append())
        self._log.checkpoint_if_due()
        self._batch = OpenBatch(self._batch.last_seq)
