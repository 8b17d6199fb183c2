"""What ``execute`` returns: which Steps follow or are canceled, or how the Flow closes [DEC-1..11]."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar, overload

import msgspec

from dexpb.v1 import frames
from dexsdk._call import Call, Scope, current_call
from dexsdk._failure import DETAIL_BYTES_MAX, repaired
from dexsdk.channel import Channel
from dexsdk.errors import FlowDefinitionError, ValueTooLargeError
from dexsdk.options import StepOptions
from dexsdk.step import StepRef

In = TypeVar("In")

MOVEMENTS_MAX = 10_000
"""Movements in one decision [DEC-1]."""


class Unset:
    """The class of UNSET."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()
"""Stands for an argument that was not given, where None is a value."""


class StepMovement(msgspec.Struct, eq=False):
    """One Step to schedule, with its input.

    Made inside a handler it is encoded at once, so that a wrong or unfit input fails where it is written, and later
    changes of the input object do not matter [VAL-5, DEC-8]. Made elsewhere it is encoded with the handler's result.
    """

    step: StepRef[Any]
    input: Any
    options: StepOptions | None
    _scope: Scope | None = None
    """Of what it was encoded for."""
    _frame: frames.Movement | None = None

    __repr__ = object.__repr__  # Nothing of a payload may get into a log [ERR-3].

    @overload
    @staticmethod
    def of(step: StepRef[None], input: None = None, *, options: StepOptions | None = None) -> "StepMovement": ...
    @overload
    @staticmethod
    def of(step: StepRef[In], input: In, *, options: StepOptions | None = None) -> "StepMovement": ...
    @staticmethod
    def of(step: StepRef[Any], input: Any = None, *, options: StepOptions | None = None) -> "StepMovement":
        """Schedule one Step.

        Args:
            step: The registered Step, or its class if one instance of it is registered [FLOW-10].
            input: What its methods get; left out for a Step whose input is None.
            options: Fields that override the Step's own options, for this execution [STEP-8].

        Raises:
            FlowDefinitionError: the Step is not registered, or the input does not fit it.
            ValueMappingError: the input cannot be encoded.
        """
        call = current_call.get()
        if call is None:
            return StepMovement(step, input, options)
        scope = call.scope
        return StepMovement(step, input, options, scope, scope.encode_movement(step, input, options))

    def to_frame(self, scope: Scope) -> frames.Movement:
        """Give the movement as it travels in a Flow."""
        if self._frame is None or self._scope is not scope:
            self._frame = scope.encode_movement(self.step, self.input, self.options)
            self._scope = scope
        return self._frame


