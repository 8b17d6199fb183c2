"""Prepares time travel from the log, off the event loop, and lets the kernel decide about it [TT-1..6].

The kernel carries out a plan only if the Flow has not got anything since that it would have to take into account;
otherwise what is new is read, and it is asked again.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol, TypeAlias

from dexd.codec.event_codec import from_stored
from dexd.codec.time_travel_requests import TimeTravelQuery
from dexd.core.commands import ClientCommand, TimeTravel
from dexd.core.flow.decide_external import refuse_unknown, remembered
from dexd.core.forks.plan import ForkPlan
from dexd.core.forks.preparation import ForkPreparation, Reading, RetainedRun, Want
from dexd.core.ids import RunId, StreamId
from dexd.core.outcome import ForkOutdated, Reply
from dexd.core.rejections import Code, Rejection
from dexd.engine.ports import OnAnswer
from dexd.engine.reads import Reads
from dexd.engine.run_cache import RunCache
from dexd.log.event_log import StoredEvent
from dexd.log.reading import LogPages

ATTEMPTS_MAX = 50
"""Plans that one call may make. Each costs about a commit, so that only a Flow that gets external writes without any
pause outruns so many."""

PORTION_EVENTS = 64
"""Events looked at before the loop may do something else; about a millisecond."""

RETRY_AFTER_MS = 1_000

Answer: TypeAlias = Reply | Rejection


class Deciding(Protocol):
    """What the engine does for a time travel."""

    @property
    def runs(self) -> RunCache:
        """Runs as they are decided."""
        ...

    def request(self, command: ClientCommand, on_answer: OnAnswer[Reply]) -> None:
        """Submit a command."""
        ...

    async def settled(self) -> None:
        """Return when everything submitted so far is decided and committed, or given up."""
        ...


class TimeTravels:
    """Time travels of one partition."""

    __slots__ = ("_deciding", "_pages", "_reads")

    def __init__(self, deciding: Deciding, pages: LogPages, reads: Reads) -> None:
        self._deciding = deciding
        self._pages = pages
        self._reads = reads

    def begin(self, query: TimeTravelQuery, on_answer: OnAnswer[Reply]) -> None:
        """Begin a time travel; it cannot be withdrawn."""
        self._reads.read_later(partial(self._travel, query), on_answer)

    async def _travel(self, query: TimeTravelQuery) -> Answer:
        preparation: ForkPreparation | None = None
        for _ in range(ATTEMPTS_MAX):
            reading: Reading[ForkPlan | Rejection]
            latest = self._deciding.runs.latest_run(query.flow_id)
            if latest is None:
                return refuse_unknown(query.flow_id)
            if remembered(latest, query.request_id, query.digest) is not None:
                return await self._decide(query, _NOT_NEEDED)
            if preparation is None or preparation.newest_run_id != latest.run_id:
                preparation = await self._prepare(query)
                if preparation is None:
                    continue
                reading = preparation.plan()
            else:
                reading = preparation.plan_again()
            plan = await self._answer(reading, until=Want(latest.stream_id, latest.version))
            if plan is None:
                preparation = None
                continue
            answer = await self._decide(query, plan)
            if not isinstance(answer, ForkOutdated):
                return answer
            await self._deciding.settled()
        return Rejection(
            Code.TIME_TRAVEL_OUTRUN,
            f"Flow {query.flow_id!r} got external writes faster than {ATTEMPTS_MAX} plans could take them in",
            {"flow_id": query.flow_id},
            RETRY_AFTER_MS,
        )

    async def _prepare(self, query: TimeTravelQuery) -> ForkPreparation | None:
        """See what the log has of the execution; None if it has just left the log."""
        rows = await self._pages.run_rows(query.flow_id)
        newest = self._deciding.runs.run_by_id(RunId(rows[0].run_id)) if rows else None
        if newest is None:
            return None
        return ForkPreparation(
            query.flow_id,
            newest.execution_id,
            [RetainedRun(RunId(row.run_id), StreamId(row.stream_id)) for row in rows if row.ordinal == newest.ordinal],
            query.selector,
            query.new_run_id,
            is_dropping_writes=query.is_dropping_writes,
        )

    async def _answer(self, reading: Reading[ForkPlan | Rejection], *, until: Want) -> ForkPlan | Rejection | None:
        """Give the preparation what it wants to read, with pauses for the loop; None if a run has left the log.

        Of the newest run it gets what there was when it began, so that it comes to an end however fast the run grows.
        """
        try:
            want = next(reading)
            while True:
                await asyncio.sleep(0)
                events: Sequence[StoredEvent] | None = ()
                if want.stream_id != until.stream_id or want.version <= until.version:
                    events = await self._pages.history(want.stream_id, want.version, PORTION_EVENTS)
                if events is None:
                    return None
                want = reading.send([from_stored(stored) for stored in events])
        except StopIteration as finished:
            plan: ForkPlan | Rejection = finished.value
            return plan

    async def _decide(self, query: TimeTravelQuery, plan: ForkPlan | Rejection) -> Answer:
        decided: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        command = TimeTravel(query.flow_id, query.new_run_id, query.reason, query.request_id, query.digest, plan)
        self._deciding.request(command, partial(_resolve, decided))
        return await decided


def _resolve(decided: "asyncio.Future[Answer]", answer: Answer) -> None:
    # The server may have been stopped while the answer was on its way.
    if not decided.done():
        decided.set_result(answer)


_NOT_NEEDED = Rejection(Code.INTERNAL, "a time travel that was answered before needs no plan")
