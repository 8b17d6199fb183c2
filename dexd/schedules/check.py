"""What is wrong with a spec, in words for the user [SCHED-3, SCHED-4, SCHED-9]."""

from dexd.core.schedules.spec import ScheduleSpec
from dexd.schedules.cron import CronError, parse_cron
from dexd.schedules.plan import nominals_of, zone

INTERVAL_MS_MIN = 1_000
INTERVAL_MS_MAX = 36_525 * 86_400_000
JITTER_MS_MAX = 86_400_000
"""Longest jitter: fires that are late by more than a day could not be told from others any more, and every search would
have to look that far back."""


def spec_fault(spec: ScheduleSpec, *, now: int, may_be_empty: bool = False) -> str:
    """Say what is wrong; empty if nothing is.

    `now` is where the search for a first fire begins if the spec does not say; `may_be_empty` leaves out that search,
    because a preview of what never fires is just empty.
    """
    if bool(spec.cron) == bool(spec.interval_ms):
        return "a schedule needs exactly one of cron text and interval"
    try:
        zone(spec.time_zone)
        interval_ms = parse_cron(spec.cron) if spec.cron else spec.interval_ms
    except CronError as error:
        return f"cron {spec.cron[:300]!r}: {error}"
    except ValueError as error:
        return str(error)
    if isinstance(interval_ms, int) and not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        return f"interval: {interval_ms} ms is outside 1 s to 100 years"
    if not 0 <= spec.jitter_ms <= JITTER_MS_MAX:
        return f"jitter: {spec.jitter_ms} ms is outside 0 to one day"
    if spec.start_at is not None and spec.end_at is not None and spec.end_at <= spec.start_at:
        return "end_at is not after start_at, so that there is no fire between them"
    if may_be_empty:
        return ""
    begin = now if spec.start_at is None else max(now, spec.start_at)
    if next(iter(nominals_of(spec).after(begin)), None) is None:
        return f"cron {spec.cron!r}: it does not fire within 100 years"
    return ""
