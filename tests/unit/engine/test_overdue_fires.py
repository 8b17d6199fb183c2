"""Fires that came due while nobody looked, e.g. because the machine slept, and what is asked first afterwards."""

from dexd.codec.event_codec import stream_event_from_stored
from dexd.core.ids import RequestId
from dexd.core.schedules import commands as sc
from dexd.core.schedules.events import OccurrencesPassed, OccurrenceStarting, ScheduleDeleted
from tests.support.schedule_builders import SCHEDULE, create_schedule
from tests.unit.engine.rig import Rig

MINUTE_MS = 60_000


async def test_sched_12_fires_that_are_overdue_have_an_outcome_before_their_schedule_is_deleted() -> None:
    rig = Rig()
    await rig.answer(create_schedule())
    await rig.decided()
    rig.clock.at += 20 * MINUTE_MS  # more than were computed ahead
    await rig.answer(sc.DeleteSchedule(SCHEDULE, RequestId("delete"), b"d"))
    events = [stream_event_from_stored(stored).event for stored in rig.log.read_all(1, 100) if stored.stream_id == 1]
    before = events[: [type(event) for event in events].index(ScheduleDeleted)]
    passed = sum(event.count for event in before if isinstance(event, OccurrencesPassed))
    assert passed + sum(isinstance(event, OccurrenceStarting) for event in before) == 20
