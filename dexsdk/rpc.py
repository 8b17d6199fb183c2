"""Methods of a Flow that clients call [RPC-1..8]."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar, overload

from dexsdk._call import current_call
from dexsdk._durations import Duration, optional_duration_ms
from dexsdk.context import Context
from dexsdk.decision import StepMovement, check_movements

T = TypeVar("T")
In = TypeVar("In")
Out = TypeVar("Out")
Handler = TypeVar("Handler", bound="Callable[..., RPCResult[Any] | Awaitable[RPCResult[Any] | None] | None]")

RPC_TIMEOUT_MS_MAX = 60_000
"""A caller's whole call is capped at 60 s, so a handler may not be given more [RPC-7]."""

_MARK = "__dexsdk_rpc__"


@dataclass(frozen=True)
class RPCResult(Generic[T]):
    """Answer of an RPC handler, and the Steps it schedules; applied with all other effects or not at all [RPC-3]."""

    output: T
    next_steps: Sequence[StepMovement] = ()
    data: bytes | None = field(default=None, init=False, repr=False, compare=False)
    """The encoded output, known at once when the result was made inside the handler."""

    def __post_init__(self) -> None:
        check_movements(self.next_steps, "RPCResult")
        object.__setattr__(self, "next_steps", tuple(self.next_steps))
        call = current_call.get()
        if call is not None:
            codec = call.output_codec or call.scope.codecs.codec_of(self.output)
            object.__setattr__(self, "data", call.encode(codec, self.output, "output"))

    @staticmethod
    def of(output: Out, *next_steps: StepMovement) -> "RPCResult[Out]":
        """Answer and schedule Steps."""
        return RPCResult(output, next_steps)


RpcMethod: TypeAlias = Callable[[Context], RPCResult[Out] | Awaitable[RPCResult[Out] | None] | None]
"""A bound RPC method without input."""

RpcMethodWithInput: TypeAlias = Callable[[Context, In], RPCResult[Out] | Awaitable[RPCResult[Out] | None] | None]
"""A bound RPC method with input."""


@dataclass(frozen=True)
class RpcMark:
    """What ``@rpc`` says of a method."""

    name: str
    timeout_ms: int | None
    """From hand-over; None is the server's default of 10 s [RPC-7]."""


@overload
def rpc(handler: Handler) -> Handler: ...
@overload
def rpc(*, name: str | None = None, timeout: Duration | None = None) -> Callable[[Handler], Handler]: ...
def rpc(handler: Any = None, *, name: str | None = None, timeout: Duration | None = None) -> Any:
    """Mark a Flow's method ``(self, context[, input]) -> RPCResult[T] | None`` as callable by clients.

    Args:
        handler: The method, when used without arguments.
        name: The RPC's name, unique in the Flow; the method's name by default.
        timeout: How long the handler may take from hand-over, 10 s by default, at most 60 s [RPC-7].

    Raises:
        ValueError: the timeout is no duration. One above 60 s is reported by the Registry.
    """
    timeout_ms = optional_duration_ms(timeout, "RPC timeout")

    def mark(method: Any) -> Any:
        setattr(method, _MARK, RpcMark(method.__name__ if name is None else name, timeout_ms))
        return method

    return mark if handler is None else mark(handler)


def rpc_mark(method: object) -> RpcMark | None:
    """Give what ``@rpc`` said of a method, or None for any other attribute of a Flow."""
    mark = getattr(method, _MARK, None)
    return mark if isinstance(mark, RpcMark) else None
