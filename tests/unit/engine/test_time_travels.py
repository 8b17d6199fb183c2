"""Time travel between the log and the kernel, and whoever follows an execution over it [TT-1..5, WAITAPI-2]."""

from collections.abc import Callable, Sequence

import pytest

from dexd.codec.flow_queries import AttributeQuery, AttributeWaitQuery, FlowWaitQuery, RunKey, StepWaitQuery
from dexd.codec.time_travel_requests import TimeTravelQuery
from dexd.codec.views import AttributeView, AttributeWait, FlowWait, StepWait
from dexd.core import commands as c
from dexd.core.forks.selectors import Selector, TimeTravelType
from dexd.core.ids import FlowId, RequestId, RunId, StepExecutionId
from dexd.core.outcome import TimeTravelAccepted
from dexd.core.rejections import Code, Rejection
from dexd.core.values import (
    Condition,
    ConditionKind,
    DecisionKind,
    FlowStatus,
    StepOutcome,
    StepPlan,
    Wait,
    WaitKind,
)
from dexd.engine import time_travels
from dexd.engine.time_travels import TimeTravels
from dexd.log.event_log import RunRow, StoredEvent, TimerRow
from dexd.log.reading import InlinePages, LogPages
from tests.unit.engine.rig import BEGUN_AT, Answers, Rig, stop_command

FLOW = FlowId("f")
FIRST = RunId("run-f")
BEGINNING = Selector(TimeTravelType.BEGINNING)


def query(run_id: str = "fork", selector: Selector = BEGINNING, **changes: object) -> TimeTravelQuery:
    fields: dict[str, object] = {
        "flow_id": FLOW,
        "new_run_id": RunId(run_id),
        "selector": selector,
        "reason": "why",
        "is_dropping_writes": False,
        "request_id": RequestId(f"travel-{run_id}"),
        "digest": b"digest",
        **changes,
    }
    return TimeTravelQuery(**fields)  # type: ignore[arg-type]  # each is of its field's type


def to_step(step: str) -> Selector:
    return Selector(TimeTravelType.STEP_TYPE, step_type=step)


async def travel(rig: Rig, asked: TimeTravelQuery, pages: LogPages | None = None) -> object:
    """Go back; `pages` reads the log instead of what the engine reads it with."""
    travels = rig.engine.time_travels if pages is None else TimeTravels(rig.engine, pages, rig.engine.reads)
    return await rig.read(travels.begin, asked)


class BusyPages(InlinePages):
    """Something happens before each page of a run is read; a page may be gone."""

    def __init__(self, rig: Rig, before: Callable[[int], bool]) -> None:
        """`before` gets the number of the page, and says whether its run is still there."""
        super().__init__(rig.log)
        self._before = before
        self.versions: list[int] = []
        """First version of each page."""

    async def history(self, stream_id: int, from_version: int, limit: int) -> Sequence[StoredEvent] | None:
        self.versions.append(from_version)
        is_there = self._before(len(self.versions))
        return await super().history(stream_id, from_version, limit) if is_there else None


def set_command(value: bytes, request_id: str = "s") -> c.SetAttribute:
    return c.SetAttribute(FLOW, None, "a", value, RequestId(request_id), b"digest")


async def attribute(rig: Rig) -> bytes | None:
    view = await rig.read(rig.engine.reads.attribute, AttributeQuery(RunKey(FLOW, None), "a"))
    assert isinstance(view, AttributeView)
    return view.value


# ---- who follows -----------------------------------------------------------------------------------------------------


async def test_waitapi_2_waiters_follow_a_running_flow_into_the_fork() -> None:
    """For the Flow, for Steps, for an Attribute; none is told that the old run ended."""
    rig = Rig()
    await rig.start()
    flow, pinned, step, value = (Answers() for _ in range(4))
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FLOW, 60_000, None), flow)
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FLOW, 60_000, FIRST), pinned)
    rig.engine.reads.wait_for_step(StepWaitQuery(FLOW, StepExecutionId("Begin-1"), 60_000), step)
    rig.engine.reads.wait_for_attribute(AttributeWaitQuery(FLOW, "a", lambda found: found == b"5", 60_000), value)
    assert await travel(rig, query()) == TimeTravelAccepted(RunId("fork"))
    assert [answers.all for answers in (flow, pinned, step, value)] == [[]] * 4
    await rig.answer(set_command(b"5"))
    assert value.only == AttributeWait(b"5")
    worker = await rig.worker()
    worker.decide(worker.calls[0], DecisionKind.FORCE_COMPLETE, b"7")
    await rig.engine.settled()
    assert step.only == StepWait(StepOutcome.COMPLETED)
    for answers in (flow, pinned):
        assert isinstance(answers.only, FlowWait)
        assert answers.only.run_id == "fork"
        assert answers.only.end is not None
        assert answers.only.end.status is FlowStatus.COMPLETED


async def test_waitapi_2_poll_after_the_end_follows_an_execution_that_runs_again() -> None:
    """The client polls by the run that it was told, which had ended and goes on in another one."""
    rig = Rig()
    await rig.start()
    await rig.answer(stop_command("f"))
    await travel(rig, query())
    told = await rig.read(rig.engine.reads.wait_for_flow, FlowWaitQuery(FLOW, 0, FIRST))
    assert told == FlowWait(RunId("fork"))


