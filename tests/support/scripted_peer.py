"""A gRPC server on a real socket whose every frame is written by the test: the peer of SDK workers and clients."""

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

import grpc
import msgspec
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from dexpb.v1 import frames
from dexpb.v1.flow_service_pb2 import ClientBatch, ClientRequest, ServerBatch, ServerReply
from dexpb.v1.worker_service_pb2 import SessionBatch

WAIT_S = 15.0
"""A frame that does not come within it fails the test."""

Frame = TypeVar("Frame", bound=frames.WorkerFrame)


class Refusal(msgspec.Struct, frozen=True):
    """A status that ends a session or answers a request."""

    code: grpc.StatusCode
    reason: str
    message: str = "refused"

    @property
    def status(self) -> bytes:
        """The google.rpc.Status as bytes."""
        detail = AnyMessage()
        detail.Pack(ErrorInfo(reason=self.reason, domain="dexd"))
        return Status(code=self.code.value[0], message=self.message, details=[detail]).SerializeToString()


class PeerSession:
    """One session of either service, from the server's side."""

    def __init__(
        self,
        requests: Iterator[bytes],
        context: grpc.ServicerContext,
        on_message: "Callable[[PeerSession, bytes], None]" = lambda _session, _message: None,
    ) -> None:
        self._requests = requests
        self._on_message = on_message
        self._context = context
        self._outgoing: queue.SimpleQueue[bytes | Refusal | None] = queue.SimpleQueue()
        self._incoming: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.metadata = dict(context.invocation_metadata())
        """What the SDK sent with the call."""

    def read(self) -> None:
        """Read until the peer ends; runs in a thread of its own."""
        try:
            for message in self._requests:
                self._incoming.put(message)
                self._on_message(self, message)
        except grpc.RpcError:
            pass
        finally:
            self._incoming.put(None)
            self.end()

    def write(self) -> Iterator[bytes]:
        """Give what is sent, until the end."""
        while (message := self._outgoing.get()) is not None:
            if isinstance(message, Refusal):
                self._context.set_trailing_metadata((("grpc-status-details-bin", message.status),))
                self._context.abort(message.code, message.message)
            else:
                yield message

    def next_message(self) -> bytes:
        """Give the next message from the SDK."""
        message = self._incoming.get(timeout=WAIT_S)
        assert message is not None, "the SDK ended the session"
        return message

    def await_end(self) -> None:
        """Return when the SDK has ended its side."""
        while self._incoming.get(timeout=WAIT_S) is not None:
            pass

    def send_bytes(self, message: bytes) -> None:
        self._outgoing.put(message)

    def end(self, refusal: Refusal | None = None) -> None:
        """End the call, with OK unless there is a refusal."""
        self._outgoing.put(refusal)


class Farewell:
    """Answers what a worker asks after its Goodbye, so that tests need not; a stopping worker waits for it."""

    def __init__(self) -> None:
        self._is_leaving = False

    def on_message(self, session: PeerSession, message: bytes) -> None:
        """Look at a batch of a worker."""
        for frame in msgspec.msgpack.decode(SessionBatch.FromString(message).frames, type=list[frames.WorkerFrame]):
            self._is_leaving |= isinstance(frame, frames.Goodbye)
            if self._is_leaving and isinstance(frame, frames.CloseStream):
                session.send_bytes(encode_frames(frames.StreamClosed(frame.stream)))


def encode_frames(*outgoing: frames.ServerFrame) -> bytes:
    """Give one batch."""
    return SessionBatch(frames=msgspec.msgpack.encode(outgoing)).SerializeToString()


class WorkerPeer:
    """A worker session: frames in, frames out."""

    def __init__(self, session: PeerSession) -> None:
        self.session = session
        self._waiting: list[frames.WorkerFrame] = []
        self.hello = self.take(frames.Hello)

    def welcome(self, *, max_streams: int = 256) -> list[frames.OpenStream]:
        """Answer the Hello, confirm one stream per queue and give them."""
        self.send(frames.Welcome(1, "peer", 20_000, max_streams, 1 << 24))
        opened = [self.take(frames.OpenStream) for _ in range(1 + len(self.hello.flows))]
        self.send(*(frames.StreamOpened(frame.stream) for frame in opened))
        return opened

    def send(self, *outgoing: frames.ServerFrame) -> None:
        """Send frames in one batch."""
        self.session.send_bytes(encode_frames(*outgoing))

    def take(self, kind: type[Frame], where: Callable[[Frame], bool] = lambda _: True) -> Frame:
        """Give the next frame of a kind; other frames are kept for later."""
        while True:
            for position, frame in enumerate(self._waiting):
                if isinstance(frame, kind) and where(frame):
                    return self._waiting.pop(position)  # type: ignore[return-value] # checked a line above
            batch = SessionBatch.FromString(self.session.next_message()).frames
            self._waiting += msgspec.msgpack.decode(batch, type=list[frames.WorkerFrame])


