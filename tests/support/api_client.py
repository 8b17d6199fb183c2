"""The API as bytes on the wire, without the SDK: unary calls, a client session, and a hand-driven worker."""

from collections.abc import Iterator
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar, cast

import grpc
import msgspec
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from dexpb.v1 import frames
from dexpb.v1.blob_service_pb2 import BlobChunk, BlobDownloadRequest, BlobUpload, BlobUploadReply
from dexpb.v1.blobs import SESSION_KEY, make_reference, read_reference
from dexpb.v1.flow_service_pb2 import ClientBatch, ClientRequest, ServerBatch, ServerReply
from dexpb.v1.worker_service_pb2 import SessionBatch

ReplyType = TypeVar("ReplyType", bound=Message)
FrameType = TypeVar("FrameType", bound=frames.ServerFrame)

Metadata: TypeAlias = tuple[tuple[str, str], ...]

CALL_TIMEOUT_S = 20


class RefusedError(Exception):
    """A call that the server refused."""

    def __init__(self, code: str, message: str, status: bytes | None) -> None:
        self.code = code
        self.message = message
        self.reason = ""
        self.metadata: dict[str, str] = {}
        self.retry_after_ms: int | None = None
        for detail in Status.FromString(status).details if status is not None else ():
            info, retry = ErrorInfo(), RetryInfo()
            if detail.Unpack(info):
                self.reason, self.metadata = info.reason, dict(info.metadata)
            elif detail.Unpack(retry):
                self.retry_after_ms = retry.retry_delay.ToMilliseconds()
        super().__init__(f"{code}/{self.reason}: {message}")


def refusal_of(error: grpc.RpcError) -> RefusedError:
    """Read what a gRPC call ended with."""
    call = cast("grpc.Call", error)
    trailers = dict(call.trailing_metadata() or ())
    return RefusedError(
        call.code().name, call.details() or "", cast("bytes | None", trailers.get("grpc-status-details-bin"))
    )


