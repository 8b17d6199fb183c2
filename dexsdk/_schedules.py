"""``Client.schedules`` and ``AsyncClient.schedules``: the verbs of schedules; rules are in `_schedule_verbs`."""

from datetime import datetime
from typing import Any

from dexsdk._carriers import AsyncCarrier, BlockingCarrier
from dexsdk._schedule_verbs import ScheduleVerbs
from dexsdk.schedules import (
    Instants,
    OverlapPolicy,
    ScheduleAction,
    ScheduleInfo,
    ScheduleOutcomePage,
    SchedulePage,
    SchedulePolicy,
    ScheduleSpec,
)


class Schedules:
    """Everything that a program says about schedules, blocking the calling thread [SCHED-1]."""

    def __init__(self, caller: BlockingCarrier, verbs: ScheduleVerbs) -> None:
        """Made by the client."""
        self._caller = caller
        self._verbs = verbs

    def create(
        self,
        schedule_id: str,
        spec: ScheduleSpec,
        action: ScheduleAction[Any],
        policy: SchedulePolicy | None = None,
        *,
        paused: bool = False,
        request_id: str | None = None,
    ) -> None:
        """Create a schedule; its first fire lies after now [SCHED-1].

        Args:
            schedule_id: 1 to 230 characters.
            spec: When it fires.
            action: What every fire starts.
            policy: How fires stand to each other; None is all defaults.
            paused: Create it paused.
            request_id: Same ID, same call [GEN-8].

        Raises:
            ScheduleAlreadyExistsError: another request created a schedule of that ID.
            DexServiceError: INVALID_ARGUMENT, the spec makes no sense or never fires; the text names the field.
        """
        self._caller.carry(self._verbs.create(schedule_id, spec, action, policy, paused=paused, request_id=request_id))

    def update(
        self,
        schedule_id: str,
        spec: ScheduleSpec | None = None,
        action: ScheduleAction[Any] | None = None,
        policy: SchedulePolicy | None = None,
    ) -> None:
        """Replace parts from now on, outcomes stay; None leaves a part [SCHED-15]."""
        self._caller.carry(self._verbs.update(schedule_id, spec, action, policy))

    def pause(self, schedule_id: str, note: str = "") -> None:
        """Let nothing fire until it is resumed; what would have fired is skipped, never caught up [SCHED-13]."""
        self._caller.carry(self._verbs.pause(schedule_id, note))

    def resume(self, schedule_id: str) -> None:
        """Let it fire again; no effect on one that is not paused."""
        self._caller.carry(self._verbs.resume(schedule_id))

    def delete(self, schedule_id: str) -> None:
        """Remove it: what waits is skipped, executions are left alone [SCHED-15]."""
        self._caller.carry(self._verbs.delete(schedule_id))

    def describe(self, schedule_id: str) -> ScheduleInfo:
        """Tell how it stands, with the account of its fires [SCHED-12].

        Raises:
            ScheduleNotFoundError: there is no such schedule, or it was deleted.
        """
        return self._caller.carry(self._verbs.describe(schedule_id))

    def trigger_now(self, schedule_id: str, overlap: OverlapPolicy | None = None) -> str:
        """Have one occurrence now, in a pause too [SCHED-16].

        Args:
            schedule_id: Which schedule.
            overlap: In place of its policy.

        Returns:
            The occurrence ID, which is the Flow ID unless the action has a fixed one. Whether it starts, waits or is
            skipped is among the outcomes.
        """
        return self._caller.carry(self._verbs.trigger_now(schedule_id, overlap))

    def preview(self, spec_or_id: ScheduleSpec | str, count: int = 10) -> Instants:
        """Tell the next fires, up to 1,000, from ``start_at`` if given, even in the past, else from now [SCHED-3].

        Those of a schedule have their jitter, those of a spec do not: it follows from the schedule's ID [SCHED-10].
        """
        return self._caller.carry(self._verbs.preview(spec_or_id, count))

    def backfill(
        self,
        schedule_id: str,
        start: datetime,
        end: datetime,
        *,
        overlap: OverlapPolicy | None = None,
        dry_run: bool = False,
    ) -> Instants:
        """Handle the fires of [start, end), which is in the past, each once [SCHED-16].

        Args:
            schedule_id: Which schedule.
            start: First instant of the span.
            end: First instant after it.
            overlap: In place of the schedule's policy.
            dry_run: Only tell which fires would be handled.

        Returns:
            Their instants, at most 10,000; fires that were started before are not among them.
        """
        return self._caller.carry(self._verbs.backfill(schedule_id, start, end, overlap, dry_run=dry_run))

    def outcomes(self, schedule_id: str, page_size: int = 100, token: str = "") -> ScheduleOutcomePage:
        """Tell what became of the fires, oldest first [SCHED-12]."""
        return self._caller.carry(self._verbs.outcomes(schedule_id, page_size, token))

    def list(self, page_size: int = 100, token: str = "") -> SchedulePage:
        """Tell about all schedules by ID, 1 to 1,000 a page."""
        return self._caller.carry(self._verbs.list_schedules(page_size, token))


