"""The partition's engine: mailbox, kernel, commit, then effects [ARCH-3].

Commands wait in the mailbox. A drain takes what is there, lets the kernel decide and collects what is owed in the open
batch. The batch goes to the writer when that is idle; until its commit the next batch grows (decide-ahead). At the
commit effects leave and answers are released, in order. Nobody else changes state.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import structlog

from dexd.core.commands import (
    AbandonRpc,
    BeginServing,
    BeginShutdown,
    ClientCommand,
    Command,
    InvokeRpc,
    LoseSession,
    OperatorCommand,
    Tick,
    WorkerCommand,
)
from dexd.core.config import KernelConfig
from dexd.core.ids import CallerId, SessionId
from dexd.core.index_values import IndexKeyTypes
from dexd.core.kernel import Kernel
from dexd.core.outcome import Reply
from dexd.core.rejections import Code, Rejection
from dexd.engine.batch import OpenBatch
from dexd.engine.batch_jobs import BatchJobs
from dexd.engine.commits import Commits
from dexd.engine.counters import EngineCounters
from dexd.engine.early_effects import EarlyEffects
from dexd.engine.growth import Growth
from dexd.engine.history import HistoryReader
from dexd.engine.live_state import LiveState
from dexd.engine.mail_rounds import MailRounds
from dexd.engine.mailbox import Mailbox
from dexd.engine.parking_lot import Bounds
from dexd.engine.perform import Performer
from dexd.engine.ports import Abandon, BatchWriter, CallLater, Clock, Failpoint, OnAnswer, SessionSink
from dexd.engine.reads import Reads
from dexd.engine.run_cache import RunCache
from dexd.engine.schedule_reads import ScheduleReads
from dexd.engine.search_rows import SearchRows
from dexd.engine.searches import Searches
from dexd.engine.stream_cache import StreamCache
from dexd.engine.system import stopwatch_ms
from dexd.engine.time_travels import TimeTravels
from dexd.engine.timekeeper import Timekeeper
from dexd.engine.waits import Waits
from dexd.log.errors import LogError, LogFullError, LogUnavailableError
from dexd.log.event_log import EventLog, RunRow, StreamRow, UploadRow
from dexd.log.reading import InlinePages, LogPages

RETRY_AFTER_MS = 1_000
"""How often a log that refuses writes is tried again [ARCH-4], and what refused clients are told."""


class EngineOptions(msgspec.Struct, frozen=True):
    """Numbers of the engine; the defaults are those of docs/configuration.md."""

    commit_batch_max: int = 1_000
    """Events from which on nothing more is decided before the running commit is over."""
    snapshot_every_events: int = 200
    """Versions of a run between two snapshots."""
    mailbox_max: int = 100_000
    """Commands that may wait: a few seconds of work, at a few hundred bytes each beside the values they carry."""
    memory: Bounds = Bounds()
    """How much of what is open may be in memory; the rest is parked [ARCH-11]."""


class Health(msgspec.Struct, frozen=True):
    """How the engine is."""

    condition: str
    """SERVING, or the code of the refusal that commands get."""
    open_runs: int
    connected_workers: int
    parked_runs: int
    """Open runs that are not in memory [ARCH-11]."""
    overdue: int
    """Timers and deadlines that are due and were not handled yet."""


class Engine:
    """One partition [ARCH-15]: create on the running loop, `start` when the server listens, `stop`."""

    def __init__(  # noqa: PLR0913 - what the composition root decides
        self,
        log: EventLog,
        writer: BatchWriter,
        clock: Clock,
        config: KernelConfig,
        *,
        on_fatal: Callable[[BaseException], None],
        options: EngineOptions | None = None,
        pages: LogPages | None = None,
        failpoint: Failpoint | None = None,
        call_later: CallLater | None = None,
    ) -> None:
        """Recover: every open run that is not parked is folded into memory [ARCH-2, ARCH-11].

        Args:
            log: Where runs are read from.
            writer: Appends to the same log.
            clock: Server time.
            config: Numbers of the rules.
            on_fatal: Called once when the process must end: the log failed, or an invariant is broken [ARCH-4, ARCH-7].
            options: Numbers of the engine.
            pages: Reads the same log off the loop; on the loop if there is none.
            failpoint: See `ports`.
            call_later: The loop's own unless a test turns the clock.
        """
        self._log = log
        self._clock = clock
        self._config = config
        self._on_fatal = on_fatal
        self._options = options or EngineOptions()
        self._loop = asyncio.get_running_loop()
        self._mailbox = Mailbox(self._options.mailbox_max)
        self._performer = Performer(self._put, lambda reach: self.batch_jobs.travel(reach, self._put))
        self._growth = Growth()
        self._timekeeper = Timekeeper(clock, call_later or self._loop.call_later, self._on_due)
        self.waits = Waits(self.reveal, self._timekeeper.arm)
        """Everybody who waits, for inspection."""
        self._commits = Commits(
            writer,
            log.last_seq,
            release=self._release,
            on_released=self._on_released,
            on_failed=self._on_append_failed,
            on_broken=partial(self._die, "invariant_broken"),
            failpoint=failpoint,
            now=clock.now,
        )
        self._early = EarlyEffects(self._commits)
        self._rounds = MailRounds(self._mailbox, self._commits, events_max=self._options.commit_batch_max)
        self._is_drain_scheduled = False
        self._is_tick_waiting = False
        self._refusal: Rejection | None = _REFUSED_BEFORE_START
        self._stopping: Rejection | None = None
        self._retry_at: int | None = None
        self._is_suspended = False
        """The log refuses writes: commands are refused, reads serve the last committed state [ARCH-4]."""
        self._is_dead = False
        self._live = self._load()
        pages = pages or InlinePages(log)
        self.reads = Reads(self, pages, HistoryReader(pages, config), self.waits, self._growth, clock)
        self.time_travels = TimeTravels(self, pages, self.reads)
        self.schedule_reads = ScheduleReads(self, log, clock)
        self.searches = Searches(self, pages, self.reads.read_later)
        self.batch_jobs = BatchJobs(self, self.searches, self.time_travels, log, self.reads.read_later)
        self.page_secret = log.page_secret
        """What tokens of result pages are signed with."""

    def _load(self) -> LiveState:
        return LiveState(
            self._log,
            self._config,
            commits=self._commits,
            early=self._early,
            waits=self.waits,
            snapshot_every=self._options.snapshot_every_events,
            bounds=self._options.memory,
            fill_target=lambda reach: self.batch_jobs.filled(reach),
        )

    # ---- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Serve: deliveries that were running wait for their workers from now on [WIRE-11]."""
        self._refusal = None
        self._put(BeginServing())
        self._loop.call_soon(self._park_some)

    async def stop(self, reason: str) -> None:
        """Ask workers to reconnect, refuse new commands, answer everybody who waits, commit what is decided [DRAIN-4].

        Does not wait for timers or for handlers that run. Reads of the log go on until `close`.
        """
        refusal = Rejection(Code.SHUTTING_DOWN, f"the server is stopping: {reason}", {}, RETRY_AFTER_MS)
        self._refusal = self._stopping = refusal
        self.waits.refuse_all(refusal)
        self._put(BeginShutdown(reason))
        await self.settled()
        self._performer.refuse_all_rpcs(refusal)
        self._performer.end_all_sessions(refusal)
        self._growth.wake_all()
        self._timekeeper.stop()

    def close(self) -> None:
        """Release what reads need, once nobody calls any more."""
        self.reads.close()

    async def settled(self) -> None:
        """Return when everything submitted so far is decided and committed, or given up."""
        if self._is_dead:
            return
        settled: asyncio.Future[object] = self._loop.create_future()
        self._put(Tick(), partial(_resolve, settled))
        await settled

    def decide_now(self) -> None:
        """Decide about everything that waits, for an owner whose loop cannot turn meanwhile."""
        while len(self._mailbox) and not self._is_dead:
            self._drain()

    async def check_commit(self) -> float | Rejection:
        """Go the whole way, mailbox, kernel and a durable write; gives the milliseconds of the write [OBS-4]."""
        await self.settled()
        if self._refusal is not None:
            return self._refusal
        checked: asyncio.Future[Rejection | None] = self._loop.create_future()
        begun_ms = stopwatch_ms()
        self._commits.check(partial(_resolve, checked))
        return await checked or stopwatch_ms() - begun_ms

    def note_upload(self, row: UploadRow, on_answer: OnAnswer[None]) -> None:
        """Note that a session has a large value; answered when that is durable [BLOB-3]."""
        if self._refusal is not None:
            on_answer(self._refusal)
        else:
            self._commits.note_upload(row, on_answer)

    def forget_uploads(self, until: int) -> None:
        """Forget, some time, the uploads of before an instant."""
        self._commits.forget_uploads(until)

    @property
    def health(self) -> Health:
        """How it is now."""
        condition = "SERVING" if self._refusal is None else str(self._refusal.code)
        live = self._live
        parked = live.parking.parked
        open_runs = live.kernel.open_run_count + parked
        overdue = live.count_due(self._clock.now())
        return Health(condition, open_runs, live.kernel.connected_worker_count, parked, overdue)

    @property
    def next_deadline(self) -> int | None:
        """When the rules want to act next, for whoever turns the clock; long polls are no part of it."""
        return self._live.next_deadline()

    @property
    def kernel(self) -> Kernel:
        """Live state that is in no log, as workers and queues, for inspection between two commands."""
        return self._live.kernel

    @property
    def mailbox_length(self) -> int:
        """Commands that wait."""
        return len(self._mailbox)

    @property
    def counters(self) -> EngineCounters:
        """What it has done so far, for metrics."""
        return self._commits.counters

    # ---- commands ------------------------------------------------------------------------------------------------

    def request(self, command: ClientCommand | OperatorCommand, on_answer: OnAnswer[Reply]) -> None:
        """Submit a command of a client or an operator."""
        refusal = self._refusal
        if refusal is None and self._mailbox.is_full:
            refusal = _MAILBOX_FULL
        if refusal is not None:
            on_answer(refusal)
        else:
            self._mailbox.put(command, on_answer)
            self._schedule_drain()

    def invoke(self, make: Callable[[CallerId], InvokeRpc], on_answer: OnAnswer[bytes]) -> Abandon:
        """Run an RPC; the answer is its output."""
        caller = self._performer.expect_rpc(on_answer)

        def refuse(answer: Reply | Rejection) -> None:
            if isinstance(answer, Rejection):
                self._performer.answer_rpc(caller, answer)

        self.request(make(caller), refuse)
        return lambda: self._abandon_rpc(caller)

    def _abandon_rpc(self, caller: CallerId) -> None:
        if self._performer.abandon_rpc(caller) and not self._is_dead:
            self._put(AbandonRpc(caller))

    # ---- maintenance ---------------------------------------------------------------------------------------------

    def remove_runs(
        self,
        rows: Sequence[RunRow],
        on_answer: OnAnswer[Sequence[RunRow]],
        *,
        ordinal_expires_at: int = 0,
        forget_ordinals_until: int = 0,
        streams: Sequence[StreamRow] = (),
    ) -> None:
        """Have closed runs leave the log with the next commit; answers with those that left [KEEP-1].

        Closed schedules and jobs too. From now on nobody finds them. Runs that an RPC reads stay, with those that
        follow them.
        """
        if self._refusal is not None:
            on_answer(self._refusal)
            return
        batch = self._commits.open
        batch.forget_ordinals_until = max(batch.forget_ordinals_until, forget_ordinals_until)
        batch.answers.append((on_answer, self._live.remove(rows, ordinal_expires_at)))
        self._live.remove_streams(streams)
        self._schedule_drain()

    # ---- worker sessions -----------------------------------------------------------------------------------------

    def open_session(self, sink: SessionSink) -> SessionId:
        """Number a session. Its sink hears nothing before an OpenSession command of it is handled."""
        return self._performer.open_session(sink)

    def post(self, commands: Sequence[WorkerCommand]) -> None:
        """Submit a session's commands, in order. Never refused: a session awaits `room` before it reads on.

        While the engine does not serve, the session is ended instead.
        """
        if self._refusal is not None and self._stopping is None:
            for command in commands:
                self._performer.end_session(command.session, self._refusal)
            return
        self._mailbox.put_all(commands)
        self._schedule_drain()

    async def room(self) -> None:
        """Return when the mailbox takes more; the transport's flow control then holds workers back [ARCH-8]."""
        await self._mailbox.room()

    def close_session(self, session: SessionId, reason: str) -> None:
        """The transport of a session ended. Idempotent."""
        if self._performer.close_session(session) and not self._is_dead:
            self._put(LoseSession(session, reason))

    # ---- for reads -------------------------------------------------------------------------------------------------

    @property
    def runs(self) -> RunCache:
        """See `reads.Decided`."""
        return self._live.runs

    @property
    def streams(self) -> StreamCache:
        """See `batch_jobs.JobHost`."""
        return self._live.streams

    @property
    def stopping(self) -> Rejection | None:
        """See `reads.Decided`."""
        return self._stopping

    def reveal(self, on_answer: OnAnswer[Any], answer: Any) -> None:
        """See `reads.Decided`."""
        # What a dead engine decided last may not be committed, so nobody may see it.
        self._commits.reveal(on_answer, _REFUSED_BY_DEAD_ENGINE if self._is_dead else answer)

    # ---- for searches ----------------------------------------------------------------------------------------------

    @property
    def search_rows(self) -> SearchRows:
        """See `searches.Searched`."""
        return self._live.search_rows

    def announce(self, named: IndexKeyTypes) -> Rejection | None:
        """Keep the types of these index keys, or refuse them all [ATTR-10]."""
        if self._is_dead:
            return _REFUSED_BY_DEAD_ENGINE
        keys = self._live.search_rows.keys
        refused = keys.refuse(named)
        if refused is not None or keys.has_all(named):
            return refused
        if self._refusal is not None and self._stopping is None:
            return self._refusal
        keys.learn(named, self._commits.open)
        self._commits.hand_over()
        return None

    def settle_steps(self) -> Rejection | None:
        """Have what Steps do written with the open batch, or tell why that cannot be [SEARCH-7]."""
        if self._is_dead:
            return _REFUSED_BY_DEAD_ENGINE
        rows, runs = self._live.search_rows, self._live.kernel.runs.values()
        if self._refusal is not None and self._stopping is None:
            return self._refusal if rows.changed(runs) else None
        rows.bring_up_to_date(runs, self._commits.open)
        self._commits.hand_over()
        return None

    # ---- deciding --------------------------------------------------------------------------------------------------

    def _put(self, command: Command, on_answer: OnAnswer[Reply] | None = None) -> None:
        self._mailbox.put(command, on_answer)
        self._schedule_drain()

    def _schedule_drain(self) -> None:
        if not self._is_drain_scheduled and not self._is_dead:
            self._is_drain_scheduled = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._is_drain_scheduled = False
        if self._is_dead:
            return
        try:
            if self._rounds.go(self._live, now=self._clock.now()):
                self._schedule_drain()
            early = self._early.take_ready()
            if early:
                self._performer.perform(early)
            self._commits.hand_over()
            self._arm()
        except Exception as error:  # noqa: BLE001 - whatever it is, live state cannot be trusted any more [ARCH-7]
            self._die("invariant_broken", error)

    def _release(self, batch: OpenBatch) -> None:
        """Let out what a committed batch owes."""
        self._live.have_left(batch)
        self._performer.perform(batch.effects)
        for on_answer, answer in batch.answers:
            on_answer(answer)
        self._growth.committed(batch.events)
        for run in batch.closed:
            self._live.runs.retire(run)
        self._live.parking.stirred(len(batch.events))
        if batch.parked:
            self._live.parking.committed(batch.parked)

    def _on_released(self) -> None:
        if len(self._mailbox):
            self._schedule_drain()
        self._park_some()

    def _park_some(self) -> None:
        """Keep memory within its bounds; what is to be written for that goes along with the next commit [ARCH-11]."""
        if self._refusal is not None:
            return
        parking = self._live.parking
        parking.choose(self._commits.open, now=self._clock.now())
        self._commits.hand_over()
        if parking.wants_turn and not self._commits.is_writing:
            self._loop.call_soon(self._park_some)

    # ---- time ------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        kernel_deadline = None if self._is_tick_waiting else self._live.next_deadline()
        deadlines = (kernel_deadline, self.waits.next_deadline(), self._retry_at)
        self._timekeeper.arm(min((at for at in deadlines if at is not None), default=None))

    def _on_due(self) -> None:
        try:
            self._handle_due(self._clock.now())
        except Exception as error:  # noqa: BLE001 - as in `_drain`
            self._die("invariant_broken", error)

    def _handle_due(self, now: int) -> None:
        self.waits.expire(now)
        if self._retry_at is not None and self._retry_at <= now:
            self._retry()
        deadline = self._live.next_deadline()
        if deadline is not None and deadline <= now and not self._is_tick_waiting:
            self._is_tick_waiting = True
            self._put(Tick(), self._on_tick)
        self._arm()

    def _on_tick(self, _: object) -> None:
        self._is_tick_waiting = False
        self._arm()

    # ---- when the log cannot be written ----------------------------------------------------------------------------

    def _on_append_failed(self, error: LogError) -> None:
        """Nothing of what was decided has left: give it up as a whole and take live state from the log again [ARCH-4].

        Only a refusal that may pass is survived; after anything else what is durable is unknown.
        """
        if not isinstance(error, LogUnavailableError):
            self._die("log_failed", error)
            return
        if self._is_suspended:
            self._commits.discard(self._log.last_seq)
            self._retry_later()
            return
        structlog.get_logger().error("log_refuses_writes", error=str(error))
        code = Code.DISK_FULL if isinstance(error, LogFullError) else Code.STORAGE_UNAVAILABLE
        try:
            self._suspend(Rejection(code, "the log cannot be written now; nothing was applied", {}, RETRY_AFTER_MS))
        except LogError as failure:
            self._die("log_failed", failure)

    def _suspend(self, refusal: Rejection) -> None:
        # First what may fail: whoever then ends the process still finds everybody who waits.
        self._live = self._load()
        lost = self._commits.discard(self._log.last_seq)
        self._early.discard()
        letters = self._mailbox.take_all()
        self._refusal = self._stopping or refusal
        self._is_suspended = True
        self._is_tick_waiting = False
        for batch in lost:
            batch.refuse(refusal)
        for _, on_answer in letters:
            if on_answer is not None:
                on_answer(refusal)
        self.waits.refuse_missing(lambda run_id: self._live.runs.run_by_id(run_id) is not None, refusal)
        self._performer.refuse_all_rpcs(refusal)
        self._performer.end_all_sessions(refusal)
        self._growth.wake_all()
        self._retry_later()

    def _retry_later(self) -> None:
        self._retry_at = self._clock.now() + RETRY_AFTER_MS
        self._arm()

    def _retry(self) -> None:
        """See whether the log can be written again; if not, the next look is in a second."""
        self._retry_at = None
        self._commits.check(self._serve_again)

    def _serve_again(self, checked: Rejection | None) -> None:
        if checked is None and self._stopping is None:
            structlog.get_logger().info("serving_again")
            self._is_suspended = False
            self.start()

    def _die(self, event: str, error: BaseException) -> None:
        """Stop for good, loudly; a restart replays from the log [ARCH-7]."""
        self._is_dead = True
        self._refusal = self._stopping = _REFUSED_BY_DEAD_ENGINE
        self._timekeeper.stop()
        structlog.get_logger().critical(event, error=repr(error), exc_info=error)
        for batch in self._commits.discard(0):
            batch.refuse(_REFUSED_BY_DEAD_ENGINE)
        for _, on_answer in self._mailbox.take_all():
            if on_answer is not None:
                on_answer(_REFUSED_BY_DEAD_ENGINE)
        self._on_fatal(error)


def _resolve(waiting: "asyncio.Future[Any]", answer: object) -> None:
    # Whoever waited may have gone meanwhile; an answer must not raise.
    if not waiting.done():
        waiting.set_result(answer)


_MAILBOX_FULL = Rejection(Code.MAILBOX_FULL, "too many requests wait in the server", {}, RETRY_AFTER_MS)
_REFUSED_BEFORE_START = Rejection(Code.SHUTTING_DOWN, "the server does not serve yet", {}, RETRY_AFTER_MS)
_REFUSED_BY_DEAD_ENGINE = Rejection(
    Code.SHUTTING_DOWN, "the server stops because of an internal error; what was asked may or may not be applied"
)
