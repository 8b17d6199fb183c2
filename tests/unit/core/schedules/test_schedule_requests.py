"""What clients command about schedules, and what is refused [SCHED-1, SCHED-15]."""

import pytest

from dexd.core import commands as c
from dexd.core.config import KernelConfig
from dexd.core.ids import FlowId, RequestId, RunId, ScheduleId, StreamId
from dexd.core.kernel import Kernel
from dexd.core.outcome import Outcome, RecordedStreamEvent, ScheduleAccepted
from dexd.core.rejections import Code, Rejection
from dexd.core.schedules import commands as sc
from dexd.core.schedules import events as e
from dexd.core.schedules.book import CLOSED_MAX
from dexd.core.schedules.evolve import evolve_schedule
from dexd.core.schedules.spec import OverlapPolicy, SchedulePolicy, ScheduleSpec
from dexd.core.schedules.state import REQUESTS_MAX, ScheduleState, ScheduleStatus
from dexd.core.streams import StreamKind, summary_of
from dexd.core.values import FlowStatus, RequestRecord
from dexd.core.wanted import StreamRef
from tests.support.schedule_builders import ACTION, SCHEDULE, create_schedule, schedule_created

T0 = 1_000_000


class Stage:
    """A kernel and what it decided."""

    def __init__(self) -> None:
        self.kernel = Kernel(KernelConfig(), last_stream_id=0)
        self.kernel.handle(c.BeginServing(), now=T0)
        self.now = T0
        self.events: list[RecordedStreamEvent] = []

    def do(self, command: c.Command) -> Outcome:
        self.now += 1
        outcome = self.kernel.handle(command, now=self.now)
        self.events += outcome.stream_events
        return outcome

    @property
    def state(self) -> ScheduleState:
        state = self.kernel.schedules.get(SCHEDULE)
        assert state is not None
        return state

    def refused(self, command: c.Command) -> Code:
        reply = self.do(command).reply
        assert isinstance(reply, Rejection)
        assert reply.fields["schedule_id"] == SCHEDULE
        return reply.code


def update(request_id: str = "update", digest: bytes = b"d", **parts: object) -> sc.UpdateSchedule:
    return sc.UpdateSchedule(SCHEDULE, RequestId(request_id), digest, **parts)  # type: ignore[arg-type]  # named parts


def pause(request_id: str = "pause", note: str = "why") -> sc.PauseSchedule:
    return sc.PauseSchedule(SCHEDULE, RequestId(request_id), b"d", note)


def resume(request_id: str = "resume") -> sc.ResumeSchedule:
    return sc.ResumeSchedule(SCHEDULE, RequestId(request_id), b"d")


def delete(request_id: str = "delete") -> sc.DeleteSchedule:
    return sc.DeleteSchedule(SCHEDULE, RequestId(request_id), b"d")


def test_sched_1_creation_is_one_event_and_a_repeat_is_none() -> None:
    stage = Stage()
    assert stage.do(create_schedule()).reply == ScheduleAccepted()
    assert stage.do(create_schedule()).reply == ScheduleAccepted()
    assert [recorded.event for recorded in stage.events] == [schedule_created()]
    assert stage.refused(create_schedule(digest=b"other")) is Code.REQUEST_CONFLICT
    assert stage.refused(create_schedule(request_id="other")) is Code.SCHEDULE_ALREADY_EXISTS


@pytest.mark.parametrize("command", [update(), pause(), resume(), delete()], ids=lambda command: type(command).__name__)
def test_sched_1_unknown_and_deleted_ones_are_not_found(command: c.Command) -> None:
    stage = Stage()
    assert stage.refused(command) is Code.SCHEDULE_NOT_FOUND
    stage.do(create_schedule())
    stage.do(delete("gone"))
    assert stage.refused(command) is Code.SCHEDULE_NOT_FOUND


def test_sched_15_update_replaces_parts_from_now_on() -> None:
    stage = Stage()
    stage.do(create_schedule())
    spec = ScheduleSpec(cron="0 5 * * *")
    assert stage.do(update(spec=spec)).reply == ScheduleAccepted()
    state = stage.state
    assert (state.spec, state.action, state.since, state.through, state.revision) == (
        spec,
        ACTION,
        T0 + 2,
        T0 + 2,
        2,
    )
    stage.do(update("another", policy=SchedulePolicy(OverlapPolicy.ALLOW_ALL)))
    assert (state.spec, state.policy.overlap, state.revision) == (spec, OverlapPolicy.ALLOW_ALL, 2)
    assert stage.refused(update("another", b"x")) is Code.REQUEST_CONFLICT


def test_sched_1_pause_keeps_its_note_until_it_is_resumed() -> None:
    stage = Stage()
    stage.do(create_schedule())
    assert stage.do(resume()).reply == ScheduleAccepted()
    assert len(stage.events) == 1
    stage.do(pause())
    stage.do(pause())
    assert (stage.state.status, stage.state.note, len(stage.events)) == (ScheduleStatus.PAUSED, "why", 2)
    stage.do(resume())
    assert (stage.state.status, stage.state.note, stage.state.through) == (ScheduleStatus.ACTIVE, "", stage.now)


