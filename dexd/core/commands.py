"""Everything that can happen to the kernel, as data. Imperative names; ids and draws come in with the command."""

from typing import TypeAlias

import msgspec

from dexd.core.forks.plan import ForkPlan
from dexd.core.ids import (
    CallerId,
    FlowId,
    MessageId,
    QueueName,
    RequestId,
    RunId,
    SessionId,
    StepExecutionId,
    StreamNumber,
    WorkerId,
)
from dexd.core.index_values import IndexWrite
from dexd.core.jobs.commands import JobCommand, JobStep
from dexd.core.rejections import Rejection
from dexd.core.schedules.commands import OccurrenceCommand, ProvideFires, ScheduleCommand
from dexd.core.start_command import StartFlow as StartFlow  # noqa: PLC0414 - read from here like all others
from dexd.core.sub_flows import SubFlowKey, SubFlowPlan
from dexd.core.terms import FlowConfig, Parent
from dexd.core.values import (
    Failure,
    FlowCapability,
    Response,
    RunningCall,
    StopType,
    SubFlowResult,
    TimerId,
    Token,
)

# ---- from clients -----------------------------------------------------------------------------------------------


class PublishMessages(msgspec.Struct, frozen=True, gc=False):
    """Publish to one Channel of an active Flow. Reply: PublishAccepted."""

    flow_id: FlowId
    run_id: RunId | None
    channel: str
    values: tuple[bytes, ...]
    request_id: RequestId
    digest: bytes


class SetAttribute(msgspec.Struct, frozen=True, gc=False):
    """Set or delete one Attribute of an active Flow. Reply: AttributeAccepted."""

    flow_id: FlowId
    run_id: RunId | None
    key: str
    value: bytes | None
    request_id: RequestId
    digest: bytes
    indexed: tuple[IndexWrite, ...] = ()


class DeleteMessage(msgspec.Struct, frozen=True, gc=False):
    """Take one pending message out of a Channel. Reply: MessageDeleted."""

    flow_id: FlowId
    run_id: RunId | None
    channel: str
    message_id: MessageId
    request_id: RequestId
    digest: bytes


class SkipTimer(msgspec.Struct, frozen=True, gc=False):
    """Make a Timer count as fired, now or as soon as its Wait is installed. Reply: SkipTimerResult."""

    flow_id: FlowId
    run_id: RunId | None
    step_execution_id: StepExecutionId
    timer: TimerId
    request_id: RequestId
    digest: bytes


class InvokeRpc(msgspec.Struct, frozen=True, gc=False):
    """Run an RPC handler. The answer comes later, as the effect AnswerRpc."""

    caller: CallerId
    flow_id: FlowId
    run_id: RunId | None
    name: str
    input: bytes
    request_id: RequestId
    digest: bytes
    timeout_ms: int
    expires_at: int
    """End of the whole call, waiting for a worker included [RPC-7]."""
    locks: tuple[str, ...] = ()
    """Attribute keys that the handler has locked [LOCK-1]."""
    is_transactional: bool = False
    """All that it asks for must be possible, or nothing of it is done [RPC-5, CHAN-8]."""
    is_resolving: bool = False
    """The caller does not know the two; what connected workers say of the RPC holds."""


class ContinueAsNew(msgspec.Struct, frozen=True, gc=False):
    """Let another run continue the current one of an active Flow [ROLL-2]. Reply: ContinueAsNewAccepted."""

    flow_id: FlowId
    run_id: RunId | None
    request_id: RequestId
    digest: bytes


class TimeTravel(msgspec.Struct, frozen=True, gc=False):
    """Begin a run that goes on from an earlier point of the latest execution [TT-1]. Reply: TimeTravelAccepted.

    ForkOutdated as reply means that the Flow has changed since the plan was made: another one is needed.
    """

    flow_id: FlowId
    run_id: RunId
    """Minted by the shell; used only if a run really begins."""
    reason: str
    request_id: RequestId
    digest: bytes
    plan: ForkPlan | Rejection
    """What the log says of the point; a refusal if there is none."""


class AbandonRpc(msgspec.Struct, frozen=True, gc=False):
    """The caller of an RPC has gone; a handler that already runs may still have its effects."""

    caller: CallerId


class StopFlow(msgspec.Struct, frozen=True, gc=False):
    """End a Flow now. Reply: StopFlowResult."""

    flow_id: FlowId
    run_id: RunId | None
    type: StopType
    reason: str
    request_id: RequestId
    digest: bytes


class UpdateFlowConfig(msgspec.Struct, frozen=True, gc=False):
    """Change settings of an active Flow [CFG-2]. Reply: FlowConfigAccepted."""

    flow_id: FlowId
    run_id: RunId | None
    config: FlowConfig
    request_id: RequestId
    digest: bytes


# ---- from worker sessions ---------------------------------------------------------------------------------------


class OpenSession(msgspec.Struct, frozen=True, gc=False):
    """A worker said Hello and speaks our protocol. Effects: WelcomeSession or EndSession."""

    session: SessionId
    worker_id: WorkerId
    incarnation: str
    max_concurrent_tasks: int
    reserved_rpc_tasks: int
    flows: tuple[FlowCapability, ...]
    running: tuple[RunningCall, ...] = ()
    sdk: str = ""
    """Name and version of its SDK, for people."""


