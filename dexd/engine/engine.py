"""The partition's engine: mailbox, kernel, commit, then effects [ARCH-3].

`submit`, `request`, `invoke` and `post` put commands into the mailbox. A drain takes what is there, lets the kernel
decide and collects what is owed in the current batch. The batch goes to the writer when that is idle; until its commit
the next batch grows (decide-ahead). At the commit the effects leave and the replies are released, in order.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from dexd.codec.views import AttributeView, FlowSummary, FlowWait, HistoryEntry, HistoryPage, ListPage, StepWait
from dexd.core.commands import ClientCommand, InvokeRpc, WorkerCommand
from dexd.core.config import KernelConfig
from dexd.core.ids import CallerId, FlowId, RunId, SessionId, StepExecutionId
from dexd.core.outcome import Reply
from dexd.core.rejections import Rejection
from dexd.engine.ports import BatchWriter, Clock, Failpoint, OnReply, SessionSink
from dexd.log.event_log import EventLog, RunFilter


class Engine:
    """One partition [ARCH-15]. Create, `recover`, `start` once listening, `stop`."""

    def __init__(
        self,
        log: EventLog,
        writer: BatchWriter,
        clock: Clock,
        config: KernelConfig,
        *,
        on_fatal: Callable[[BaseException], None],
        failpoint: Failpoint | None = None,
    ) -> None:
        raise NotImplementedError

    # ---- life ----------------------------------------------------------------------------------------------------

    def recover(self) -> int:
        """Rebuild live state from the log; gives the number of open runs. Before `start`."""
        raise NotImplementedError

    def start(self) -> None:
        """Serve: accept commands, fire timers. Called when the server listens [WIRE-11]."""
        raise NotImplementedError

    async def stop(self, reason: str) -> None:
        """Ask workers to reconnect, refuse new commands, answer every wait, commit what is decided [DRAIN-4]."""
        raise NotImplementedError

    # ---- commands ------------------------------------------------------------------------------------------------

    def request(self, command: ClientCommand, on_reply: OnReply) -> None:
        """Submit a client's command; `on_reply` gets the committed reply or a refusal, exactly once, never at once."""
        raise NotImplementedError

    def submit(self, command: ClientCommand) -> asyncio.Future[Reply | Rejection]:
        """The same with a future."""
        raise NotImplementedError

    def invoke(self, make: Callable[[CallerId], InvokeRpc]) -> asyncio.Future[bytes | Rejection]:
        """Run an RPC. Cancelling the future abandons the call."""
        raise NotImplementedError

    def post(self, commands: Sequence[WorkerCommand]) -> None:
        """Submit a session's commands, in order. Never refused: a session awaits `room` before it reads on."""
        raise NotImplementedError

    async def room(self) -> None:
        """Return when the mailbox takes more; the transport's flow control then holds workers back [ARCH-8]."""
        raise NotImplementedError

    def open_session(self, sink: SessionSink) -> SessionId:
        """Allocate a session; nothing reaches its sink before an OpenSession command of it is handled."""
        raise NotImplementedError

    def close_session(self, session: SessionId, reason: str) -> None:
        """The transport of a session ended. Idempotent."""
        raise NotImplementedError

    # ---- reads: decided state, revealed after the commit of everything it rests on [DUR-3] -------------------------

    def describe(self, flow_id: FlowId, run_id: RunId | None) -> asyncio.Future[FlowSummary | Rejection]:
        """The latest run, or the run named."""
        raise NotImplementedError

    def attribute(self, flow_id: FlowId, run_id: RunId | None, key: str) -> asyncio.Future[AttributeView | Rejection]:
        """One Attribute value [ATTR-5]."""
        raise NotImplementedError

    def wait_for_flow(
        self, flow_id: FlowId, *, wait_ms: int, first_run_id: RunId | None
    ) -> asyncio.Future[FlowWait | Rejection]:
        """Wait until the execution that is latest now ends [WAITAPI-1, WAITAPI-2]. Cancelling leaves nothing behind."""
        raise NotImplementedError

    def wait_for_step(
        self, flow_id: FlowId, step: StepExecutionId, *, wait_ms: int
    ) -> asyncio.Future[StepWait | Rejection]:
        """Wait until a past, present or future Step execution ends [WAITAPI-3]."""
        raise NotImplementedError

    async def history(
        self, flow_id: FlowId, run_id: RunId | None, *, from_event_id: int, limit: int
    ) -> HistoryPage | Rejection:
        """One page of a run's history [HIST-5]."""
        raise NotImplementedError

    def watch_history(
        self, flow_id: FlowId, run_id: RunId | None, *, from_event_id: int
    ) -> AsyncIterator[HistoryEntry | Rejection]:
        """The history as it grows, until the run is closed; a Rejection is the last item."""
        raise NotImplementedError

    async def list_flows(self, selection: RunFilter, limit: int) -> ListPage | Rejection:
        """Latest runs of executions, newest start first."""
        raise NotImplementedError