class ClientPeer:
    """A client session: requests in, replies out."""

    def __init__(self, session: PeerSession) -> None:
        self.session = session
        self._waiting: list[ClientRequest] = []

    def take(self) -> ClientRequest:
        """Give the next request."""
        while not self._waiting:
            self._waiting += ClientBatch.FromString(self.session.next_message()).requests
        return self._waiting.pop(0)

    def reply(self, *answers: tuple[ClientRequest, bytes | Refusal]) -> None:
        """Answer requests in one message."""
        self.session.send_bytes(
            ServerBatch(
                replies=[
                    ServerReply(id=request.id, code=answer.code.value[0], status=answer.status)
                    if isinstance(answer, Refusal)
                    else ServerReply(id=request.id, body=answer)
                    for request, answer in answers
                ]
            ).SerializeToString()
        )


class ScriptedPeer:
    """Listens on a port of its own, which stays the same over `restart`."""

    def __init__(self, credentials: grpc.ServerCredentials | None = None) -> None:
        """Listen.

        Args:
            credentials: For TLS; None listens without.
        """
        self._credentials = credentials
        self._workers: queue.SimpleQueue[PeerSession] = queue.SimpleQueue()
        self._clients: queue.SimpleQueue[PeerSession] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(64)
        self.watches: queue.SimpleQueue[tuple[bytes, PeerSession]] = queue.SimpleQueue()
        self.address = "127.0.0.1:0"
        self._server = self._listen()

    def worker(self) -> WorkerPeer:
        """Give the next worker session; its Hello was read."""
        return WorkerPeer(self._workers.get(timeout=WAIT_S))

    def client(self) -> ClientPeer:
        """Give the next client session."""
        return ClientPeer(self._clients.get(timeout=WAIT_S))

    def stop(self) -> None:
        """End all sessions and listen no more."""
        self._server.stop(grace=None).wait()

    def restart(self) -> None:
        """Listen again at the same address."""
        self._server = self._listen()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._threads.shutdown(wait=False)

    def _listen(self) -> grpc.Server:
        server = grpc.server(self._threads, options=[("grpc.so_reuseport", 0)])
        handlers = {
            "/dexpb.v1.WorkerService/Session": self._workers,
            "/dexpb.v1.FlowService/Session": self._clients,
        }
        server.add_generic_rpc_handlers((_SessionHandlers(handlers, self.watches),))
        if self._credentials is None:
            port = server.add_insecure_port(self.address)
        else:
            port = server.add_secure_port(self.address, self._credentials)
        self.address = f"127.0.0.1:{port}"
        server.start()
        return server


class _SessionHandlers(grpc.GenericRpcHandler):
    """Turns calls of the two Session methods, and of WatchHistory, into PeerSessions."""

    def __init__(
        self,
        sessions: dict[str, queue.SimpleQueue[PeerSession]],
        watches: queue.SimpleQueue[tuple[bytes, PeerSession]],
    ) -> None:
        self._sessions = sessions
        self._watches = watches

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        if handler_call_details.method == "/dexpb.v1.FlowService/WatchHistory":
            return grpc.unary_stream_rpc_method_handler(self._serve_watch)
        accepted = self._sessions.get(handler_call_details.method)
        if accepted is None:
            return None

        def serve(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            is_worker = "Worker" in handler_call_details.method
            session = (
                PeerSession(requests, context, Farewell().on_message) if is_worker else PeerSession(requests, context)
            )
            reader = ThreadPoolExecutor(1)
            reader.submit(session.read)
            reader.shutdown(wait=False)
            context.add_callback(session.end)
            accepted.put(session)
            return session.write()

        return grpc.stream_stream_rpc_method_handler(serve)

    def _serve_watch(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        session = PeerSession(iter(()), context)
        context.add_callback(session.end)
        self._watches.put((request, session))
        return session.write()