class LoseSession(msgspec.Struct, frozen=True, gc=False):
    """The session's transport ended, for whatever reason."""

    session: SessionId
    reason: str


class DrainSession(msgspec.Struct, frozen=True, gc=False):
    """The worker said Goodbye: it takes no more calls."""

    session: SessionId


class OpenStream(msgspec.Struct, frozen=True, gc=False):
    """Register a logical stream on a queue. Effects: ConfirmStream or RejectStream."""

    session: SessionId
    stream: StreamNumber
    queue: QueueName


class CloseStream(msgspec.Struct, frozen=True, gc=False):
    """Take an idle stream away. Effect: ConfirmStreamClosed."""

    session: SessionId
    stream: StreamNumber


class AcceptCall(msgspec.Struct, frozen=True, gc=False):
    """The handler has started, or showed life."""

    session: SessionId
    stream: StreamNumber
    token: Token


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """The handler showed life, and perhaps a value for the next attempt [HB-2]."""

    session: SessionId
    stream: StreamNumber
    token: Token
    value: bytes = b""


class DeclineCall(msgspec.Struct, frozen=True, gc=False):
    """The worker will not run the call; no handler was started."""

    session: SessionId
    stream: StreamNumber
    token: Token
    reason: str


class CompleteCall(msgspec.Struct, frozen=True, gc=False):
    """A handler's result. Effect: AcknowledgeResult."""

    session: SessionId
    stream: StreamNumber
    token: Token
    response: Response
    sub_flows: tuple[SubFlowPlan, ...] = ()
    """Children of the Wait that it holds."""


class FailCall(msgspec.Struct, frozen=True, gc=False):
    """A handler raised. Effect: AcknowledgeResult."""

    session: SessionId
    stream: StreamNumber
    token: Token
    failure: Failure


class FetchPart(msgspec.Struct, frozen=True, gc=False):
    """A running handler reads what its call did not bring along. Effect: DeliverPart."""

    session: SessionId
    token: Token
    fetch: int
    """The worker's number for its question."""
    is_channel: bool
    """Pending messages of a Channel, otherwise the value of an Attribute."""
    key: str
    offset: int = 0
    """Bytes of the value that the worker has already."""
    after: str = ""
    """ID of the last message that the worker has already."""


class AnswerPing(msgspec.Struct, frozen=True, gc=False):
    """A Pong arrived; only the nonce of the open Ping counts [WIRE-7]."""

    session: SessionId
    nonce: int


# ---- what one run owes another [ARCH-14] ------------------------------------------------------------------------


class ReachSubFlow(msgspec.Struct, frozen=True, gc=False):
    """Start the child of a Wait, or find it: a repeat of this finds what it started [SUB-6]."""

    key: SubFlowKey
    """Who waits for it."""
    flow_id: FlowId
    """The child's."""
    plan: SubFlowPlan
    parent: Parent
    config: FlowConfig | None
    """Settings that the child inherits, its own already over them [SUB-3]."""
    is_known: bool = False
    """The parent has recorded that the child exists: it is never started again for this Wait."""


class NoteSubFlow(msgspec.Struct, frozen=True, gc=False):
    """Let a parent know how its child stands; a no-op for one that does not wait for it any more [SUB-4]."""

    key: SubFlowKey
    run_id: RunId
    """First run of the child's execution."""
    is_attached: bool
    result: SubFlowResult | None = None
    """How it ended; None while it runs."""


# ---- from the shell itself --------------------------------------------------------------------------------------


class Tick(msgspec.Struct, frozen=True, gc=False):
    """Time has passed."""


class BeginServing(msgspec.Struct, frozen=True, gc=False):
    """Recovery is over and the server listens: calls that were running wait for their workers from now on [WIRE-11]."""


class BeginShutdown(msgspec.Struct, frozen=True, gc=False):
    """Assign nothing more and ask every session to reconnect elsewhere or later [DRAIN-4]."""

    reason: str


ClientCommand: TypeAlias = (
    StartFlow
    | PublishMessages
    | SetAttribute
    | DeleteMessage
    | SkipTimer
    | InvokeRpc
    | AbandonRpc
    | StopFlow
    | UpdateFlowConfig
    | ScheduleCommand
    | ContinueAsNew
    | TimeTravel
    | JobCommand
)
WorkerCommand: TypeAlias = (
    OpenSession
    | LoseSession
    | DrainSession
    | OpenStream
    | CloseStream
    | AcceptCall
    | Heartbeat
    | DeclineCall
    | CompleteCall
    | FailCall
    | FetchPart
    | AnswerPing
)
# ---- from operators ---------------------------------------------------------------------------------------------


class DrainWorker(msgspec.Struct, frozen=True, gc=False):
    """Hand no more calls to a worker process, or let it have calls again. Reply: WorkerDrained."""

    worker_id: WorkerId
    is_undo: bool = False


RunCommand: TypeAlias = ReachSubFlow | NoteSubFlow | OccurrenceCommand | JobStep
ShellCommand: TypeAlias = Tick | BeginServing | BeginShutdown | ProvideFires
OperatorCommand: TypeAlias = DrainWorker
Command: TypeAlias = ClientCommand | WorkerCommand | OperatorCommand | RunCommand | ShellCommand
