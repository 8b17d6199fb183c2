"""Live state of one run as JSON, for people and programs [HIST-1]: everything that a decision about it could read.

How much is shown is bounded. A value above 64 KiB is `{"omitted_bytes": n}`, and so are those of one Step beyond
256 KiB together. Entries of lists take their bytes from a budget of 4 MiB, in the order in which `live_state` builds
its parts; what no longer fits is counted in `omitted`.
"""

from collections.abc import Iterator
from functools import partial

import msgspec

from dexd.codec.budget import Budget, bounded_value
from dexd.codec.json_parts import Json
from dexd.codec.live_step_view import show_step
from dexd.core.config import MAP_KEY_SEPARATOR
from dexd.core.flow.standing import priority_of
from dexd.core.flow.state import RunState
from dexd.core.matching.calls import Call, CallStage
from dexd.core.matching.dispatcher import Dispatcher
from dexd.core.terms import FlowConfig
from dexd.core.values import Completion, FlowErrorType, Message

STATE_BYTES_MAX = 4 * 1024 * 1024
"""JSON of one live state."""

_encode = msgspec.json.Encoder().encode


class LiveState(msgspec.Struct, frozen=True):
    """Live state as it travels."""

    data: bytes
    """A JSON object; docs/live-state.md says what is in it."""


def live_state(run: RunState, dispatcher: Dispatcher, *, bytes_max: int = STATE_BYTES_MAX) -> LiveState:
    """Show a run as it is decided now, with what matching knows of its calls; a closed one as it ended.

    Small parts come first, then active Steps in order of scheduling, Attributes, outputs, and pending messages.
    """
    budget = Budget(bytes_max)
    shown = {**_summary(run), **_surroundings(run)}
    budget.charge(len(_encode(shown)))
    shown["locks"] = _locks(run, dispatcher, budget)
    queued = [call for call in _calls(run, dispatcher) if call.is_queued]
    shown["queued"] = budget.entries("queued", queued, partial(_queued, run))
    steps = run.steps.values()
    shown["steps"] = budget.entries("steps", steps, partial(show_step, run, config=dispatcher.config))
    shown["attributes"] = budget.entries("attributes", run.attributes.items(), _attribute)
    shown["outputs"] = budget.entries("outputs", run.completions, _output)
    shown["channels"] = _channels(run, budget)
    shown["omitted"] = budget.omitted
    return LiveState(_encode(shown))


def _summary(run: RunState) -> dict[str, Json]:
    """The same facts as describe, list and history give [HIST-5]."""
    return {
        "flow_id": run.flow_id,
        "run_id": run.run_id,
        "flow_type": run.flow_type,
        "status": run.status.name,
        "started_at": run.started_at,
        "closed_at": run.closed_at or None,
        "ordinal": run.ordinal,
        "first_run_id": run.execution_id,
        "history_events": run.version,
        "error_type": None if run.error_type is FlowErrorType.NONE else run.error_type.name,
        "error_message": run.error_message or None,
        "next_run_id": run.next_run_id or None,
    }


def _surroundings(run: RunState) -> dict[str, Json]:
    terms = run.terms
    parent, schedule = (None, None) if terms is None else (terms.parent, terms.schedule)
    return {
        "config": _config(run.config),
        "attempt": run.flow_attempt,
        "begins_at": run.eligible_at or None,
        "is_completing": run.completion_requested,
        "timeout": None
        if not run.timeout_at or terms is None
        else {"at": run.timeout_at, "policy": terms.timeout_policy.name},
        "parent": None if parent is None else {"flow_id": parent.flow_id, "depth": parent.depth},
        "schedule_id": None if schedule is None else schedule.schedule_id,
        "scheduled_at": None if schedule is None else schedule.scheduled_at,
        "skips": [
            {"step_execution_id": step, "condition_id": timer.condition_id or None, "index": timer.index}
            for step, timers in run.skips.items()
            for timer in timers
        ],
        "counts": {
            "steps": len(run.steps),
            "attributes": len(run.attributes),
            "messages": run.pending_count,
            "outputs": len(run.completions),
        },
    }


def _config(config: FlowConfig | None) -> dict[str, Json]:
    """What the execution has set; null leaves it to the server [CFG-3]."""
    chosen = config or FlowConfig()
    mode, durability = chosen.active_step_search_mode, chosen.step_durability
    return {
        "active_step_search_mode": None if mode is None else mode.name,
        "continue_as_new_threshold": chosen.continue_as_new_threshold,
        "step_durability": None if durability is None else durability.name,
        "record_rpc_io": chosen.record_rpc_io,
    }


# ---- lists ------------------------------------------------------------------------------------------------------


def _attribute(item: tuple[str, bytes]) -> dict[str, Json]:
    return {**_named(item[0]), "value": bounded_value(item[1])}


def _output(done: Completion) -> dict[str, Json]:
    value = bounded_value(done.value)
    return {"step_type": done.step_type, "step_execution_id": done.step_execution_id, "value": value}


def _message(message: Message) -> dict[str, Json]:
    return {
        "message_id": message.message_id,
        "published_at": message.published_at,
        "value": bounded_value(message.value),
    }


def _channels(run: RunState, budget: Budget) -> list[Json]:
    """Every Channel with its count, by name; messages oldest first in each."""

    def channel(key: str) -> dict[str, Json]:
        return {**_named(key), "count": len(run.channels[key])}

    shown = budget.entries("channels", run.channels, channel)
    return [
        {**channel(key), "messages": budget.entries("messages", run.channels[key], _message)}
        for key in list(run.channels)[: len(shown)]
    ]


def _named(key: str) -> dict[str, Json]:
    """The key of an Attribute or Channel as its name and, of a map, the instance key."""
    name, separator, instance = key.partition(MAP_KEY_SEPARATOR)
    return {"name": name, "instance": instance if separator else None}


# ---- what matching knows ----------------------------------------------------------------------------------------


def _calls(run: RunState, dispatcher: Dispatcher) -> Iterator[Call]:
    for step_execution_id in run.steps:
        call = dispatcher.calls.get((run.chain_id, step_execution_id))
        if call is not None:
            yield call


def _queued(run: RunState, call: Call) -> dict[str, Json]:
    """A Step execution that waits for a worker, and where [ROUTE-1]."""
    is_sticky = call.stage is CallStage.STICKY
    return {
        "step_execution_id": call.call_id,
        "queue": run.last_worker if is_sticky else run.flow_type,
        "is_sticky": is_sticky,
        "since": call.enqueued_at,
        "priority": priority_of(run, call.step),
    }


def _locks(run: RunState, dispatcher: Dispatcher, budget: Budget) -> dict[str, Json]:
    """Who holds which Attribute, RPCs included, and which Steps wait for theirs [LOCK-2, LOCK-3]."""
    held = [{**_named(name), "by": step} for name, step in run.locks.items()]
    held += [
        {**_named(name), "by": key[1]}
        for key, names in dispatcher.locks.held.items()
        if key[0] == run.chain_id and key[1] not in run.steps
        for name in names
    ]
    awaited = [
        {**_named(name), "by": call.call_id, "since": call.enqueued_at}
        for call in _calls(run, dispatcher)
        if call.stage is CallStage.BLOCKED
        for name in call.asks
    ]
    return {"held": budget.entries("locks", held, _itself), "awaited": budget.entries("locks", awaited, _itself)}


def _itself(entry: Json) -> Json:
    return entry
