"""Large values to and from a server, over a connection of their own, so that they hold up nothing else [BLOB-2]."""

import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from threading import Event, Lock
from typing import TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError

from dexpb.v1.blob_service_pb2 import BlobChunk, BlobDownloadRequest, BlobTerms, BlobUpload, BlobUploadReply
from dexpb.v1.blobs import CHUNK_BYTES, Reference
from dexsdk import _blobs as blobs
from dexsdk._backoff import Backoff
from dexsdk._conversation import is_transient
from dexsdk._server_channel import ServerChannel
from dexsdk._status import RemoteStatus, status_of_call

SERVICE = "/dexpb.v1.BlobService/"

UNLIMITED = 2**62
"""Threshold of a server that takes no uploads: everything travels inline."""

BROKEN_OFF = frozenset({"CANCELLED", "INTERNAL", "UNKNOWN"})
"""How calls end that nobody meant to end; with a reason they are the server's answer."""

Result = TypeVar("Result")
Part: TypeAlias = tuple[bytes, int, int]
"""Value, and begin and end of the part that the server asked for."""


def new_session_key() -> str:
    """Draw the key under which one process uploads and refers; nobody else may guess it [BLOB-3]."""
    return secrets.token_hex(16)


class GrpcBlobTransfer:
    """A BlobTransfer; any thread may use it, and several at once. Nothing is connected before the first use."""

    def __init__(self, open_channel: Callable[[], ServerChannel], patience_s: float | None) -> None:
        """Make a transfer.

        Args:
            open_channel: Gives a channel whose calls carry the session's key.
            patience_s: How long a server that cannot be reached is tried; None as long as the transfer is wanted.
        """
        self._open_channel = open_channel
        self._patience_s = patience_s
        self._lock = Lock()
        self._channel: ServerChannel | None = None
        self._terms: blobs.BlobTerms | None = None
        self._closed = Event()

    def terms(self, is_wanted: Callable[[], bool]) -> blobs.BlobTerms:
        """See BlobTransfer."""
        if self._terms is None:
            self._terms = self._persist("upload", self._ask_terms, is_wanted)
        return self._terms

    def upload(self, values: Sequence[tuple[Reference, bytes]], is_wanted: Callable[[], bool]) -> None:
        """See BlobTransfer."""
        self._persist("upload", lambda channel: _upload(channel, values), is_wanted)

    def download(self, reference: Reference, is_wanted: Callable[[], bool]) -> bytes:
        """See BlobTransfer."""
        return self._persist("download", lambda channel: _download(channel, reference), is_wanted)

    def close(self) -> None:
        """End what is under way and release the connection."""
        self._closed.set()
        with self._lock:
            if self._channel is not None:
                self._channel.close()

    def _persist(self, operation: str, act: Callable[[ServerChannel], Result], is_wanted: Callable[[], bool]) -> Result:
        """Try until it is done or refused; a server that is away is waited for."""
        backoff = Backoff()
        ends_at: float | None = None
        while True:
            if self._closed.is_set() or not is_wanted():
                raise RemoteStatus("CANCELLED", "nobody waits for it any more").to_error(operation)
            try:
                return act(self._connected())
            except grpc.RpcError as error:
                status = status_of_call(error)
            except (StopIteration, DecodeError):
                status = RemoteStatus("UNAVAILABLE", "the server broke off the transfer")
            except (OSError, ValueError) as error:
                if self._closed.is_set():
                    # What gRPC says of a channel that is closed.
                    raise RemoteStatus("CANCELLED", "the transfer was closed").to_error(operation) from error
                status = RemoteStatus("UNAUTHENTICATED", f"the credential gives no token: {error}")
            now = time.monotonic()
            if self._patience_s is not None:
                ends_at = ends_at or now + self._patience_s
            if not _may_pass(status) or (ends_at is not None and now >= ends_at):
                raise status.to_error(operation)
            self._closed.wait(backoff.next_delay_ms(random.random()) / 1000)

    def _connected(self) -> ServerChannel:
        with self._lock:
            if self._channel is None:
                self._channel = self._open_channel()
            return self._channel

    def _ask_terms(self, channel: ServerChannel) -> blobs.BlobTerms:
        try:
            body = channel.unary_unary(SERVICE + "GetTerms")(b"", metadata=channel.metadata())
        except grpc.RpcError as error:
            if status_of_call(error).code == "UNIMPLEMENTED":
                return blobs.BlobTerms(UNLIMITED, UNLIMITED)
            raise
        terms = BlobTerms.FromString(body)
        return blobs.BlobTerms(terms.threshold_bytes, terms.max_bytes)


def _may_pass(status: RemoteStatus) -> bool:
    """Whether trying again may help: the server is away, or something on the way broke the call off [WIRE-9]."""
    return is_transient(status) or (not status.reason and status.code in BROKEN_OFF)


def _upload(channel: ServerChannel, values: Sequence[tuple[Reference, bytes]]) -> None:
    """Offer one value after the other and send what the server asks for."""
    outgoing: SimpleQueue[bytes | Part | None] = SimpleQueue()
    call = channel.stream_stream(SERVICE + "Upload")(_messages(outgoing), metadata=channel.metadata())
    try:
        for reference, data in values:
            outgoing.put(BlobUpload(digest=reference.digest, size=reference.size).SerializeToString())
            while not (reply := BlobUploadReply.FromString(next(call))).is_stored:
                outgoing.put((data, reply.offset, reply.offset + reply.length))
    finally:
        outgoing.put(None)
        call.cancel()


def _messages(outgoing: "SimpleQueue[bytes | Part | None]") -> Iterator[bytes]:
    """Give messages as the transport takes them, so that no more than one chunk is copied at a time."""
    while (item := outgoing.get()) is not None:
        if isinstance(item, bytes):
            yield item
            continue
        data, begin, end = item
        for position in range(begin, end, CHUNK_BYTES):
            yield BlobUpload(data=data[position : min(position + CHUNK_BYTES, end)]).SerializeToString()


def _download(channel: ServerChannel, reference: Reference) -> bytes:
    request = BlobDownloadRequest(digest=reference.digest).SerializeToString()
    stream = channel.open_stream(SERVICE + "Download", request)
    return b"".join([BlobChunk.FromString(message).data for message in stream])
