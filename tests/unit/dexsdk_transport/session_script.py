"""A session machine under test: frames of a pretended server in, the orders out, on an explicit clock."""

from collections.abc import Sequence

from dexpb.v1 import frames
from dexsdk._delivery import Delivery, Orders
from dexsdk._readiness import Readiness
from dexsdk._session import Session
from dexsdk._slots import Slots
from dexsdk._wire import Received
from dexsdk._worker_identity import WorkerIdentity

WORKER_QUEUE = "worker-1"
GREETING = frames.FlowDescriptor("Greeting", None, ("Greet",), ("read",))
FLOW_QUEUE = GREETING.flow_type


class SessionScript:
    """Plays the server against one Session."""

    def __init__(
        self,
        *,
        limit: int = 4,
        reserved: int = 0,
        idle_streams: int = 1,
        flows: tuple[frames.FlowDescriptor, ...] = (GREETING,),
        max_streams: int = 256,
    ) -> None:
        identity = WorkerIdentity(WORKER_QUEUE, "incarnation-1", "0.0", flows)
        self.slots = Slots(limit, reserved)
        self.readiness = Readiness(identity.queues)
        self.session = Session(identity, self.slots, self.readiness, idle_streams)
        self.now = 1_000_000
        self.open_streams: dict[int, str] = {}
        self._max_streams = max_streams
        self._calls = 0

    def welcome(self, *more: Received) -> Orders:
        """Connect and answer the Hello; OpenStreams are remembered but not yet confirmed."""
        self.session.connect()
        welcome = frames.Welcome(1, "server-1", 20_000, self._max_streams, 16 * 1024 * 1024)
        return self.receive(welcome, *more)

    def connected(self) -> "SessionScript":
        """Connect and confirm the first streams."""
        self.confirm(self.welcome().send)
        return self

    def confirm(self, sent: Sequence[frames.WorkerFrame]) -> Orders:
        """Confirm every OpenStream among the frames."""
        opened = [frame for frame in sent if isinstance(frame, frames.OpenStream)]
        self.open_streams |= {frame.stream: frame.queue for frame in opened}
        return self.receive(*(frames.StreamOpened(frame.stream) for frame in opened))

    def receive(self, *received: Received) -> Orders:
        return self.session.receive(received, self.now)

    def stream_of(self, queue: str) -> int:
        return next(stream for stream, name in reversed(self.open_streams.items()) if name == queue)

    def assign(self, name: str = "Greet", *, stream: int | None = None, flow_type: str = FLOW_QUEUE) -> frames.Assign:
        """Build the next call, for a stream of the Flow's queue unless another one is given."""
        self._calls += 1
        is_rpc = name in GREETING.rpc_names
        token = frames.Token(
            run_id=f"run-{self._calls}",
            call=f"sys:rpc-{self._calls}" if is_rpc else f"{name}-1",
            method=frames.METHOD_RPC if is_rpc else frames.METHOD_EXECUTE,
            attempt=1,
            delivery=1,
        )
        return frames.Assign(
            stream=self.stream_of(FLOW_QUEUE) if stream is None else stream,
            token=token,
            flow_id=f"flow-{self._calls}",
            flow_type=flow_type,
            name=name,
            input=b"null",
            ordinal=1,
            flow_started_at=0,
            first_attempt_at=0,
            deadline=0,
        )

    def run(self, name: str = "Greet") -> Delivery:
        """Hand over a call and confirm the streams that follow from it; its handler has started."""
        orders = self.receive(self.assign(name))
        self.confirm(orders.send)
        (delivery,) = orders.start
        delivery.started_at = self.now
        return delivery

    def finish(self, delivery: Delivery) -> list[frames.WorkerFrame]:
        return self.session.finish(delivery, output_of(delivery), self.now)

    def acknowledge(self, delivery: Delivery) -> Orders:
        return self.receive(frames.Ack(delivery.stream, delivery.assign.token, accepted=True))

    def tick_after(self, ms: int) -> Orders:
        self.now += ms
        return self.session.tick(self.now)


def output_of(delivery: Delivery) -> frames.Output:
    return frames.Output(delivery.assign.stream, delivery.assign.token, output=b"1")
