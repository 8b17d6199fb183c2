"""One commit after the other: the batch that is being written, and the open one that grows meanwhile [ARCH-3]."""

from collections.abc import Callable
from typing import Any

from dexd.core.effects import AnswerRpc, Effect, SubmitCommand, TravelTarget
from dexd.core.ids import SessionId
from dexd.engine.batch import OpenBatch
from dexd.engine.counters import EngineCounters
from dexd.engine.ports import (
    AFTER_COMMIT_BEFORE_EFFECTS,
    AFTER_SEND,
    BEFORE_APPEND,
    BatchWriter,
    Failpoint,
    OnAnswer,
)
from dexd.engine.system import stopwatch_ms
from dexd.log.errors import LogError
from dexd.log.event_log import UploadRow


class Commits:
    """Batches on their way into the log. Whatever it releases is committed, and in the order of the decisions."""

    __slots__ = (
        "_begun_at",
        "_failpoint",
        "_now",
        "_on_broken",
        "_on_failed",
        "_on_released",
        "_release",
        "_writer",
        "_writing",
        "_written_at_ms",
        "counters",
        "open",
    )

    def __init__(
        self,
        writer: BatchWriter,
        last_seq: int,
        *,
        release: Callable[[OpenBatch], None],
        on_released: Callable[[], None],
        on_failed: Callable[[LogError], None],
        on_broken: Callable[[Exception], None],
        failpoint: Failpoint | None,
        now: Callable[[], int],
    ) -> None:
        """Begin with nothing.

        Args:
            writer: Where batches go.
            last_seq: Sequence number of the log's newest event.
            release: Lets out what a committed batch owes.
            on_released: Called when the writer has come back and decisions may go on.
            on_failed: Called when the batch under way was not written; the batches are still here, for `discard`.
            on_broken: Called when something that must not raise did.
            failpoint: See `ports`.
            now: Server time.
        """
        self._writer = writer
        self._release = release
        self._on_released = on_released
        self._on_failed = on_failed
        self._on_broken = on_broken
        self._failpoint = failpoint
        self._now = now
        self._writing: OpenBatch | None = None
        self._begun_at = 0
        self._written_at_ms = 0.0
        self.counters = EngineCounters()
        """What was committed so far, for metrics."""
        self.open = OpenBatch(last_seq)
        """What is decided and not handed over yet."""

    @property
    def is_writing(self) -> bool:
        """Whether the writer has a batch."""
        return self._writing is not None

    def is_late(self, limit_ms: int) -> bool:
        """Whether the batch under way was handed over longer ago than that."""
        return self._writing is not None and self._now() - self._begun_at > limit_ms

    def holds_events_of(self, stream_id: int, look_back_max: int) -> bool:
        """Whether events of a stream are not committed yet; yes as well if there are too many events to look."""
        return any(
            len(batch.events) > look_back_max or any(event.stream_id == stream_id for event in batch.events)
            for batch in self._uncommitted()
        )

    def holds_effects_for(self, session: SessionId, look_back_max: int) -> bool:
        """Whether effects for a session wait; yes as well if there are too many effects to look."""
        return any(
            len(batch.effects) > look_back_max or any(_session_of(effect) == session for effect in batch.effects)
            for batch in self._uncommitted()
        )

    def _uncommitted(self) -> list[OpenBatch]:
        return [self.open] if self._writing is None else [self._writing, self.open]

    def reveal(self, on_answer: OnAnswer[Any], answer: Any) -> None:
        """Answer when everything decided so far is committed: at once if it is."""
        if self._writing is None and self.open.is_empty:
            on_answer(answer)
        else:
            self.open.answers.append((on_answer, answer))

    def hand_over(self) -> None:
        """Give the open batch to the writer if that is idle; a batch without events has nothing to wait for."""
        if self._writing is not None or self.open.is_empty:
            return
        batch, self.open = self.open, OpenBatch(self.open.last_seq)
        if batch.needs_commit:
            self._write(batch)
        else:
            self._let_out(batch)

    def check(self, on_answer: OnAnswer[None]) -> None:
        """Answer after a durable write that is begun now or with the next commit."""
        self.open.is_check = True
        self.open.answers.append((on_answer, None))
        self.hand_over()

    def note_upload(self, row: UploadRow, on_answer: OnAnswer[None]) -> None:
        """Answer when it is durable that the session has the value [BLOB-3]."""
        self.open.uploads.append(row)
        self.open.answers.append((on_answer, None))
        self.hand_over()

    def forget_uploads(self, until: int) -> None:
        """Forget, with the next commit, the uploads of before an instant."""
        self.open.uploads_until = until

    def discard(self, last_seq: int) -> list[OpenBatch]:
        """Take out everything that is not committed, and go on after that sequence number."""
        lost = self._uncommitted()
        self._writing = None
        self.open = OpenBatch(last_seq)
        return lost

    def _write(self, batch: OpenBatch) -> None:
        self._writing = batch
        self._begun_at = self._now()
        self._written_at_ms = stopwatch_ms()
        self._pass(BEFORE_APPEND)
        self._writer.submit(batch.to_append(), self._on_appended)

    def _on_appended(self, error: LogError | None) -> None:
        batch = self._writing
        if batch is None:
            # Discarded meanwhile: the engine died of something else.
            return
        try:
            if error is None:
                self._committed(batch)
            else:
                self._on_failed(error)
        except Exception as broken:  # noqa: BLE001 - whatever it is, some answer or effect is lost for good [ARCH-7]
            self._on_broken(broken)

    def _committed(self, batch: OpenBatch) -> None:
        self._writing = None
        self.counters.committed(batch.events, batch.closed, stopwatch_ms() - self._written_at_ms)
        self._pass(AFTER_COMMIT_BEFORE_EFFECTS)
        if self.open.needs_commit:
            # The next commit runs while this one's effects leave. A batch without events must not overtake them.
            self.hand_over()
        self._let_out(batch)
        self.hand_over()
        self._on_released()

    def _let_out(self, batch: OpenBatch) -> None:
        self._release(batch)
        self._pass(AFTER_SEND)

    def _pass(self, point: str) -> None:
        if self._failpoint is not None:
            self._failpoint(point)


def _session_of(effect: Effect) -> SessionId | None:
    return None if isinstance(effect, AnswerRpc | SubmitCommand | TravelTarget) else effect.session
