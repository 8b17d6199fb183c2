"""Orders of the kernel to the shell, performed after the commit of the outcome that holds them [ARCH-3].

A lost effect is re-derived from state: an assignment by redelivery, an acknowledgement by the worker's repeat, a
session effect by the session's end.
"""

from typing import TypeAlias, final

import msgspec

from dexd.core.commands import RunCommand
from dexd.core.ids import CallerId, FlowId, RunId, SessionId, StreamNumber
from dexd.core.jobs.commands import ReachTarget
from dexd.core.rejections import Rejection
from dexd.core.values import ConditionResult, Message, RecoveryError, Token


class CallSnapshot(msgspec.Struct, frozen=True, gc=False):
    """One call with everything its handler reads [ATTR-6, ATTR-8]."""

    token: Token
    flow_id: FlowId
    flow_type: str
    name: str
    input: bytes
    ordinal: int
    flow_started_at: int
    first_attempt_at: int
    deadline: int
    from_step: str
    attributes: dict[str, bytes]
    channel_sizes: dict[str, int]
    results: tuple[ConditionResult, ...] = ()
    locals: dict[str, bytes] = {}
    recovery_error: RecoveryError | None = None
    wait_for_failed: bool = False
    heartbeat: bytes = b""
    """Newest value of earlier deliveries and attempts of the method [HB-2]."""
    heartbeat_timeout_ms: int = 0
    """How often the handler must show life; 0 is never [HB-1]."""
    references: tuple[str, ...] = ()
    """Attributes that are set and whose values the worker fetches when it needs them [ATTR-7]."""
    preload: tuple[str, ...] = ()
    """Definitions whose values it fetches before the call."""
    run_id: RunId = RunId("")
    """The run at hand-over; the handler keeps it whatever run continues that one [ROLL-4]."""
    scheduled_at: int = 0
    """Nominal instant of the schedule's fire that started the execution; 0 if none did [SCHED-10]."""


class WelcomeSession(msgspec.Struct, frozen=True, gc=False):
    """Hello was accepted."""

    session: SessionId


class EndSession(msgspec.Struct, frozen=True, gc=False):
    """Close the session with this refusal."""

    session: SessionId
    rejection: Rejection


class AskReconnect(msgspec.Struct, frozen=True, gc=False):
    """Send Reconnect."""

    session: SessionId
    reason: str


class ConfirmStream(msgspec.Struct, frozen=True, gc=False):
    """The stream is registered."""

    session: SessionId
    stream: StreamNumber


class RejectStream(msgspec.Struct, frozen=True, gc=False):
    """The stream is not registered."""

    session: SessionId
    stream: StreamNumber
    rejection: Rejection


class ConfirmStreamClosed(msgspec.Struct, frozen=True, gc=False):
    """The stream is gone."""

    session: SessionId
    stream: StreamNumber


class AssignCall(msgspec.Struct, frozen=True, gc=False):
    """Hand a call to a stream."""

    session: SessionId
    stream: StreamNumber
    call: CallSnapshot


class CancelCall(msgspec.Struct, frozen=True, gc=False):
    """Tell a worker that the result of a delivery is not wanted any more."""

    session: SessionId
    stream: StreamNumber
    token: Token
    reason: str
    grace_ms: int = 0


class AcknowledgeResult(msgspec.Struct, frozen=True, gc=False):
    """Tell a worker that its result was applied, or refused and why."""

    session: SessionId
    stream: StreamNumber
    token: Token
    accepted: bool
    reason: str = ""


class DeliverPart(msgspec.Struct, frozen=True, gc=False):
    """Answer what a handler fetches: bytes of a value, or messages."""

    session: SessionId
    token: Token
    fetch: int
    data: bytes = b""
    messages: tuple[Message, ...] = ()
    has_more: bool = False
    refusal: str = ""
    """Why there is nothing: STALE, or NOT_WITHHELD for what the call did bring along."""


class SendPing(msgspec.Struct, frozen=True, gc=False):
    """Send Ping."""

    session: SessionId
    nonce: int


@final
class AnswerRpc(msgspec.Struct, frozen=True, gc=False):
    """Answer the caller of an RPC with its output, or the refusal."""

    caller: CallerId
    answer: bytes | Rejection


@final
class SubmitCommand(msgspec.Struct, frozen=True, gc=False):
    """Hand a command to the kernel: what one run owes another, which may only happen once it is committed [ARCH-14].

    After a crash the kernel derives it again from the runs; the command finds what was done before.
    """

    command: RunCommand


@final
class TravelTarget(msgspec.Struct, frozen=True, gc=False):
    """Take a batch job's target back in time, which the shell prepares from the log; it submits NoteTarget then.

    After a crash the job asks for it again, under the same request ID.
    """

    reach: ReachTarget


SessionEffect: TypeAlias = (
    WelcomeSession
    | EndSession
    | AskReconnect
    | ConfirmStream
    | RejectStream
    | ConfirmStreamClosed
    | AssignCall
    | CancelCall
    | AcknowledgeResult
    | DeliverPart
    | SendPing
)
Effect: TypeAlias = SessionEffect | AnswerRpc | SubmitCommand | TravelTarget
