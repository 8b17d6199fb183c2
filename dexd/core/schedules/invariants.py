"""What must hold for every schedule between two commands; for tests, as `dexd.core.invariants`."""

from collections.abc import Iterator

from dexd.core.schedules.desk import ScheduleDesk
from dexd.core.schedules.fire_pass import BUFFER_MAX, next_waiting
from dexd.core.schedules.state import ScheduleState, ScheduleStatus


def schedule_violations(desk: ScheduleDesk) -> list[str]:
    """Check all schedules in memory; an empty list means sound."""
    return [f"schedule {state.schedule_id!r}: {fault}" for state in desk for fault in _faults(desk, state)]


def _faults(desk: ScheduleDesk, state: ScheduleState) -> Iterator[str]:
    if next_waiting(state) and not state.open:
        yield "an occurrence waits for nothing [SCHED-11]"
    if len(state.buffer) > BUFFER_MAX:
        yield f"{len(state.buffer)} occurrences wait [SCHED-11]"
    if state.is_deleted and state.buffer:
        yield "it is deleted and occurrences wait [SCHED-15]"
    is_wanting, is_armed = desk.clockwork.stands(state)
    if is_wanting and is_armed:
        yield "its fires are known and wanted"
    if state.status is not ScheduleStatus.ACTIVE and (is_armed or (is_wanting and not state.pauses)):
        yield "it does not fire and costs work [SCHED-14]"