class StepDecision(msgspec.Struct, frozen=True, eq=False):
    """What follows a Step; immutable. The module's functions make them, also as static methods."""

    kind: int
    movements: tuple[StepMovement, ...] = ()
    output: Any = UNSET
    _data: bytes | None = None
    """The output, if it was given inside a handler: encoded at once, as the input of a StepMovement is."""
    reason: str = ""
    channels: tuple[Channel[Any], ...] = ()
    canceling: tuple[StepRef[Any], ...] = ()
    canceling_siblings: tuple[StepRef[Any], ...] = ()

    __repr__ = object.__repr__  # Nothing of a payload may get into a log [ERR-3].

    @overload
    @staticmethod
    def go_to(step: StepRef[None], input: None = None, *, options: StepOptions | None = None) -> "StepDecision": ...
    @overload
    @staticmethod
    def go_to(step: StepRef[In], input: In, *, options: StepOptions | None = None) -> "StepDecision": ...
    @staticmethod
    def go_to(step: StepRef[Any], input: Any = None, *, options: StepOptions | None = None) -> "StepDecision":
        """Schedule one Step; arguments and errors as for ``StepMovement.of``."""
        return StepDecision(frames.DECISION_GO_TO, (StepMovement.of(step, input, options=options),))

    @staticmethod
    def go_to_many(*movements: StepMovement) -> "StepDecision":
        """Schedule Steps in the given order, 1 to 10,000 [DEC-1].

        Raises:
            ValueError: no movement, or something else than movements.
            ValueTooLargeError: more than 10,000.
        """
        if not movements:
            raise ValueError("go_to_many needs at least one movement")
        check_movements(movements, "go_to_many")
        return StepDecision(frames.DECISION_GO_TO, movements)

    go_to_multi = go_to_many

    @staticmethod
    def graceful_complete(output: object = UNSET) -> "StepDecision":
        """End this branch, and complete the Flow once no Step is left [DEC-2]. None and no output add none [DEC-7]."""
        return StepDecision(frames.DECISION_GRACEFUL_COMPLETE, (), output, _encoded_now(output))

    @staticmethod
    def force_complete(output: object = UNSET) -> "StepDecision":
        """Complete the Flow at once; other Steps are canceled [DEC-3]. None and no output add none [DEC-7]."""
        return StepDecision(frames.DECISION_FORCE_COMPLETE, (), output, _encoded_now(output))

    @staticmethod
    def force_complete_if_channels_empty(
        output: object, fallback: StepMovement, *channels: Channel[Any]
    ) -> "StepDecision":
        """Complete the Flow at once if all these Channels are empty, else schedule the fallback [DEC-4].

        The server checks and decides in one commit, after this handler's own publications: a message that a client
        publishes meanwhile is either seen, or its publication is refused because the Flow is closed. A message that
        another Step execution consumed counts as present until that execution has ended [DEC-5].

        Args:
            output: As for ``force_complete``; used only when the Flow completes.
            fallback: The Step to schedule otherwise, usually the one that empties the Channels.
            channels: At least one, each once; no ChannelMap.

        Raises:
            ValueError: no Channel, the same one twice, or something else than a Channel or movement.
            FlowDefinitionError: a Channel is not in the Flow's schema.
        """
        check_movements((fallback,), "force_complete_if_channels_empty")
        for channel in channels:
            if not isinstance(channel, Channel):
                raise ValueError(f"force_complete_if_channels_empty takes Channels, not {type(channel).__name__}")
        names = [channel.name for channel in channels]
        if not names:
            raise ValueError("force_complete_if_channels_empty needs at least one Channel")
        if len(set(names)) != len(names):
            raise ValueError(f"force_complete_if_channels_empty names a Channel twice: {', '.join(names)}")
        call = current_call.get()
        if call is not None:
            _check_declared(call.scope, channels)
        kind = frames.DECISION_FORCE_COMPLETE_IF_CHANNELS_EMPTY
        return StepDecision(kind, (fallback,), output, _encoded_now(output), channels=channels)

    @staticmethod
    def force_fail(reason: str) -> "StepDecision":
        """Fail the Flow at once with STEP_DECISION_FAILED [DEC-6].

        The reason becomes the Flow's error message; like every failure text it is repaired to UTF-8 and cut at 16 KiB.

        Raises:
            ValueError: the reason is no str.
        """
        if not isinstance(reason, str):
            raise ValueError(f"force_fail needs a str as reason, not {type(reason).__name__}")
        return StepDecision(frames.DECISION_FORCE_FAIL, reason=repaired(reason, DETAIL_BYTES_MAX))

    @staticmethod
    def dead_end() -> "StepDecision":
        """End this branch only; never completes the Flow [DEC-6]."""
        return StepDecision(frames.DECISION_DEAD_END)

    def with_canceling_steps(self, *steps: StepRef[Any]) -> "StepDecision":
        """Give a copy that also cancels all current executions of these Steps in the Flow [DEC-9].

        Executions that wait for anything are gone at once; a running handler is told to stop, and its result, retry and
        recovery Step are discarded [DEC-11]. Steps that this decision schedules are not meant [DEC-10], nor is the
        execution that decides. Repeated calls add up, and any decision may carry them.

        Raises:
            FlowDefinitionError: a Step is not registered; raised here inside a handler [DEC-8].
        """
        return self._canceling(steps, ())

    def with_canceling_sibling_steps(self, *steps: StepRef[Any]) -> "StepDecision":
        """Like ``with_canceling_steps``, for executions with the same source as the deciding one [DEC-9, ID-12].

        A Step that is also named by ``with_canceling_steps`` is canceled in the whole Flow.
        """
        return self._canceling((), steps)

    def _canceling(self, steps: tuple[StepRef[Any], ...], siblings: tuple[StepRef[Any], ...]) -> "StepDecision":
        call = current_call.get()
        if call is not None:
            step_types_of(call.scope, (*steps, *siblings))
        return msgspec.structs.replace(
            self,
            canceling=(*self.canceling, *steps),
            canceling_siblings=(*self.canceling_siblings, *siblings),
        )

    def to_frame(self, call: Call) -> frames.Decision:
        """Give the decision as it travels, as the result of a call."""
        movements = tuple([movement.to_frame(call.scope) for movement in self.movements]) if self.movements else ()
        data = self._data
        if data is None:
            data = b"" if self.output is UNSET else _encode_output(call, self.output)
        if not (self.channels or self.canceling or self.canceling_siblings):  # the usual case
            return frames.Decision(self.kind, movements, data, self.reason)
        _check_declared(call.scope, self.channels)
        names = tuple(channel.name for channel in self.channels)
        return frames.Decision(self.kind, movements, data, self.reason, self._canceling_frame(call.scope), names)

    def _canceling_frame(self, scope: Scope) -> frames.Canceling | None:
        if not (self.canceling or self.canceling_siblings):
            return None
        step_types = step_types_of(scope, self.canceling)
        siblings = step_types_of(scope, self.canceling_siblings)
        return frames.Canceling(step_types, tuple(name for name in siblings if name not in step_types))


def check_movements(movements: Sequence[object], what: str) -> None:
    """Refuse too many movements, and anything else than movements.

    Raises:
        ValueError: something else than movements.
        ValueTooLargeError: more than 10,000 [DEC-1].
    """
    if len(movements) > MOVEMENTS_MAX:
        raise ValueTooLargeError.of("movements", what, len(movements), MOVEMENTS_MAX)
    for position, movement in enumerate(movements):
        if not isinstance(movement, StepMovement):
            raise FlowDefinitionError(f"{what} takes StepMovements, argument {position} is {type(movement).__name__}")


def step_types_of(scope: Scope, steps: Sequence[StepRef[Any]]) -> tuple[str, ...]:
    """Give the types of the Steps to cancel, each once; FlowDefinitionError for an unregistered one [DEC-8]."""
    return tuple(dict.fromkeys(scope.step_type_of(step) for step in steps))


def _check_declared(scope: Scope, channels: Sequence[Channel[Any]]) -> None:
    for channel in channels:
        scope.codec_of(channel)


def _encoded_now(output: object) -> bytes | None:
    """Encode an output that is given inside a handler; None for one that is given elsewhere, or not at all."""
    call = current_call.get()
    return None if call is None or output is UNSET else _encode_output(call, output)


def _encode_output(call: Call, output: object) -> bytes:
    return b"" if output is None else call.encode(call.scope.codecs.codec_of(output), output, "output")


go_to = StepDecision.go_to
go_to_many = StepDecision.go_to_many
go_to_multi = StepDecision.go_to_multi
graceful_complete = StepDecision.graceful_complete
force_complete = StepDecision.force_complete
force_complete_if_channels_empty = StepDecision.force_complete_if_channels_empty
force_fail = StepDecision.force_fail
dead_end = StepDecision.dead_end
