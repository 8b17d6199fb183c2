"""What a client call says to the server, step by step, without saying how it is carried.

A conversation is a generator: it yields what is to be asked or waited for, is sent the answer, and returns the call's
result. Client and AsyncClient differ only in how they carry one, so that no rule exists twice. Reading the clock and
drawing jitter are part of a conversation, because its deadlines are the caller's.
"""

import random
import time
from collections.abc import Callable, Generator, Sequence
from typing import Generic, TypeAlias, TypeVar

import msgspec

from dexsdk._backoff import Backoff
from dexsdk._status import RemoteStatus
from dexsdk._wire import FRAME_BYTES_MAX
from dexsdk.errors import DexServiceError, LongPollTimeoutError, ValueTooLargeError

BUDGET_S = 30.0
"""How long a call without a timeout of its own is tried before it fails as UNAVAILABLE."""

POLL_S_MAX = 60.0
"""How long the server holds one poll [WAITAPI-1]."""

REPLY_GRACE_S = 5.0
"""How long an answer may travel beyond the time that the server was given to hold it."""

NO_WORKER_AVAILABLE = "NO_WORKER_AVAILABLE"
"""An UNAVAILABLE that is an answer: the dispatch wait is over, the caller decides what follows [ROUTE-4]."""

Reply = TypeVar("Reply")
Result = TypeVar("Result")


class Ask(msgspec.Struct, frozen=True, gc=False):
    """One request of the client's session, repeated on every new one until it is answered."""

    method: str
    body: bytes
    timeout_s: float
    """When the conversation wants to go on without an answer."""


class AskOnce(msgspec.Struct, frozen=True, gc=False):
    """One call outside the session, e.g. of another service."""

    path: str
    body: bytes
    timeout_s: float


class Pause(msgspec.Struct, frozen=True, gc=False):
    """Nothing for a while."""

    seconds: float


class Offload(msgspec.Struct, frozen=True):
    """Values that leave the process: those that are too large to travel inline are uploaded, see `Blobs.offload`."""

    values: Sequence[bytes]


class Load(msgspec.Struct, frozen=True):
    """A value that may be a reference, see `Blobs.load`."""

    value: bytes


Turn: TypeAlias = Ask | AskOnce | Pause | Offload | Load
Answer: TypeAlias = bytes | RemoteStatus
Given: TypeAlias = Answer | list[bytes] | None
"""What a turn gets: an answer, the values of an Offload, nothing after a Pause."""
Conversation: TypeAlias = Generator[Turn, Given, Result]


class Request(msgspec.Struct, Generic[Reply], frozen=True):
    """One unary verb, ready to be asked."""

    operation: str
    """Name of the client method, for errors."""
    method: str
    body: bytes
    decode: Callable[[bytes], Reply]
    flow_id: str | None = None
    budget_s: float = BUDGET_S

    def __post_init__(self) -> None:
        if len(self.body) > FRAME_BYTES_MAX:
            raise ValueTooLargeError.of("request", self.operation, len(self.body), FRAME_BYTES_MAX)


def ask(request: Request[Reply]) -> Conversation[Reply]:
    """Ask until there is an answer, the budget is used up or the server refuses.

    Repeating is safe: reads change nothing, and everything else carries a request ID [START-6, GEN-8].

    Raises:
        DexServiceError: what the server answered, or UNAVAILABLE.
    """
    deadline = time.monotonic() + request.budget_s
    remaining_s = request.budget_s
    backoff: Backoff | None = None
    while True:
        answer = yield Ask(request.method, request.body, remaining_s)
        if isinstance(answer, bytes):
            return request.decode(answer)
        assert isinstance(answer, RemoteStatus), "an Ask is answered"
        backoff = backoff or Backoff()
        delay_s = backoff.next_delay_ms(random.random()) / 1000
        if not is_transient(answer) or time.monotonic() + delay_s >= deadline:
            raise answer.to_error(request.operation, request.flow_id)
        yield Pause(delay_s)
        remaining_s = max(0.0, deadline - time.monotonic())


def is_transient(status: RemoteStatus) -> bool:
    """Whether the server could not answer now, as opposed to having answered no [ERR-2]."""
    return status.code == "UNAVAILABLE" and status.reason != NO_WORKER_AVAILABLE


def poll(
    make_request: Callable[[int, float], Request[Reply]],
    is_over: Callable[[Reply], bool],
    timeout_s: float | None,
) -> Conversation[Reply]:
    """Poll until it is over; each poll is held by the server for up to 60 s [WAITAPI-1].

    Args:
        make_request: Makes the next poll of the milliseconds it is held and its budget in seconds.
        is_over: Whether a reply ends the wait.
        timeout_s: None waits without limit, 0 checks once.

    Raises:
        LongPollTimeoutError: the time ran out; nothing has changed in the Flow.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    hold_s = POLL_S_MAX if timeout_s is None else min(POLL_S_MAX, timeout_s)
    while True:
        request = make_request(int(hold_s * 1000), hold_s + REPLY_GRACE_S)
        try:
            reply = yield from ask(request)
        except DexServiceError as error:
            if not is_unavailable(error):
                raise
            # The server is away. The wait goes on, because it was never about the server's uptime.
            if deadline is not None and time.monotonic() >= deadline:
                raise _timed_out(request, timeout_s) from error
        else:
            if is_over(reply):
                return reply
            if deadline is not None and time.monotonic() >= deadline:
                raise _timed_out(request, timeout_s)
        if deadline is not None:
            hold_s = min(POLL_S_MAX, max(0.0, deadline - time.monotonic()))


def is_unavailable(error: DexServiceError) -> bool:
    """Whether the error says that the server could not be reached or could not answer."""
    return error.code == "UNAVAILABLE" and error.sub_status != NO_WORKER_AVAILABLE


def _timed_out(request: Request[Reply], timeout_s: float | None) -> LongPollTimeoutError:
    return LongPollTimeoutError(
        f"the wait ran out after {timeout_s} s",
        code="DEADLINE_EXCEEDED",
        sub_status="LONG_POLL_TIMEOUT",
        operation=request.operation,
        flow_id=request.flow_id,
    )
