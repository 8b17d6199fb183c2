"""What ``execute`` returns: which Steps follow, or how the Flow closes [DEC-1..8]."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar, overload

from dexpb.v1 import frames
from dexsdk._call import Call, Scope, current_call
from dexsdk._failure import DETAIL_BYTES_MAX, repaired
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


class StepMovement:
    """One Step to schedule, with its input.

    Made inside a handler it is encoded at once, so that a wrong or unfit input fails where it is written, and later
    changes of the input object do not matter [VAL-5, DEC-8]. Made elsewhere it is encoded with the handler's result.
    """

    __slots__ = ("_frame", "_scope", "input", "options", "step")

    def __init__(self, step: Any, input: Any, options: StepOptions | None) -> None:
        """Use ``of``."""
        self.step = step
        self.input = input
        self.options = options
        self._frame: frames.Movement | None = None
        self._scope: Scope | None = None
        call = current_call.get()
        if call is not None:
            self.to_frame(call.scope)

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
        return StepMovement(step, input, options)

    def to_frame(self, scope: Scope) -> frames.Movement:
        """Give the movement as it travels in a Flow."""
        if self._frame is None or self._scope is not scope:
            self._frame = scope.encode_movement(self.step, self.input, self.options)
            self._scope = scope
        return self._frame


class StepDecision:
    """What follows a Step; immutable. The module's functions make them, also as static methods."""

    __slots__ = ("_data", "kind", "movements", "output", "reason")

    def __init__(
        self, kind: int, movements: Sequence[StepMovement] = (), output: Any = UNSET, reason: str = ""
    ) -> None:
        """Use the static methods."""
        self.kind = kind
        self.movements = tuple(movements)
        self.output = output
        self.reason = reason
        self._data: bytes | None = None
        if output is not UNSET:
            call = current_call.get()
            if call is not None:
                self._data = _encode_output(call, output)

    @overload
    @staticmethod
    def go_to(step: StepRef[None], input: None = None, *, options: StepOptions | None = None) -> "StepDecision": ...
    @overload
    @staticmethod
    def go_to(step: StepRef[In], input: In, *, options: StepOptions | None = None) -> "StepDecision": ...
    @staticmethod
    def go_to(step: StepRef[Any], input: Any = None, *, options: StepOptions | None = None) -> "StepDecision":
        """Schedule one Step; arguments and errors as for ``StepMovement.of``."""
        return StepDecision(frames.DECISION_GO_TO, (StepMovement(step, input, options),))

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
        return StepDecision(frames.DECISION_GRACEFUL_COMPLETE, output=output)

    @staticmethod
    def force_complete(output: object = UNSET) -> "StepDecision":
        """Complete the Flow at once; other Steps are canceled [DEC-3]. None and no output add none [DEC-7]."""
        return StepDecision(frames.DECISION_FORCE_COMPLETE, output=output)

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

    def to_frame(self, call: Call) -> frames.Decision:
        """Give the decision as it travels, as the result of a call."""
        movements = tuple([movement.to_frame(call.scope) for movement in self.movements])
        data = self._data
        if data is None:
            data = b"" if self.output is UNSET else _encode_output(call, self.output)
        return frames.Decision(self.kind, movements, data, self.reason)


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


def _encode_output(call: Call, output: object) -> bytes:
    return b"" if output is None else call.encode(call.scope.codecs.codec_of(output), output, "output")


go_to = StepDecision.go_to
go_to_many = StepDecision.go_to_many
go_to_multi = StepDecision.go_to_multi
graceful_complete = StepDecision.graceful_complete
force_complete = StepDecision.force_complete
force_fail = StepDecision.force_fail
dead_end = StepDecision.dead_end
