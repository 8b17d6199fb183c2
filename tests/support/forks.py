"""Time travel in unit tests of the core: what the shell prepares from its log is prepared from recorded events."""

from collections.abc import Callable, Iterable, Sequence

from dexd.core import commands as c
from dexd.core.events import FlowStarted
from dexd.core.forks.plan import ForkPlan
from dexd.core.forks.preparation import ForkPreparation, Reading, RetainedRun
from dexd.core.forks.selectors import Selector, TimeTravelType
from dexd.core.ids import FlowId, RequestId, RunId, StepExecutionId
from dexd.core.outcome import RecordedEvent
from dexd.core.rejections import Rejection
from dexd.core.values import Method
from tests.support.builders import FLOW, digest
from tests.support.given import Given

FORK = RunId("fork-1")
FORK_2 = RunId("fork-2")
BEGINNING = Selector(TimeTravelType.BEGINNING)


def at_time(at: int) -> Selector:
    return Selector(TimeTravelType.HISTORY_EVENT_TIME, at=at)


def at_type(step_type: str) -> Selector:
    return Selector(TimeTravelType.STEP_TYPE, step_type=step_type)


def at_step(step_id: str, method: Method = Method.EXECUTE) -> Selector:
    return Selector(TimeTravelType.STEP_EXECUTION_ID, step_execution_id=StepExecutionId(step_id), method=method)


class Log:
    """The events of one execution, as they stand at the moment; streams may be deleted from it."""

    def __init__(self, events: Callable[[], Sequence[RecordedEvent]], *, page: int = 3) -> None:
        self._events = events
        self._page = page
        self.deleted: set[int] = set()

    def execution_id(self) -> RunId:
        """The first run, deleted or not."""
        return next(event.event.run_id for event in self._events() if isinstance(event.event, FlowStarted))

    def retained(self) -> list[RetainedRun]:
        runs = [
            RetainedRun(recorded.event.run_id, recorded.stream_id)
            for recorded in self._events()
            if isinstance(recorded.event, FlowStarted) and recorded.stream_id not in self.deleted
        ]
        return list(reversed(runs))

    def answer(self, reading: Reading[ForkPlan | Rejection]) -> ForkPlan | Rejection:
        """Give the generator whatever it wants to read, a few events at a time."""
        page: list[RecordedEvent] | None = None
        while True:
            try:
                want = next(reading) if page is None else reading.send(page)
            except StopIteration as finished:
                plan: ForkPlan | Rejection = finished.value
                return plan
            stream = [event for event in self._events() if event.stream_id == want.stream_id]
            page = [event for event in stream if event.version >= want.version][: self._page]


def preparation(
    log: Log, selector: Selector, *, run_id: RunId = FORK, flow_id: str = FLOW, is_dropping_writes: bool = False
) -> ForkPreparation:
    return ForkPreparation(
        FlowId(flow_id),
        log.execution_id(),
        log.retained(),
        selector,
        run_id,
        is_dropping_writes=is_dropping_writes,
    )


def execution_log(streams: Iterable[Sequence[RecordedEvent]], flow_id: str) -> Log:
    """The log of the latest execution of a Flow ID, of which there is one."""
    own: dict[int, list[RecordedEvent]] = {}
    for events in streams:
        begun = events[0].event
        if isinstance(begun, FlowStarted) and begun.flow_id == flow_id:
            own.setdefault(begun.ordinal, []).extend(events)
    latest = own[max(own)]
    return Log(lambda: latest, page=50)


def prepared(
    before: Given, selector: Selector, *, run_id: RunId = FORK, is_dropping_writes: bool = False
) -> ForkPlan | Rejection:
    log = Log(lambda: before.log)
    return log.answer(preparation(log, selector, run_id=run_id, is_dropping_writes=is_dropping_writes).plan())


def time_travel(
    before: Given,
    selector: Selector,
    *,
    run_id: RunId = FORK,
    is_dropping_writes: bool = False,
    reason: str = "",
    request_id: str = "travel",
    content: str = "",
) -> c.TimeTravel:
    """The command, with a plan made from what has happened until now."""
    plan = prepared(before, selector, run_id=run_id, is_dropping_writes=is_dropping_writes)
    return c.TimeTravel(FlowId(FLOW), run_id, reason, RequestId(request_id), digest(content or request_id), plan)