async def test_waitapi_3_step_that_ended_before_the_point_has_the_outcome_of_the_old_run() -> None:
    """Over several forks too."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start()
    worker.decide(worker.calls[0], DecisionKind.GO_TO, b"", StepPlan("Next", b"1", False))
    await rig.decided()
    for number in range(2):
        assert isinstance(await travel(rig, query(f"fork-{number}", to_step("Next"))), TimeTravelAccepted)
    wait = StepWaitQuery(FLOW, StepExecutionId("Begin-1"), 0)
    assert await rig.read(rig.engine.reads.wait_for_step, wait) == StepWait(StepOutcome.COMPLETED)
    wait = StepWaitQuery(FLOW, StepExecutionId("Next-1"), 0)
    assert await rig.read(rig.engine.reads.wait_for_step, wait) == StepWait(None)


async def test_arch_10_restored_timers_are_pending_in_the_log() -> None:
    """Those of the run that ended are not [TT-4]."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start(start_step=StepPlan("Begin", b"1", True))
    timer = Condition(ConditionKind.TIMER, duration_ms=60_000)
    worker.wait(worker.calls[0], Wait(WaitKind.ALL_OF, (timer,)))
    await rig.decided()
    await rig.advance(1)
    await rig.answer(set_command(b"1"))
    at = Selector(TimeTravelType.HISTORY_EVENT_TIME, at=rig.clock.at)
    await travel(rig, query(selector=at))
    assert rig.log.pending_timers(1) == []
    assert rig.log.pending_timers(2) == [TimerRow(2, "Begin-1", BEGUN_AT + 60_000)]
    restarted = Rig(rig.log)
    run = restarted.engine.kernel.run(FLOW)
    assert run is not None
    assert run.run_id == "fork"


# ---- plans and the present -------------------------------------------------------------------------------------------


async def test_tt_5_write_that_comes_while_the_log_is_read_is_in_the_fork() -> None:
    """The kernel refuses the plan; the second one only reads what is new, and takes the write in."""
    rig = Rig()
    await rig.start()

    def write_once(page: int) -> bool:
        if page == 3:
            rig.engine.request(set_command(b"5"), Answers())
        return True

    pages = BusyPages(rig, write_once)
    assert await travel(rig, query(), pages) == TimeTravelAccepted(RunId("fork"))
    assert await attribute(rig) == b"5"
    assert pages.versions == [1, 1, 1, 3]


async def test_tt_5_flow_that_outruns_every_plan_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has changed, and the caller may try again."""
    monkeypatch.setattr(time_travels, "ATTEMPTS_MAX", 3)
    rig = Rig()
    await rig.start()

    def write(page: int) -> bool:
        rig.engine.request(set_command(b"5", f"s{page}"), Answers())
        return True

    refused = await travel(rig, query(), BusyPages(rig, write))
    assert isinstance(refused, Rejection)
    assert refused.code is Code.TIME_TRAVEL_OUTRUN
    assert refused.retry_after_ms is not None
    run = rig.engine.kernel.run(FLOW)
    assert run is not None
    assert run.run_id == FIRST


async def test_two_time_travels_at_once_come_one_after_the_other() -> None:
    """The second one finds another run than it was prepared for, and is prepared again."""
    rig = Rig()
    await rig.start()
    first, second = Answers(), Answers()
    rig.engine.time_travels.begin(query("fork-1"), first)
    rig.engine.time_travels.begin(query("fork-2"), second)
    while not (first.all and second.all):
        await rig.decided()
    assert (first.only, second.only) == (TimeTravelAccepted(RunId("fork-1")), TimeTravelAccepted(RunId("fork-2")))
    ended = FlowStatus.TERMINATED
    assert [row.status for row in rig.log.run_rows(FLOW)] == [FlowStatus.RUNNING, ended, ended]


async def test_rpc_12_repeat_of_a_request_needs_no_plan() -> None:
    """Nothing of the log is read for it; other content is a conflict."""
    rig = Rig()
    await rig.start()
    accepted = await travel(rig, query())
    pages = BusyPages(rig, lambda _: False)
    assert await travel(rig, query("other", request_id=RequestId("travel-fork")), pages) == accepted
    conflict = await travel(rig, query("other", request_id=RequestId("travel-fork"), digest=b"other"), pages)
    assert isinstance(conflict, Rejection)
    assert conflict.code is Code.REQUEST_CONFLICT
    assert pages.versions == []


async def test_tt_3_flow_that_does_not_exist_is_not_found() -> None:
    refused = await travel(Rig(), query())
    assert isinstance(refused, Rejection)
    assert refused.code is Code.FLOW_NOT_FOUND


async def test_keep_3_run_that_leaves_the_log_while_it_is_read_is_looked_for_again() -> None:
    rig = Rig()
    await rig.start()
    assert await travel(rig, query(), BusyPages(rig, lambda page: page > 1)) == TimeTravelAccepted(RunId("fork"))


class EmptyPages(InlinePages):
    """The execution leaves the log after it was found."""

    async def run_rows(self, flow_id: str) -> Sequence[RunRow]:
        return ()


async def test_keep_3_execution_that_leaves_the_log_is_given_up() -> None:
    rig = Rig()
    await rig.start()
    refused = await travel(rig, query(), EmptyPages(rig.log))
    assert isinstance(refused, Rejection)
    assert refused.code is Code.TIME_TRAVEL_OUTRUN
