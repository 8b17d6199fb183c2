"""The JSON shapes of `dex schedule`, made from the server's messages; stable, because scripts read them [SURF-20]."""

from typing import Any

from dexpb.v1 import schedule_service_pb2 as pb
from dextools.cli.values import shown
from dextools.terminal_text import instant_text

_OVERLAPS = ("SKIP", "BUFFER_ONE", "BUFFER_ALL", "CANCEL_OTHER", "TERMINATE_OTHER", "ALLOW_ALL")
_GAPS = ("SHIFT", "SKIP")
_FOLDS = ("FIRST", "LAST", "BOTH")


def schedule_document(info: pb.ScheduleInfo) -> dict[str, Any]:
    """One schedule."""
    spec, policy = info.spec, info.policy
    return {
        "schedule_id": info.schedule_id,
        "status": info.status,
        "note": info.note,
        "spec": {
            "cron": spec.cron or None,
            "interval_ms": spec.interval_ms or None,
            "time_zone": spec.time_zone,
            "start_at": spec.start_at if spec.HasField("start_at") else None,
            "end_at": spec.end_at if spec.HasField("end_at") else None,
            "jitter_ms": spec.jitter_ms,
            "gap_policy": _GAPS[spec.gap_policy],
            "fold_policy": _FOLDS[spec.fold_policy],
        },
        "policy": {
            "overlap": _OVERLAPS[policy.overlap],
            "catch_up_window_ms": policy.catch_up_window_ms,
            "pause_on_failure": policy.pause_on_failure,
        },
        "flow_type": info.flow_type,
        "flow_id": info.flow_id or None,
        "input": shown(info.input),
        "created_at": info.created_at,
        "updated_at": info.updated_at,
        "next_fire_at": info.next_fire_at or None,
        "counts": {
            "planned": info.planned,
            "started": info.started,
            "skipped": info.skipped,
            "missed": info.missed,
            "buffered": info.buffered,
            "skipped_by_reason": dict(sorted(info.skipped_by_reason.items())),
            "is_at_least": info.is_at_least,
        },
        "open": [
            {"scheduled_at": open_.scheduled_at, "flow_id": open_.flow_id, "run_id": open_.run_id or None}
            for open_ in info.open
        ],
    }


def human_schedule(info: pb.ScheduleInfo) -> dict[str, Any]:
    """The same for people, a line each."""
    document = schedule_document(info)
    counts = document.pop("counts")
    reasons = ", ".join(f"{count} {reason}" for reason, count in counts["skipped_by_reason"].items())
    spec = {name: value for name, value in document["spec"].items() if value}
    for name in ("start_at", "end_at"):
        if name in spec:
            spec[name] = instant_text(spec[name])
    return document | {
        "spec": "  ".join(f"{name}={value}" for name, value in spec.items()),
        "policy": "  ".join(f"{name}={value}" for name, value in document["policy"].items()),
        "created_at": instant_text(info.created_at),
        "updated_at": instant_text(info.updated_at),
        "next_fire_at": instant_text(info.next_fire_at),
        "planned": f"{'at least ' if info.is_at_least else ''}{info.planned}",
        "started": info.started,
        "skipped": f"{info.skipped} ({reasons})" if reasons else info.skipped,
        "missed": info.missed,
        "buffered": info.buffered,
        "open": tuple(f"{instant_text(open_.scheduled_at)} {open_.flow_id}" for open_ in info.open),
    }


def outcome_document(outcome: pb.ScheduleOutcome) -> dict[str, Any]:
    """One outcome."""
    return {
        "outcome": outcome.outcome,
        "reason": outcome.reason,
        "first": outcome.first,
        "last": outcome.last,
        "count": outcome.count,
        "is_at_least": outcome.is_at_least,
        "flow_id": outcome.flow_id or None,
        "run_id": outcome.run_id or None,
        "at": outcome.at or None,
    }
