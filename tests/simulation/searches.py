"""Somebody who searches all the time: every page must agree with what the log says [SEARCH-3, SEARCH-4, SEARCH-7].

What a query must find is told by a naive model of its own: the events folded, fields by name, conditions as functions.
While things change, it is compared for the executions that do not: nothing of theirs was committed between question and
answer. Those must neither be missed, nor found for nothing, nor found twice.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any, TypeAlias

from dexd.codec.event_codec import from_stored, is_of_run
from dexd.codec.search_requests import CountQuery, FlowsCounted, FlowsFound, SearchQuery
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState, StepPhase
from dexd.core.index_values import IndexKeyTypes, IndexType
from dexd.core.rejections import Rejection
from dexd.engine.engine import Engine
from dexd.engine.ports import OnAnswer
from tests.simulation.retention import KeptLog
from tests.simulation.server import SimulatedCrash, SimulatedServer

KEYS: IndexKeyTypes = {"label": IndexType.KEYWORD, "read": IndexType.INT}
"""Index keys of the workload: what jobs set, and how many messages an Inbox has read."""

PATIENCE_SECONDS = 10.0
PAGES_MAX = 500

Fields: TypeAlias = Mapping[str, Any]
"""What a row shows; a field without a value is None, one of Steps is a set."""
Holds: TypeAlias = Callable[[Fields], bool]

_PHASES = {
    StepPhase.READY: "queued",
    StepPhase.RUNNING: "running",
    StepPhase.BACKOFF: "backoff",
    StepPhase.WAITING: "waiting",
}

ATOMS: tuple[tuple[str, Holds], ...] = (
    ("Status = 'RUNNING'", lambda row: row["Status"] == "RUNNING"),
    (
        "Status IN ('FAILED', 'CANCELED', 'TERMINATED')",
        lambda row: row["Status"] in ("FAILED", "CANCELED", "TERMINATED"),
    ),
    ("FlowType != 'Inbox'", lambda row: row["FlowType"] != "Inbox"),
    ("FlowType IN ('Chain', 'Child', 'Parent')", lambda row: row["FlowType"] in ("Chain", "Child", "Parent")),
    ("FlowId LIKE 'client-0/%'", lambda row: row["FlowId"].startswith("client-0/")),
    ("CloseTime IS NULL", lambda row: row["CloseTime"] is None),
    ("ParentFlowId IS NOT NULL", lambda row: row["ParentFlowId"] is not None),
    ("ScheduleId LIKE 'client-%'", lambda row: row["ScheduleId"] is not None),
    ("StepStatus = 'waiting'", lambda row: "waiting" in row["StepStatus"]),
    ("StepStatus != 'running'", lambda row: bool(row["StepStatus"]) and "running" not in row["StepStatus"]),
    ("StepStatus IN ('queued', 'backoff')", lambda row: bool(row["StepStatus"] & {"queued", "backoff"})),
    ("ActiveStepTypes = 'Read'", lambda row: "Read" in row["ActiveStepTypes"]),
    ("ActiveStepTypes IS NULL", lambda row: not row["ActiveStepTypes"]),
    ("LastError LIKE 'SimulatedError: %'", lambda row: (row["LastError"] or "").startswith("SimulatedError: ")),
    ("label = 'urgent'", lambda row: row["label"] == "urgent"),
    ("label IS NULL", lambda row: row["label"] is None),
    ("`read` >= 3", lambda row: row["read"] is not None and row["read"] >= 3),
    ("`read` < 2", lambda row: row["read"] is not None and row["read"] < 2),
)
"""Conditions, and what they mean. One on a missing value is false, the opposite of that is true [SEARCH-4]."""

ORDERS: tuple[tuple[str, tuple[tuple[str, bool], ...]], ...] = (
    ("", (("StartTime", True),)),
    (" ORDER BY FlowId", (("FlowId", False),)),
    (" ORDER BY FlowType DESC, StartTime", (("FlowType", True), ("StartTime", False))),
    (" ORDER BY `read` DESC", (("read", True),)),
    (" ORDER BY CloseTime", (("CloseTime", False),)),
)
"""Orders, and the fields they sort by, which of them downwards; rows without a value come last."""


def draw_searches(seed: int) -> bool:
    """Whether somebody searches while things happen, as in every other world; at the end somebody always does."""
    return Random(f"searches in {seed}").random() < 0.5


@dataclass(frozen=True)
class Question:
    """A query as text and as the naive model has it."""

    text: str
    holds: Holds
    order: tuple[tuple[str, bool], ...]


def draw_question(random: Random) -> Question:
    """One or two conditions, perhaps turned round, in some order."""
    text, holds = _term(random)
    if random.random() < 0.4:
        second, also = _term(random)
        first = holds
        if random.random() < 0.5:
            text, holds = f"{text} AND {second}", lambda row: first(row) and also(row)
        else:
            text, holds = f"({text} OR {second})", lambda row: first(row) or also(row)
    suffix, order = random.choice(ORDERS)
    return Question(text + suffix, holds, order)


def _term(random: Random) -> tuple[str, Holds]:
    text, holds = random.choice(ATOMS)
    return (f"NOT ({text})", lambda row: not holds(row)) if random.random() < 0.25 else (text, holds)


class Executions:
    """What the log says of all executions, kept up to date event by event."""

    def __init__(self, log: KeptLog) -> None:
        self._log = log
        self._folded = 0
        self._runs: dict[int, RunState] = {}

    def now(self) -> dict[int, RunState]:
        """The newest retained run of each execution, by stream."""
        everything = self._log.everything
        for stored in everything[self._folded :]:
            if is_of_run(stored):
                self._runs[stored.stream_id] = evolve(self._runs.get(stored.stream_id), from_stored(stored))
        self._folded = len(everything)
        newest = {
            (run.flow_id, run.ordinal): run
            for stream_id, run in sorted(self._runs.items())
            if self._log.is_retained(stream_id)
        }
        return {run.stream_id: run for run in newest.values()}


def fields_of(run: RunState) -> Fields:
    """The row of an execution."""
    terms, attributes = run.terms, run.attributes
    shown = {
        "FlowId": run.flow_id,
        "FlowType": run.flow_type,
        "Status": run.status.name,
        "StartTime": run.started_at,
        "CloseTime": run.closed_at or None,
        "ParentFlowId": None if terms is None or terms.parent is None else terms.parent.flow_id,
        "ScheduleId": None if terms is None or terms.schedule is None else terms.schedule.schedule_id,
        "StepStatus": {_PHASES[step.phase] for step in run.steps.values()},
        "ActiveStepTypes": {step.step_type for step in run.steps.values() if step.has_wait_for},
        "LastError": _last_error(run),
    }
    return shown | {key: json.loads(attributes[key]) if key in attributes else None for key in KEYS}


def _last_error(run: RunState) -> str | None:
    """What the last failed attempt said, unless the Flow FAILED with something else since."""
    if run.status.name == "FAILED" and run.error_type.name not in ("WORKER_API_FAILED", "INVALID_USER_FLOW_CODE"):
        return f"{run.error_type.name}: {run.error_message}"
    return None if run.last_error is None else f"{run.last_error.error_type}: {run.last_error.detail}"


class Searcher:
    """Asks now and then, page by page."""

    def __init__(self, seed: int, server: SimulatedServer, world: str) -> None:
        self._random = Random(f"searches of {seed}")
        self._server = server
        self._world = world
        self._executions = Executions(server.log)
        self.asked = 0
        self.found = 0
        """Rows of unchanged executions that answers had."""
        self.compared = 0
        """Unchanged executions that answers were compared for."""

    async def live(self) -> None:
        """Ask until the world ends."""
        while True:
            await asyncio.sleep(self._random.expovariate(1 / 4))
            await self.ask(draw_question(self._random))

    async def ask_everything(self) -> None:
        """Ask for each condition once, when nothing changes any more."""
        for text, holds in ATOMS:
            await self.ask(Question(text, holds, ORDERS[0][1]))
        await self._count()

    async def ask(self, question: Question) -> None:
        """Read all pages of an answer and compare, unless the server goes away meanwhile."""
        before = self._versions()
        rows = await self._read(question.text)
        if rows is None:
            return
        executions = self._executions.now()
        unchanged = {
            stream_id: fields_of(run) for stream_id, run in executions.items() if before.get(stream_id) == run.version
        }
        self.asked += 1
        self.compared += len(unchanged)
        where = f"{self._world}: {question.text!r}"
        found = [stream_id for stream_id in rows if stream_id in unchanged]
        self.found += len(found)
        assert len(found) == len(set(found)), f"{where} found {found}, one of them twice [SEARCH-8]"
        expected = {stream_id for stream_id, row in unchanged.items() if question.holds(row)}
        wrong = [unchanged[stream_id] for stream_id in sorted(expected ^ set(found))]
        assert not wrong, f"{where} is wrong about {wrong} [SEARCH-7]"
        for earlier, later in pairwise(unchanged[stream_id] for stream_id in found):
            assert _compare(question.order, earlier, later) <= 0, f"{where}: {earlier} before {later} [SEARCH-7]"

    def _versions(self) -> dict[int, int]:
        return {stream_id: run.version for stream_id, run in self._executions.now().items()}

    async def _read(self, text: str) -> list[int] | None:
        """Streams of all rows, page by page."""
        limit = self._random.choice([1, 3, 100])
        rows: list[int] = []
        after = None
        for _ in range(PAGES_MAX):
            query = SearchQuery(text, limit, after, KEYS)
            found: FlowsFound | None = await self._answer(partial(_search, query))
            if found is None:
                return None
            rows += [run.listed.row.stream_id for run in found.page.runs]
            if not found.page.has_more:
                return rows
            after = found.page.runs[-1].position
        raise AssertionError(f"{self._world}: {text!r} has no end of pages [SEARCH-8]")

    async def _count(self) -> None:
        """[SEARCH-8] Counts by Status are those of the rows, when nothing changes."""
        before = self._server.log.last_seq
        query = CountQuery("", "Status", KEYS)
        counted: FlowsCounted | None = await self._answer(partial(_count, query))
        if counted is None or self._server.log.last_seq != before:
            return
        statuses = [run.status.name for run in self._executions.now().values()]
        expected = {status: statuses.count(status) for status in statuses}
        assert (counted.total, counted.groups) == (len(statuses), expected), f"{self._world}: {counted}, not {expected}"

    async def _answer(self, ask: Callable[[Engine, OnAnswer[Any]], None]) -> Any:
        """The answer; None if the server goes away, or cannot answer now."""
        engine = self._server.engine
        if engine is None:
            return None
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            ask(engine, lambda answer: None if reply.done() else reply.set_result(answer))
            async with asyncio.timeout(PATIENCE_SECONDS):
                answer = await reply
        except (TimeoutError, SimulatedCrash):
            return None
        return None if isinstance(answer, Rejection) or self._server.engine is not engine else answer


def _search(query: SearchQuery, engine: Engine, take: OnAnswer[Any]) -> None:
    engine.searches.search(query, take)


def _count(query: CountQuery, engine: Engine, take: OnAnswer[Any]) -> None:
    engine.searches.count(query, take)


def _compare(order: Sequence[tuple[str, bool]], a: Fields, b: Fields) -> int:
    """Which of two rows comes first; equal ones by Flow ID."""
    for field, is_descending in (*order, ("FlowId", False)):
        first, second = a[field], b[field]
        if first == second:
            continue
        if first is None or second is None:
            return 1 if first is None else -1
        return 1 if (first > second) != is_descending else -1
    return 0
