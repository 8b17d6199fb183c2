"""What a handler is given beside its input [CTX-1..4]."""

import logging
from collections.abc import Awaitable, Generator, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from dexpb.v1 import frames
from dexsdk._call import Call
from dexsdk._durations import from_instant_ms
from dexsdk._names import check_name
from dexsdk.errors import ValueTooLargeError
from dexsdk.results import RecoveryError

T = TypeVar("T")

LOCALS_BYTES_MAX = 1024 * 1024
"""Encoded size of all locals of one Step execution [STEP-5]."""

HEARTBEAT_BYTES_MAX = 64 * 1024
"""Encoded size of one heartbeat's value [HB-3]."""

RECORDED_EVENTS_MAX = 100
"""Recorded events in one call [LIM-2]."""


class Context(msgspec.Struct, eq=False):
    """Identity of the running call, and the effects that belong to no definition.

    Valid until the handler returns; any use afterwards raises RuntimeError [CTX-4].
    """

    _call: Call

    __repr__ = object.__repr__  # Nothing of a payload may get into a log [ERR-3].

    def open_call(self) -> Call:
        """Give the state behind the context, for the SDK's own definitions.

        Raises:
            RuntimeError: the handler has returned.
        """
        if not self._call.is_open:
            raise RuntimeError(f"{self._call.place}: the context was used after the handler returned")
        return self._call

    @property
    def flow_id(self) -> str:
        """The Flow ID."""
        return self.open_call().assign.flow_id

    @property
    def run_id(self) -> str:
        """The run that was current at hand-over."""
        return run_id_of(self.open_call().assign)

    @property
    def flow_type(self) -> str:
        """The Flow type."""
        return self.open_call().assign.flow_type

    @property
    def step_execution_id(self) -> str:
        """``<StepType>-<n>`` [ID-6]; ``""`` in an RPC handler [ID-11]."""
        call = self.open_call()
        return "" if call.is_rpc else call.assign.token.call

    @property
    def from_step_execution_id(self) -> str:
        """Who scheduled this Step; ``""`` for the start Step [ID-12]."""
        return self.open_call().assign.from_step

    @property
    def idempotency_key(self) -> str:
        """Key for side effects outside the Flow; the same for all attempts and deliveries [ID-8..11, STEP-9]."""
        call = self.open_call()
        assign = call.assign
        name = _rpc_key(assign.token.call) if call.is_rpc else _escape(assign.token.call, "%/")
        suffix = f"~{assign.ordinal}" if assign.ordinal > 1 else ""
        return f"{assign.flow_id}/{name}{suffix}"

    @property
    def attempt(self) -> int:
        """1-based attempt of this method; an RPC has one only [RPC-8]."""
        call = self.open_call()
        return 1 if call.is_rpc else call.assign.token.attempt

    @property
    def delivery(self) -> int:
        """1-based count of hand-overs of this attempt."""
        return self.open_call().assign.token.delivery

    @property
    def first_attempt_at(self) -> datetime:
        """Hand-over of attempt 1 of this method [CTX-3]."""
        return from_instant_ms(self.open_call().assign.first_attempt_at)

    @property
    def scheduled_at(self) -> datetime | None:
        """When the schedule was to fire that started the execution, without jitter; None if none did [SCHED-10]."""
        scheduled_at = self.open_call().assign.scheduled_at
        return from_instant_ms(scheduled_at) if scheduled_at else None

    @property
    def flow_started_at(self) -> datetime:
        """Acceptance of the execution [CTX-3]."""
        return from_instant_ms(self.open_call().assign.flow_started_at)

    @property
    def deadline(self) -> datetime:
        """When this delivery's method timeout ends [CTX-3]."""
        return from_instant_ms(self.open_call().assign.deadline)

    @property
    def recovery_error(self) -> RecoveryError | None:
        """The failure that led here: in a recovery Step, and in execute after a failed wait_for [OPT-3, OPT-4]."""
        error = self.open_call().assign.recovery_error
        return None if error is None else RecoveryError(error.error_type, error.detail)

    @property
    def logger(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger whose records carry ``flow_id, run_id, step_execution_id, attempt`` [CTX-4]."""
        assign = self.open_call().assign
        fields = {
            "flow_id": assign.flow_id,
            "run_id": run_id_of(assign),
            "step_execution_id": self.step_execution_id,
            "attempt": self.attempt,
        }
        return logging.LoggerAdapter(logging.getLogger("dexsdk.flow"), fields)

    def has_timer_fired(self, index: int | None = None) -> bool:
        """Say whether a Timer of the Wait fired or was skipped [WAIT-11, TIMER-8].

        Args:
            index: Position among the Wait's Timers, from 0; None asks for any.

        Raises:
            ValueError: the Wait had no such Timer.
        """
        call = self.open_call()
        timers = [result for result in call.assign.results if result.kind == frames.CONDITION_TIMER]
        if index is None:
            return any(timer.met for timer in timers)
        return timers[_checked_index(index, timers, f"{call.place}: Timer")].met

    def wait_for_method_failed(self) -> bool:
        """Say whether wait_for had no attempt left and execute runs all the same [OPT-3]."""
        return self.open_call().assign.wait_for_failed

    def is_cancellation_requested(self) -> bool:
        """Say whether the result is not wanted any more; sync handlers poll this and return early [STOP-5]."""
        return self.open_call().is_cancellation_requested

    def heartbeat(self, value: object) -> Awaitable[None]:
        """Show that the handler lives, with a value for the next attempt; never waits for the server [HB-2].

        Only the newest value counts: heartbeats that follow each other closely are sent as one. It may be awaited,
        which gives other handlers of the loop a turn. In an RPC, which has no next attempt, the value is not kept.

        Args:
            value: What ``last_heartbeat_value`` gives if this attempt fails or its worker is lost; None clears it.

        Raises:
            ValueMappingError: the value cannot be encoded.
            ValueTooLargeError: it has more than 64 KiB [HB-3].
        """
        call = self.open_call()
        data = b"" if value is None else call.encode(call.scope.codecs.codec_of(value), value, "heartbeat")
        if len(data) > HEARTBEAT_BYTES_MAX:
            raise ValueTooLargeError.of("heartbeat", call.place, len(data), HEARTBEAT_BYTES_MAX)
        if call.heartbeats is not None:
            call.heartbeats.heartbeat(data)
        return _TURN

    def last_heartbeat_value(self, value_type: type[T]) -> T | None:
        """Give the newest heartbeat value of earlier deliveries and attempts of this method call [HB-2].

        None if there is none, or if it was cleared. A crash of the server can cost the values of its last second.

        Raises:
            ValueMappingError: the value does not fit the type.
        """
        call = self.open_call()
        if not call.assign.heartbeat:
            return None
        codec = call.scope.codecs.resolve(value_type)
        value: T = call.decode(codec, call.assign.heartbeat, "heartbeat")
        return value

    def set_step_execution_local(self, key: str, value: object) -> None:
        """Keep a value for execute of the same Step execution; only in wait_for [STEP-5].

        Raises:
            RuntimeError: not in wait_for.
            ValueTooLargeError: all locals together exceed 1 MiB.
        """
        call = self.open_call()
        if call.assign.token.method != frames.METHOD_WAIT_FOR:
            raise RuntimeError(f"{call.place}: locals can be set in wait_for only")
        check_name(key, "key of a step execution local")
        data = call.encode(call.scope.codecs.codec_of(value), value, "local", key)
        size = len(data) + sum(len(kept) for name, kept in call.locals.items() if name != key)
        if size > LOCALS_BYTES_MAX:
            raise ValueTooLargeError.of("step execution locals", call.place, size, LOCALS_BYTES_MAX)
        call.locals[key] = data

    def get_step_execution_local(self, key: str, value_type: type[T]) -> T:
        """Give a local of this Step execution.

        Raises:
            KeyError: it was not set.
        """
        call = self.open_call()
        data = call.locals.get(key, call.assign.locals.get(key))
        if data is None:
            raise KeyError(f"{call.place}: local {key!r} is not set")
        value: T = call.decode(call.scope.codecs.resolve(value_type), data, "local", key)
        return value

    def record_event(self, name: str, value: object) -> None:
        """Put a diagnostic value into this call's history entry [STEP-6].

        Raises:
            ValueError: the name was used before in this call.
            ValueTooLargeError: more than 100 events in this call.
        """
        call = self.open_call()
        check_name(name, "name of a recorded event")
        if name in call.recorded:
            raise ValueError(f"{call.place}: event {name!r} was recorded before in this call")
        if len(call.recorded) == RECORDED_EVENTS_MAX:
            raise ValueTooLargeError.of("recorded events", call.place, RECORDED_EVENTS_MAX + 1, RECORDED_EVENTS_MAX)
        call.recorded[name] = call.encode(call.scope.codecs.codec_of(value), value, "event", name)


class _LoopTurn(Awaitable[None]):
    """Done already; awaiting it lets the event loop run once."""

    def __await__(self) -> Generator[None, None, None]:
        yield


_TURN = _LoopTurn()


def run_id_of(assign: frames.Assign) -> str:
    """The run that was current when the call was handed over."""
    return assign.run_id or assign.token.run_id


def _escape(text: str, characters: str) -> str:
    """Percent-encode the given characters; ``%`` stands first among them."""
    for character in characters:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _rpc_key(call_name: str) -> str:
    prefix = "sys:rpc-"
    return prefix + _escape(call_name.removeprefix(prefix), "%/~")


def _checked_index(index: int, items: Sequence[Any], what: str) -> int:
    if not 0 <= index < len(items):
        raise ValueError(f"{what} index is {index}, the Wait had {len(items)}")
    return index
