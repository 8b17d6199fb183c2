"""Where scenarios are played: the real kernel over the memory log, through the real codecs, with workers that wait.

Everything is committed at once and performed after that; a crash forgets everything but the log.
"""

from dataclasses import dataclass, field

from dexd.core import commands as c
from dexd.core import effects as f
from dexd.core.config import KernelConfig
from dexd.core.events import FlowClosed, FlowStarted
from dexd.core.ids import FlowId, SessionId, StreamNumber
from dexd.core.invariants import violations
from dexd.core.kernel import Kernel
from dexd.core.outcome import Outcome
from dexd.core.values import Token
from dexd.engine.batch import OpenBatch
from dexd.engine.recovery import rebuild_kernel
from dexd.log.memory_log import MemoryLog
from tests.support.builders import T0


@dataclass
class StageWorker:
    """A worker process with its newest session."""

    name: str
    incarnation: str
    session: SessionId
    steps: str
    limit: int
    calls: dict[StreamNumber, Token] = field(default_factory=dict)
    """What it runs."""
    queues: dict[StreamNumber, str] = field(default_factory=dict)


class Stage:
    """One server with its log, and everybody around it."""

    def __init__(self, config: KernelConfig) -> None:
        self._config = config
        self.log = MemoryLog()
        self.now = T0
        self.workers: dict[str, StageWorker] = {}
        self._session_count = 0
        self.kernel = Kernel(config, last_stream_id=0)
        self.do(c.BeginServing())

    def do(self, command: c.Command) -> Outcome:
        """Handle a command, commit its events, perform its effects."""
        outcome = self.kernel.handle(command, now=self.now)
        batch = OpenBatch(self.log.last_seq)
        for recorded in outcome.events:
            batch.record([recorded])
            if isinstance(recorded.event, FlowStarted | FlowClosed):
                for run in self.kernel.runs.values():
                    if run.stream_id == recorded.stream_id:
                        batch.note_run(run)
        self.log.append(batch.to_append())
        for effect in outcome.effects:
            self._perform(effect)
        faults = violations(self.kernel, now=self.now)
        assert not faults, faults
        for effect in outcome.effects:
            if isinstance(effect, f.SubmitCommand):
                self.do(effect.command)
        return outcome

    def restart(self) -> Outcome:
        """The server dies and is there again; workers have noticed and wait to reconnect."""
        self.kernel = rebuild_kernel(self.log, self._config)
        return self.do(c.BeginServing())

    def next_session(self) -> SessionId:
        self._session_count += 1
        return SessionId(self._session_count)

    def worker_of(self, session: SessionId) -> StageWorker | None:
        return next((worker for worker in self.workers.values() if worker.session == session), None)

    def holder(self, call: str, flow_id: str | None) -> tuple[StageWorker, StreamNumber, Token]:
        """The worker that runs the call, e.g. `A-1`; of that Flow if there are several."""
        for worker in self.workers.values():
            for number, token in worker.calls.items():
                if token.call == call and flow_id in (None, self._flow_id(token)):
                    return worker, number, token
        raise AssertionError(f"nobody runs {call}")

    def _flow_id(self, token: Token) -> FlowId | None:
        run = self.kernel.run_by_id(token.run_id)
        return None if run is None else run.flow_id

    def _perform(self, effect: f.Effect) -> None:
        if isinstance(effect, f.AssignCall):
            worker = self.worker_of(effect.session)
            if worker is not None:
                worker.calls[effect.stream] = effect.call.token
