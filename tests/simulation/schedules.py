"""Clients of schedules, and the account that must add up whatever strikes [SCHED-2, SCHED-12]."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random

from dexd.codec.event_codec import from_stored, is_of_run, stream_event_from_stored
from dexd.core.events import FlowStarted
from dexd.core.ids import ScheduleId
from dexd.core.schedules import commands as sc
from dexd.core.schedules import events as e
from dexd.core.schedules.evolve import evolve_schedule
from dexd.core.schedules.occurrences import occurrence_id
from dexd.core.schedules.spec import OverlapPolicy, ScheduleAction, SchedulePolicy, ScheduleSpec
from dexd.core.schedules.state import ScheduleState
from dexd.log.event_log import StoredEvent
from tests.simulation.answers import value
from tests.simulation.requests import Requests, start_plan

_PLANNED = (e.OccurrenceStarting, e.OccurrenceBuffered, e.OccurrencesPassed)


async def drive_schedule(requests: Requests, random: Random, name: str) -> None:
    """Let a schedule fire for a while, pause it now and then, and delete it."""
    schedule_id = ScheduleId(name)
    hops = value(random.randint(0, 3))
    action = ScheduleAction("Chain", start_plan("Chain", hops), b"d")
    policy = SchedulePolicy(random.choice(list(OverlapPolicy)), random.choice([0, 20_000, 3_600_000]))
    spec = ScheduleSpec(interval_ms=random.choice([1_000, 2_000, 5_000]))
    await requests.drive(lambda request_id: sc.CreateSchedule(schedule_id, spec, action, policy, request_id, b"d"))
    for _ in range(random.randint(1, 3)):
        await asyncio.sleep(random.uniform(0, 8))
        if random.random() < 0.5:
            await requests.drive(lambda request_id: sc.PauseSchedule(schedule_id, request_id, b"d", "simulated"))
            await asyncio.sleep(random.uniform(0, 8))
            await requests.drive(lambda request_id: sc.ResumeSchedule(schedule_id, request_id, b"d"))
        else:
            await requests.drive(lambda request_id: sc.TriggerSchedule(schedule_id, request_id, b"d"))
    await requests.drive(lambda request_id: sc.DeleteSchedule(schedule_id, request_id, b"d"))


def check_schedules(everything: Sequence[StoredEvent], world: str) -> None:
    """Every planned fire of every schedule has one outcome, and every occurrence started once."""
    starts: Counter[str] = Counter()
    streams: dict[int, list[StoredEvent]] = {}
    for stored in everything:
        if not is_of_run(stored):
            streams.setdefault(stored.stream_id, []).append(stored)
        elif stored.type == FlowStarted.__name__:
            event = from_stored(stored).event
            assert isinstance(event, FlowStarted)
            if event.terms is not None and event.terms.schedule is not None:
                starts[event.request_id] += 1
    for events in streams.values():
        if events[0].type == e.ScheduleCreated.__name__:
            _check_schedule(events, starts, world)


def _check_schedule(events: Sequence[StoredEvent], starts: Counter[str], world: str) -> None:
    state: ScheduleState | None = None
    planned: list[int] = []
    by_hand = 0
    deleted_at = 0
    for recorded in map(stream_event_from_stored, events):
        event = recorded.event
        state = evolve_schedule(state, recorded)
        if isinstance(event, e.ScheduleDeleted):
            deleted_at = recorded.at
        elif isinstance(event, e.ScheduleTriggered):
            by_hand += 1
        elif isinstance(event, _PLANNED) and not event.by_hand and not getattr(event, "was_buffered", False):
            planned += _nominals(event, state.spec.interval_ms)
    assert state is not None
    where = f"{world}: schedule {state.schedule_id}"
    assert state.is_closed, f"{where} was not deleted, or a start was not answered"
    interval_ms = state.spec.interval_ms
    first = state.created_at // interval_ms * interval_ms + interval_ms
    assert sorted(planned) == planned, f"{where}: fires out of order [SCHED-13]"
    # What was due in the last pause, or in the instant of the deletion, need not be decided any more.
    expected = list(range(first, (planned[-1] if planned else 0) + 1, interval_ms))
    assert planned == expected, f"{where}: {len(planned)} outcomes for {len(expected)} fires [SCHED-12]"
    missing = (deleted_at - (planned[-1] if planned else state.created_at)) // interval_ms
    assert missing <= 1 or state.pauses, f"{where}: {missing} fires before its deletion have no outcome [SCHED-12]"
    counts = state.counts
    total = counts.started + counts.missed + sum(counts.skipped.values())
    assert total == len(planned) + by_hand, f"{where}: {counts} for {len(planned)} and {by_hand} fires [SCHED-12]"
    begun = [n for n in planned if starts[occurrence_id(state.schedule_id, n)]]
    assert all(starts[occurrence_id(state.schedule_id, n)] == 1 for n in begun), f"{where}: started twice [SCHED-2]"


def _nominals(event: e.OccurrenceStarting | e.OccurrenceBuffered | e.OccurrencesPassed, interval_ms: int) -> list[int]:
    if not isinstance(event, e.OccurrencesPassed):
        return [event.nominal]
    # The end of a counted span is no fire itself; a pause may be without any.
    nominals = list(range(event.first, event.last + 1, interval_ms)) if event.count else []
    assert len(nominals) == event.count, f"{event} is about {len(nominals)} fires [SCHED-14]"
    return nominals