class AsyncSchedules:
    """The calls of Schedules as coroutines; see there for what they promise."""

    def __init__(self, caller: AsyncCarrier, verbs: ScheduleVerbs) -> None:
        """Made by the client."""
        self._caller = caller
        self._verbs = verbs

    async def create(
        self,
        schedule_id: str,
        spec: ScheduleSpec,
        action: ScheduleAction[Any],
        policy: SchedulePolicy | None = None,
        *,
        paused: bool = False,
        request_id: str | None = None,
    ) -> None:
        """See Schedules."""
        await self._caller.carry(
            self._verbs.create(schedule_id, spec, action, policy, paused=paused, request_id=request_id)
        )

    async def update(
        self,
        schedule_id: str,
        spec: ScheduleSpec | None = None,
        action: ScheduleAction[Any] | None = None,
        policy: SchedulePolicy | None = None,
    ) -> None:
        """See Schedules."""
        await self._caller.carry(self._verbs.update(schedule_id, spec, action, policy))

    async def pause(self, schedule_id: str, note: str = "") -> None:
        """See Schedules."""
        await self._caller.carry(self._verbs.pause(schedule_id, note))

    async def resume(self, schedule_id: str) -> None:
        """See Schedules."""
        await self._caller.carry(self._verbs.resume(schedule_id))

    async def delete(self, schedule_id: str) -> None:
        """See Schedules."""
        await self._caller.carry(self._verbs.delete(schedule_id))

    async def describe(self, schedule_id: str) -> ScheduleInfo:
        """See Schedules."""
        return await self._caller.carry(self._verbs.describe(schedule_id))

    async def trigger_now(self, schedule_id: str, overlap: OverlapPolicy | None = None) -> str:
        """See Schedules."""
        return await self._caller.carry(self._verbs.trigger_now(schedule_id, overlap))

    async def preview(self, spec_or_id: ScheduleSpec | str, count: int = 10) -> Instants:
        """See Schedules."""
        return await self._caller.carry(self._verbs.preview(spec_or_id, count))

    async def backfill(
        self,
        schedule_id: str,
        start: datetime,
        end: datetime,
        *,
        overlap: OverlapPolicy | None = None,
        dry_run: bool = False,
    ) -> Instants:
        """See Schedules."""
        return await self._caller.carry(self._verbs.backfill(schedule_id, start, end, overlap, dry_run=dry_run))

    async def outcomes(self, schedule_id: str, page_size: int = 100, token: str = "") -> ScheduleOutcomePage:
        """See Schedules."""
        return await self._caller.carry(self._verbs.outcomes(schedule_id, page_size, token))

    async def list(self, page_size: int = 100, token: str = "") -> SchedulePage:
        """See Schedules."""
        return await self._caller.carry(self._verbs.list_schedules(page_size, token))