def test_sched_1_a_deleted_one_can_be_created_again() -> None:
    stage = Stage()
    stage.do(create_schedule())
    assert stage.do(delete()).reply == ScheduleAccepted()
    assert stage.state.is_closed
    assert stage.do(delete()).reply == ScheduleAccepted()
    stage.do(create_schedule(request_id="again"))
    assert (stage.state.stream_id, stage.state.status) == (2, ScheduleStatus.ACTIVE)
    assert len(list(stage.kernel.schedules)) == 2


def test_gen_8_the_newest_requests_are_remembered() -> None:
    stage = Stage()
    stage.do(create_schedule())
    for number in range(REQUESTS_MAX + 5):
        stage.do(pause(f"pause-{number}"))
    assert len(stage.state.requests) == REQUESTS_MAX
    assert "create" not in stage.state.requests


def test_arch_8_closed_ones_leave_memory() -> None:
    stage = Stage()
    for number in range(CLOSED_MAX + 1):
        stage.do(create_schedule(f"s{number}"))
        stage.do(sc.DeleteSchedule(ScheduleId(f"s{number}"), RequestId("delete"), b"d"))
    assert stage.kernel.schedules.get(ScheduleId("s0")) is None
    assert len(list(stage.kernel.schedules)) == CLOSED_MAX
    gone = sc.DeleteSchedule(ScheduleId("s0"), RequestId("delete"), b"d")
    assert stage.kernel.wanted(gone) == StreamRef(StreamKind.SCHEDULE, "s0")
    assert stage.kernel.wanted(sc.DeleteSchedule(ScheduleId("s9"), RequestId("delete"), b"d")) is None


def test_arch_8_an_older_one_of_the_same_id_leaves_alone() -> None:
    stage = Stage()
    stage.do(create_schedule())
    stage.do(delete())
    stage.do(create_schedule(request_id="again"))
    for number in range(CLOSED_MAX):
        stage.do(create_schedule(f"s{number}"))
        stage.do(sc.DeleteSchedule(ScheduleId(f"s{number}"), RequestId("delete"), b"d"))
    assert stage.state.stream_id == 2
    assert stage.kernel.stream(StreamId(2)) is stage.state


def test_keep_1_a_deleted_one_that_leaves_the_log_leaves_memory() -> None:
    """[KEEP-1] Counted from its deletion; an open one of the same ID stays."""
    stage = Stage()
    stage.do(create_schedule())
    old = stage.state
    assert (old.closed_at, summary_of(old).closed_at) == (0, 0)
    stage.do(delete())
    assert (old.closed_at, summary_of(old).closed_at) == (stage.now, stage.now)
    stage.do(create_schedule(request_id="again"))
    for stream_id in (old.stream_id, stage.state.stream_id):
        stage.kernel.forget_stream(stream_id)
    assert [state.stream_id for state in stage.kernel.schedules] == [stage.state.stream_id]
    stage.do(delete("another"))
    stage.kernel.forget_stream(stage.state.stream_id)
    assert stage.kernel.schedules.get(SCHEDULE) is None


def test_keep_1_a_deleted_one_is_kept_from_the_answer_to_its_last_start_on() -> None:
    """[KEEP-1, SCHED-12] Nothing can happen to it only then."""
    state = evolve_schedule(None, RecordedStreamEvent(StreamId(1), 1, T0, schedule_created()))
    request = RequestRecord(RequestId("delete"), b"d")
    starting = e.OccurrenceStarting(T0, FlowId("f"), by_hand=False, was_buffered=False)
    evolve_schedule(state, RecordedStreamEvent(StreamId(1), 2, T0 + 2, starting))
    evolve_schedule(state, RecordedStreamEvent(StreamId(1), 3, T0 + 3, e.ScheduleDeleted(request)))
    assert (state.is_closed, state.closed_at) == (False, 0)
    started = e.OccurrenceStarted(T0, RunId("run"), FlowId("f"))
    evolve_schedule(state, RecordedStreamEvent(StreamId(1), 4, T0 + 90, started))
    evolve_schedule(state, RecordedStreamEvent(StreamId(1), 5, T0 + 99, e.OccurrenceClosed(T0, FlowStatus.COMPLETED)))
    assert (state.is_closed, state.closed_at) == (True, T0 + 90)


def test_arch_2_restored_ones_are_adopted_newest_last_or_first() -> None:
    request = RequestRecord(RequestId("delete"), b"d")
    old = evolve_schedule(None, RecordedStreamEvent(StreamId(1), 1, T0, schedule_created()))
    evolve_schedule(old, RecordedStreamEvent(StreamId(1), 2, T0, e.ScheduleDeleted(request)))
    new = evolve_schedule(None, RecordedStreamEvent(StreamId(2), 1, T0, schedule_created()))
    for order in ((old, new), (new, old)):
        kernel = Kernel(KernelConfig(), last_stream_id=2)
        for state in order:
            kernel.adopt_stream(state)
        assert kernel.schedules.get(SCHEDULE) is new


def test_arch_2_fold_refuses_a_log_that_cannot_have_been_written() -> None:
    created = RecordedStreamEvent(StreamId(1), 1, T0, schedule_created())
    with pytest.raises(TypeError, match="begins with ScheduleCreated, not SchedulePaused"):
        evolve_schedule(None, RecordedStreamEvent(StreamId(1), 1, T0, e.SchedulePaused("")))
    with pytest.raises(TypeError, match="begun already"):
        evolve_schedule(evolve_schedule(None, created), created)
