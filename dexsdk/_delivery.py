"""What the session keeps of one assigned call, what it orders from those around it, and who runs handlers for it."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol, TypeAlias

import msgspec

from dexpb.v1 import frames
from dexsdk._clock import now_ms
from dexsdk._handler_pulse import HandlerPulse

CANCEL_DRAINING = "DRAINING"
"""Why the worker itself cancels a call that outlives its drain timeout [DRAIN-1]."""

CANCELED = "CANCELED"
"""Why a handler gets no answer from its own worker."""

Result: TypeAlias = frames.Output | frames.Failed


class RunningHandler(Protocol):
    """A handler that can be asked to stop."""

    def request_cancellation(self) -> None:
        """Let it see that its result is not wanted; any thread may call this."""


class Delivery(msgspec.Struct, eq=False):
    """One call from its Assign until its result is acknowledged.

    The runner sets `started_at`, `handler` and `sink`, the session the rest.
    """

    assign: frames.Assign
    queue: str
    stream: int
    """Its stream in the current session."""
    started_at: int | None = None
    """When its handler started; None while it waits for the user's loop or a thread."""
    handler: RunningHandler | None = None
    """Its handler while it runs."""
    is_accepted: bool = False
    cancel_reason: str | None = None
    release_at: int | None = None
    """When its slot is taken away although the handler goes on [STOP-4]."""
    is_released: bool = False
    result: Result | None = None
    pulse: HandlerPulse | None = None
    """Heartbeats of its handler, once there are any."""
    fetches: dict[int, tuple[frames.Fetch, Future[frames.Fetched]]] | None = None
    """Questions of its handler that the server has not answered yet."""
    sink: "DeliverySink | None" = None
    """Who takes heartbeats, from the start of its handler on."""

    __repr__ = object.__repr__  # Nothing of a payload may get into a log [ERR-3].

    def fetch(self, question: frames.Fetch) -> "Future[frames.Fetched]":
        """Its handler reads what the call only refers to [ATTR-7]; refused once its result is not wanted any more."""
        answer: Future[frames.Fetched] = Future()
        if self.fetches is None:
            self.fetches = {}
        self.fetches[question.fetch] = (question, answer)
        if self.cancel_reason is not None or self.sink is None:
            self.refuse_fetches()
        else:
            self.sink.fetch(self, question)
        return answer

    @property
    def questions(self) -> Sequence[frames.Fetch]:
        """What its handler asked and the server has not answered yet."""
        return [question for question, _ in self.fetches.values()] if self.fetches else ()

    def on_fetched(self, part: frames.Fetched) -> None:
        """The server answered one of its questions; a second answer after a reconnect changes nothing."""
        asked = self.fetches.pop(part.fetch, None) if self.fetches else None
        if asked is not None:
            asked[1].set_result(part)

    def refuse_fetches(self) -> None:
        """Nobody waits for its handler any more, so that it need not wait either."""
        for question in self.questions:
            self.on_fetched(frames.Fetched(question.fetch, question.token, refusal=CANCELED))

    def heartbeat(self, value: bytes) -> None:
        """Its handler shows life [HB-2]; what comes too soon after another one leaves later, or not at all."""
        pulse = self.pulse
        if pulse is None:
            pulse = self.pulse = HandlerPulse(self.assign.heartbeat_timeout_ms)
        pulse.beat(value)
        if self.sink is not None and pulse.is_due(now_ms()):
            self.sink.heartbeat(self)

    def __str__(self) -> str:
        return f"{self.assign.flow_type}.{self.assign.name} ({self.assign.token.call} of Flow {self.assign.flow_id!r})"


class Orders(msgspec.Struct):
    """Everything owed after some input: send first, then start, so that no Pong or decline waits for user code."""

    send: list[frames.WorkerFrame] = []
    start: list[Delivery] = []
    """Calls whose handlers are to be run."""
    cancel: list[Delivery] = []
    """Calls whose handlers are to be asked to stop."""
    abandoned: list[Delivery] = []
    """Calls that lost their slot although the handler goes on; to be logged."""
    reserve_declines: list[frames.Assign] = []
    """Steps declined only because of the RPC reserve; to be logged [RES-6]."""
    welcome: frames.Welcome | None = None


Ended: TypeAlias = tuple[Delivery, Result | None]
"""A call whose handler ended, and its result; None gives no answer, so that the call runs elsewhere [LOST-1]."""


class DeliverySink(Protocol):
    """Takes what became of deliveries, from any thread."""

    def finish(self, ended: Sequence[Ended]) -> None:
        """Handlers ended; their results leave together."""

    def heartbeat(self, delivery: Delivery) -> None:
        """The handler has a heartbeat to send."""

    def fetch(self, delivery: Delivery, question: frames.Fetch) -> None:
        """The handler has a question to send."""

    def skip(self, delivery: Delivery) -> None:
        """The call was canceled before its handler started."""

    def decline(self, delivery: Delivery, reason: str) -> None:
        """The call cannot be run here; no handler was started."""


class HandlerRunner(Protocol):
    """Runs the handlers of deliveries."""

    def start(self, sink: DeliverySink, deliveries: Sequence[Delivery]) -> None:
        """Run handlers, without waiting for them; called by a session's thread."""

    def cancel(self, delivery: Delivery) -> None:
        """Ask a handler to stop; one that has returned or never started is not harmed [STOP-5]."""
