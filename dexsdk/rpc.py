"""Methods of a Flow that clients call [RPC-1..8]."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeAlias, TypeVar, overload

from dexsdk._call import current_call
from dexsdk._durations import Duration, optional_duration_ms
from dexsdk.attribute import AnyAttribute, AttributeLock
from dexsdk.context import Context
from dexsdk.decision import StepMovement, check_movements, step_types_of
from dexsdk.step import StepRef

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
    canceling_steps: Sequence[StepRef[Any]] = ()
    """Steps whose current executions are canceled before the next ones are scheduled [RPC-2]."""
    data: bytes | None = field(default=None, init=False, repr=False, compare=False)
    """The encoded output, known at once when the result was made inside the handler."""

    def __post_init__(self) -> None:
        check_movements(self.next_steps, "RPCResult")
        object.__setattr__(self, "next_steps", tuple(self.next_steps))
        object.__setattr__(self, "canceling_steps", tuple(self.canceling_steps))
        call = current_call.get()
        if call is not None:
            step_types_of(call.scope, self.canceling_steps)
            codec = call.output_codec or call.scope.codecs.codec_of(self.output)
            object.__setattr__(self, "data", call.encode(codec, self.output, "output"))

    @staticmethod
    def of(output: Out, *next_steps: StepMovement) -> "RPCResult[Out]":
        """Answer and schedule Steps."""
        return RPCResult(output, next_steps)

    def with_canceling_steps(self, *steps: StepRef[Any]) -> "RPCResult[T]":
        """Return a copy that also cancels all current executions of these Steps [RPC-2, DEC-10]; calls add up.

        Raises:
            FlowDefinitionError: a Step is not registered; inside a handler.
        """
        return replace(self, canceling_steps=(*self.canceling_steps, *steps))


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
    lock_attributes: tuple[AttributeLock, ...] = ()
    is_transactional: bool = False
    preload: tuple[AnyAttribute, ...] = ()


@overload
def rpc(handler: Handler) -> Handler: ...
@overload
def rpc(
    *,
    name: str | None = None,
    timeout: Duration | None = None,
    lock_attributes: Sequence[AttributeLock] = (),
    is_transactional: bool = False,
    preload: Sequence[AnyAttribute] = (),
) -> Callable[[Handler], Handler]: ...
def rpc(
    handler: Any = None,
    *,
    name: str | None = None,
    timeout: Duration | None = None,
    lock_attributes: Sequence[AttributeLock] = (),
    is_transactional: bool = False,
    preload: Sequence[AnyAttribute] = (),
) -> Any:
    """Mark a Flow's method ``(self, context[, input]) -> RPCResult[T] | None`` as callable by clients.

    Args:
        handler: The method, when used without arguments.
        name: The RPC's name, unique in the Flow; the method's name by default.
        timeout: How long the handler may take from hand-over, 10 s by default, at most 60 s [RPC-7].
        lock_attributes: Locked while the handler runs. If one is busy, the call is refused at once with
            RpcLockConflictError [LOCK-4].
        is_transactional: Refuse the whole call if it deletes a message that is not pending [CHAN-8]. With locks or as a
            transaction the Flow must be active before the handler is called, and the call is always in history [RPC-5].
        preload: Large values to fetch before the handler is called instead of at their first read [ATTR-7].

    Raises:
        ValueError: the timeout is no duration. One above 60 s is reported by the Registry.
    """
    timeout_ms = optional_duration_ms(timeout, "RPC timeout")

    def mark(method: Any) -> Any:
        own_name = method.__name__ if name is None else name
        terms = RpcMark(own_name, timeout_ms, tuple(lock_attributes), is_transactional, tuple(preload))
        setattr(method, _MARK, terms)
        return method

    return mark if handler is None else mark(handler)


def rpc_mark(method: object) -> RpcMark | None:
    """Give what ``@rpc`` said of a method, or None for any other attribute of a Flow."""
    mark = getattr(method, _MARK, None)
    return mark if isinstance(mark, RpcMark) else None
