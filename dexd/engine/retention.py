"""Removes closed runs, schedules and jobs when their retention is over, a few with each commit [KEEP-1..3, ID-10].

A sweep looks for runs that are due, has them archived if somebody wants that, and takes them out of the log in small
groups with pauses between them, so that no commit of others waits long. The log deletes their events by itself.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog

from dexd.core.rejections import Rejection
from dexd.core.retention import RetentionConfig, due_until, ordinal_expiry
from dexd.engine.ports import CallLater, Clock, OnAnswer
from dexd.engine.timekeeper import Timekeeper
from dexd.log.errors import LogError
from dexd.log.event_log import RunRow, StreamRow
from dexd.log.reading import LogPages

RUNS_AT_ONCE = 64
"""Runs, or schedules and jobs, that leave with one commit: its rows cost about as much as its fsync."""

PAUSE_S = 0.05
"""Between two such commits, so that most others wait for none; a thousand runs a second leave all the same."""

SWEEP_MS_MIN = 100
SWEEP_MS_MAX = 60_000
"""How often due runs are looked for: a tenth of the retention, within these bounds."""

BACKOFF_MS_MAX = 3_600_000
"""Longest pause after failures of the archive; each doubles it."""


class RemovalDesk(Protocol):
    """What removes runs; the engine."""

    def remove_runs(
        self,
        rows: Sequence[RunRow],
        on_answer: OnAnswer[Sequence[RunRow]],
        *,
        ordinal_expires_at: int = 0,
        forget_ordinals_until: int = 0,
        streams: Sequence[StreamRow] = (),
    ) -> None:
        """See `Engine.remove_runs`."""
        ...


class Archive(Protocol):
    """Keeps executions that are about to be removed [KEEP-2]."""

    async def keep(self, flow_id: str, ordinal: int, until: int) -> Sequence[RunRow]:
        """Write down all retained runs of an execution that closed up to an instant, durably; gives them, oldest first.

        Raises:
            Exception: they cannot be read or written.
        """
        ...

    async def close(self) -> None:
        """Return when nothing is read or written any more."""
        ...


class RetentionStatus:
    """What was done so far, for metrics and inspection."""

    __slots__ = (
        "archive_error",
        "archive_failures",
        "archived_executions",
        "postponed_executions",
        "removed_runs",
        "removed_streams",
    )

    def __init__(self) -> None:
        self.removed_runs = 0
        self.removed_streams = 0
        """Schedules and jobs."""
        self.archived_executions = 0
        """Written to the archive; one that was removed in parts counts for each."""
        self.archive_failures = 0
        self.postponed_executions = 0
        """Due in the last sweep, and still here because they could not be archived."""
        self.archive_error = ""
        """The first failure of the last sweep."""


class Retention:
    """Sweeps now and then while the server serves."""

    def __init__(
        self,
        desk: RemovalDesk,
        pages: LogPages,
        clock: Clock,
        config: RetentionConfig,
        *,
        call_later: CallLater | None = None,
        archive: Archive | None = None,
    ) -> None:
        """Create on the running loop.

        Args:
            desk: Removes runs.
            pages: Where runs are looked for.
            clock: Server time, which retention goes by.
            config: How long what is kept.
            call_later: The loop's own unless a test turns the clock.
            archive: Gets executions before they go; None removes them for good.
        """
        self._desk = desk
        self._pages = pages
        self._clock = clock
        self._config = config
        self._archive = archive
        self._timekeeper = Timekeeper(clock, call_later or asyncio.get_running_loop().call_later, self._on_due)
        self._interval_ms = min(max(config.retention_ms // 10, SWEEP_MS_MIN), SWEEP_MS_MAX)
        self._failed_sweeps = 0
        self._sweep: asyncio.Task[None] | None = None
        self.status = RetentionStatus()

    def start(self) -> None:
        """Sweep from now on.

        The first sweep comes after a pause: what was owed for the end of a run when the server last stopped, as the
        note to its parent, is done again at the start and must find it.
        """
        self._timekeeper.arm(self._clock.now() + self._interval_ms)

    async def stop(self) -> None:
        """End; a removal that is submitted is done by the log. Idempotent."""
        self._timekeeper.stop()
        if self._sweep is not None:
            self._sweep.cancel()
            await asyncio.wait((self._sweep,))
        if self._archive is not None:
            await self._archive.close()

    async def settled(self) -> None:
        """Return when no sweep is under way."""
        if self._sweep is not None:
            await asyncio.wait((self._sweep,))

    def _on_due(self) -> None:
        self._sweep = asyncio.get_running_loop().create_task(self._sweep_once(), name="retention_sweep")

    async def _sweep_once(self) -> None:
        sweep = _Sweep()
        try:
            await self._remove_due(sweep)
            await self._remove_due_streams()
        except (LogError, OSError) as error:
            # Nothing is lost: what is due now is due in the next sweep.
            structlog.get_logger().error("retention_failed", error=repr(error))
        self.status.postponed_executions = len(sweep.postponed)
        self.status.archive_error = sweep.archive_error
        self._failed_sweeps = self._failed_sweeps + 1 if sweep.archive_error else 0
        pause_ms = min(self._interval_ms << min(self._failed_sweeps, 20), max(BACKOFF_MS_MAX, self._interval_ms))
        self._timekeeper.arm(self._clock.now() + pause_ms)

    async def _remove_due(self, sweep: "_Sweep") -> None:
        """Remove group by group, in the order of closing; a Flow ID's runs from the oldest on."""
        now = self._clock.now()
        until = due_until(self._config, now=now)
        after = (0, 0)
        while True:
            rows = await self._pages.closed_runs(until, after, RUNS_AT_ONCE) if until else ()
            forget_until = now if await self._pages.has_expired_ordinals(now) else 0
            if not rows and not forget_until:
                return
            if rows:
                after = rows[-1].closed_at, rows[-1].stream_id
            ready = [row for row in rows if row.flow_id not in sweep.staying]
            if self._archive is not None:
                ready = await self._archived(self._archive, ready, until, sweep)
            left = await self._removed(ready, now, forget_until)
            if left is None:
                return
            self.status.removed_runs += len(left)
            gone = {row.stream_id for row in left}
            sweep.staying.update(row.flow_id for row in ready if row.stream_id not in gone)
            await asyncio.sleep(PAUSE_S)

    async def _archived(self, archive: Archive, rows: Sequence[RunRow], until: int, sweep: "_Sweep") -> list[RunRow]:
        """[KEEP-2] What may go because it is in the archive, whole executions at a time."""
        kept: list[RunRow] = []
        for flow_id, ordinal in dict.fromkeys((row.flow_id, row.ordinal) for row in rows):
            if flow_id in sweep.staying:
                continue
            try:
                kept += await archive.keep(flow_id, ordinal, until)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, one execution must not keep others
                self.status.archive_failures += 1
                sweep.postpone(flow_id, ordinal, error)
            else:
                self.status.archived_executions += 1
        return kept

    async def _remove_due_streams(self) -> None:
        """[KEEP-1] Deleted schedules and ended jobs go as runs do, in the order of closing; nobody archives them."""
        now = self._clock.now()
        until = due_until(self._config, now=now)
        after = (0, 0)
        while until and (rows := await self._pages.closed_streams(until, after, RUNS_AT_ONCE)):
            after = rows[-1].closed_at, rows[-1].stream_id
            if await self._removed((), now, 0, rows) is None:
                return
            self.status.removed_streams += len(rows)
            await asyncio.sleep(PAUSE_S)

    async def _removed(
        self, rows: Sequence[RunRow], now: int, forget_until: int, streams: Sequence[StreamRow] = ()
    ) -> Sequence[RunRow] | None:
        """Take runs and other streams out of the log; None if it cannot be written now."""
        if not rows and not forget_until and not streams:
            return ()
        answered: asyncio.Future[Sequence[RunRow] | Rejection] = asyncio.get_running_loop().create_future()

        def on_answer(answer: Sequence[RunRow] | Rejection) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._desk.remove_runs(
            rows,
            on_answer,
            ordinal_expires_at=ordinal_expiry(self._config, now=now),
            forget_ordinals_until=forget_until,
            streams=streams,
        )
        answer = await answered
        return None if isinstance(answer, Rejection) else answer


class _Sweep:
    """What one sweep leaves behind."""

    def __init__(self) -> None:
        self.staying: set[str] = set()
        """Flow IDs of which a run must stay, and so all later ones."""
        self.postponed: dict[tuple[str, int], None] = {}
        self.archive_error = ""

    def postpone(self, flow_id: str, ordinal: int, error: Exception) -> None:
        """[KEEP-2] An execution cannot be archived, so it stays until the next sweep."""
        self.staying.add(flow_id)
        self.postponed[flow_id, ordinal] = None
        structlog.get_logger().error("archive_failed", flow_id=flow_id, ordinal=ordinal, error=repr(error))
        if not self.archive_error:
            self.archive_error = f"execution {ordinal} of Flow {flow_id!r}: {error}"
