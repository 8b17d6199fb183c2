"""What came of a command, one line each, short enough to be read as a diff.

    event   what was recorded, under the Flow it belongs to
    ->      what a worker or caller is told
    =       the reply
    due     when time matters next

Instants are seconds from the beginning, a token is `call/method attempt.delivery`, a message `m<version>.<index>`.
"""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec

from dexd.core import effects as f
from dexd.core.flow.state import RunState, StepExecution
from dexd.core.outcome import Outcome
from dexd.core.values import Method, RequestRecord, Token
from tests.scenarios.stage import Stage
from tests.support.builders import T0

_HIDDEN = ("digest", "seed", "incarnation", "request_id", "run_id", "session", "stack", "error_classes")
_INSTANTS = ("deadline", "retry_at", "at_ms", "first_attempt_at", "flow_started_at")
_MESSAGE_ID = re.compile(r"^[0-9a-f]{11}-([0-9a-f]{8})-([0-9a-f]{5})$")


def instant(at: int | None) -> str:
    """Seconds from the beginning."""
    return "never" if at is None else f"{(at - T0) / 1_000:+.3f}"


def lines(stage: Stage, outcome: Outcome) -> Iterator[str]:
    """Everything that is owed for one command."""
    flows = {run.stream_id: run.flow_id for run in stage.kernel.runs.values()}
    for recorded in outcome.events:
        event = recorded.event
        fields = _fields(event, ("flow_id", "step_type", "number"))
        yield f"event {flows[recorded.stream_id]} {type(event).__name__} {fields}".rstrip()
    for effect in outcome.effects:
        yield f"-> {_effect(stage, effect)}"
    if outcome.reply is not None:
        yield f"= {_struct(outcome.reply)}"


def state(run: RunState) -> Iterator[str]:
    """A Flow as it stands."""
    yield f"{run.flow_id} {run.status.name} version={run.version} sticky={run.last_worker or '-'}"
    for step in run.steps.values():
        yield f"  {_step(step)}"
    for channel, messages in run.channels.items():
        yield f"  channel {channel}: {' '.join(_value('', message.value) for message in messages)}"
    for key, value in run.attributes.items():
        yield f"  attribute {key}: {_value('', value)}"
    for done in run.completions:
        yield f"  output {done.step_execution_id}: {_value('', done.value)}"


def _step(step: StepExecution) -> str:
    timer = step.next_timer_at()
    return (
        f"{step.step_execution_id} {step.phase.name} {step.method.name} attempt={step.attempt} delivery={step.delivery}"
        + (f" timer={instant(timer)}" if timer is not None else "")
    )


def _effect(stage: Stage, effect: f.Effect) -> str:
    if isinstance(effect, f.AnswerRpc):
        return f"caller {effect.caller} {_value('answer', effect.answer)}"
    if isinstance(effect, f.SubmitCommand):
        return f"kernel {_struct(effect.command)}"
    if isinstance(effect, f.TravelTarget):
        return f"shell {_struct(effect.reach)}"
    worker = stage.worker_of(effect.session)
    to = f"session {effect.session}" if worker is None else worker.name
    if isinstance(effect, f.AssignCall):
        shown = _fields(effect.call, ("name", "flow_id", "flow_type", "ordinal", *_INSTANTS))
        return f"{to}:{effect.stream} AssignCall {effect.call.flow_id} {shown}"
    return f"{to} {_struct(effect)}"


def _struct(value: msgspec.Struct) -> str:
    return f"{type(value).__name__} {_fields(value, ())}".rstrip()


def _fields(value: msgspec.Struct, hidden: tuple[str, ...]) -> str:
    shown = []
    for info in msgspec.structs.fields(value):
        found = getattr(value, info.name)
        if info.name in (*_HIDDEN, *hidden) or _is_silent(found, info.default):
            continue
        rendered = _value(info.name, found)
        shown.append(rendered if _is_telling(info.name) else f"{info.name}={rendered}")
    return " ".join(shown)


def _is_silent(found: Any, default: Any) -> bool:
    """What stands at its default, or says nothing; a member of an enum always says something."""
    return found == default or (not isinstance(found, Enum) and found in (None, "", b"", 0, (), {}, False))


def _is_telling(name: str) -> bool:
    """Names that their value makes plain."""
    return name in ("step_execution_id", "token", "method", "worker_id", "flow_id", "code", "message", "resolution")


def _value(name: str, value: Any) -> str:
    if name in _INSTANTS:
        return instant(value)
    if isinstance(value, RequestRecord):
        return value.request_id
    if isinstance(value, Token):
        return f"{value.call}/{Method(value.method).name} {value.attempt}.{value.delivery}"
    if isinstance(value, Enum):
        return str(value.name)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, msgspec.Struct):
        return f"({_struct(value)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_value('', each)}" for key, each in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_value("", each) for each in value) + "]"
    return _text(str(value))


def _text(text: str) -> str:
    found = _MESSAGE_ID.match(text)
    if found:
        return f"m{int(found[1], 16)}.{int(found[2], 16)}"
    return repr(text) if " " in text else text