class ApiClient:
    """Calls to one server."""

    def __init__(self, address: str, session_key: str | None = None) -> None:
        """`session_key` is what large values are uploaded under [BLOB-3]."""
        self.address = address
        self.metadata = () if session_key is None else ((SESSION_KEY, session_key),)
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        self.channel = grpc.insecure_channel(address, options=options)

    def call_bytes(self, path: str, body: bytes, timeout: float = CALL_TIMEOUT_S) -> bytes:
        """Make a unary call, e.g. of ``dexpb.v1.FlowService/StartFlow``."""
        try:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(f"/{path}")
            return call(body, timeout=timeout, metadata=self.metadata)
        except grpc.RpcError as error:
            raise refusal_of(error) from error

    def call(
        self, method: str, request: Message, reply_type: type[ReplyType], service: str = "FlowService"
    ) -> ReplyType:
        """Make a unary call with messages."""
        return reply_type.FromString(self.call_bytes(f"dexpb.v1.{service}/{method}", request.SerializeToString()))

    def stream(
        self, method: str, request: Message, reply_type: type[ReplyType], service: str = "FlowService"
    ) -> Iterator[ReplyType]:
        """Make a call that streams its answer."""
        call: grpc.UnaryStreamMultiCallable[bytes, bytes] = self.channel.unary_stream(f"/dexpb.v1.{service}/{method}")
        try:
            for message in call(request.SerializeToString(), timeout=CALL_TIMEOUT_S):
                yield reply_type.FromString(message)
        except grpc.RpcError as error:
            raise refusal_of(error) from error

    def client_session(self) -> "ClientSessionCall":
        """Open a session of a client."""
        return ClientSessionCall(self.channel, self.metadata)

    def worker_session(self) -> "WorkerSessionCall":
        """Open a session of a worker; nothing is sent yet."""
        return WorkerSessionCall(self.channel, self.metadata)

    def upload_call(self) -> "UploadCall":
        """Begin to upload large values."""
        return UploadCall(self.channel, self.metadata)

    def upload(self, data: bytes) -> bytes:
        """Upload a large value as the SDK does; gives the reference to it."""
        call = self.upload_call()
        reference = call.offer(data)
        while not (wanted := call.reply()).is_stored:
            call.send(data=data[wanted.offset : wanted.offset + wanted.length])
        call.cancel()
        return reference

    def download(self, digest: bytes) -> bytes:
        """Fetch a large value."""
        request = BlobDownloadRequest(digest=digest)
        return b"".join(chunk.data for chunk in self.stream("Download", request, BlobChunk, "BlobService"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _stack: TracebackType | None
    ) -> None:
        self.channel.close()


class _Call:
    """One bidirectional call whose messages are bytes."""

    def __init__(self, channel: grpc.Channel, path: str, metadata: Metadata) -> None:
        self._outbound: SimpleQueue[bytes | None] = SimpleQueue()
        call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(path)
        self._call = call(iter(self._outbound.get, None), timeout=2 * CALL_TIMEOUT_S, metadata=metadata)

    def send_bytes(self, message: bytes) -> None:
        """Send one message."""
        self._outbound.put(message)

    def read_bytes(self) -> bytes | None:
        """Wait for the next message; None when the server ended the call in order."""
        try:
            return next(self._call)
        except StopIteration:
            return None
        except grpc.RpcError as error:
            raise refusal_of(error) from error

    def finish(self) -> None:
        """Say that nothing more will be sent."""
        self._outbound.put(None)

    def cancel(self) -> None:
        """Break the call off."""
        self._call.cancel()
        self._outbound.put(None)


class ClientSessionCall(_Call):
    """A client session."""

    def __init__(self, channel: grpc.Channel, metadata: Metadata) -> None:
        super().__init__(channel, "/dexpb.v1.FlowService/Session", metadata)

    def send(self, *requests: ClientRequest) -> None:
        """Send requests in one message."""
        self.send_bytes(ClientBatch(requests=requests).SerializeToString())

    def replies(self, count: int) -> dict[int, ServerReply]:
        """Wait for a number of replies, by request id."""
        replies: dict[int, ServerReply] = {}
        while len(replies) < count:
            message = self.read_bytes()
            assert message is not None, f"the session ended after {len(replies)} replies"
            replies |= {reply.id: reply for reply in ServerBatch.FromString(message).replies}
        return replies


class WorkerSessionCall(_Call):
    """A worker session whose frames are sent and awaited one by one."""

    def __init__(self, channel: grpc.Channel, metadata: Metadata = ()) -> None:
        super().__init__(channel, "/dexpb.v1.WorkerService/Session", metadata)
        self._unread: list[frames.ServerFrame] = []

    def send(self, *batch: frames.WorkerFrame) -> None:
        """Send frames in one message."""
        self.send_bytes(SessionBatch(frames=msgspec.msgpack.encode(batch)).SerializeToString())

    def next_frame(self, frame_type: type[FrameType]) -> FrameType:
        """Wait for the next frame of that type; others stay for later calls, except Pings, which are answered."""
        position = 0
        while True:
            while position < len(self._unread):
                frame = self._unread[position]
                if isinstance(frame, frame_type):
                    del self._unread[position]
                    return frame
                position += 1
            position = len(self._unread)
            self._receive()

    def _receive(self) -> None:
        message = self.read_bytes()
        assert message is not None, "the session ended"
        received = msgspec.msgpack.decode(SessionBatch.FromString(message).frames, type=list[frames.ServerFrame])
        for frame in received:
            if isinstance(frame, frames.Ping):
                self.send(frames.Pong(frame.nonce))
            else:
                self._unread.append(frame)


class UploadCall(_Call):
    """An upload of large values, message by message."""

    def __init__(self, channel: grpc.Channel, metadata: Metadata) -> None:
        super().__init__(channel, "/dexpb.v1.BlobService/Upload", metadata)

    def offer(self, data: bytes) -> bytes:
        """Name a value; gives the reference to it."""
        reference = make_reference(data)
        named = read_reference(reference)
        self.send(digest=named.digest, size=named.size)
        return reference

    def send(self, **fields: Any) -> None:
        """Send one message."""
        self.send_bytes(BlobUpload(**fields).SerializeToString())

    def reply(self) -> BlobUploadReply:
        """Wait for the server's next word."""
        message = self.read_bytes()
        assert message is not None, "the upload ended"
        return BlobUploadReply.FromString(message)


def hello(worker_id: str, *flows: frames.FlowDescriptor, **changes: Any) -> frames.Hello:
    """A valid Hello."""
    greeting = frames.Hello(
        protocol_min=frames.PROTOCOL_MIN,
        protocol_max=frames.PROTOCOL_MAX,
        worker_id=worker_id,
        incarnation="1",
        sdk_name="test",
        sdk_version="0",
        max_concurrent_tasks=8,
        reserved_rpc_tasks=1,
        flows=flows,
    )
    return msgspec.structs.replace(greeting, **changes)
