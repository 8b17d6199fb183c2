"""Large values of `dex` calls: uploaded before a request, fetched where an answer refers to them [BLOB-2]."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Any

import grpc
import msgspec

from dexpb.v1.blob_service_pb2 import BlobDownloadRequest, BlobTermsRequest, BlobUpload
from dexpb.v1.blob_service_pb2_grpc import BlobServiceStub
from dexpb.v1.blobs import CHUNK_BYTES, THRESHOLD_BYTES_MIN, is_reference, make_reference, read_reference
from dextools.cli.errors import CommandError, ExitCode

BLOB_KEY = "$blob"
"""Name under which documents show what stands for a large value."""


class LargeValues:
    """The large values of one connection."""

    def __init__(
        self,
        channel: grpc.Channel,
        metadata: tuple[tuple[str, str], ...],
        command_errors: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`metadata` has the session key that the connection's other calls carry too [BLOB-3]."""
        self._stub = BlobServiceStub(channel)
        self._metadata = metadata
        self._command_errors = command_errors

    def outgoing(self, data: bytes) -> bytes:
        """Upload a value that is too large to travel inline, and give what stands for it; others are given back.

        Raises:
            CommandError: the server does not take it.
        """
        if len(data) <= THRESHOLD_BYTES_MIN:
            return data
        with self._command_errors():
            if len(data) <= self._stub.GetTerms(BlobTermsRequest(), metadata=self._metadata).threshold_bytes:
                return data
            self._upload(data)
        return make_reference(data)

    def loaded(self, data: bytes) -> bytes:
        """Give the value that the bytes of an answer stand for.

        Raises:
            CommandError: it cannot be fetched, or other bytes came.
        """
        if not is_reference(data):
            return data
        digest = read_reference(data).digest
        with self._command_errors():
            chunks = self._stub.Download(BlobDownloadRequest(digest=digest), metadata=self._metadata)
            value = b"".join(chunk.data for chunk in chunks)
        if hashlib.sha256(value).digest() != digest:
            raise CommandError(f"the server sent other bytes than those of {digest.hex()}", ExitCode.FAILED)
        return value

    def resolved(self, document: bytes) -> bytes:
        """Give a JSON document with the large values themselves where it shows what stands for them.

        Raises:
            CommandError: one cannot be fetched.
        """
        if f'"{BLOB_KEY}"'.encode() not in document:
            return document
        return msgspec.json.encode(self._resolved(msgspec.json.decode(document)))

    def _upload(self, data: bytes) -> None:
        outgoing: SimpleQueue[BlobUpload | tuple[int, int] | None] = SimpleQueue()

        def messages() -> Iterator[BlobUpload]:
            while (item := outgoing.get()) is not None:
                if isinstance(item, BlobUpload):
                    yield item
                    continue
                begin, end = item
                for position in range(begin, end, CHUNK_BYTES):
                    yield BlobUpload(data=data[position : min(position + CHUNK_BYTES, end)])

        outgoing.put(BlobUpload(digest=hashlib.sha256(data).digest(), size=len(data)))
        try:
            for reply in self._stub.Upload(messages(), metadata=self._metadata):
                outgoing.put(None if reply.is_stored else (reply.offset, reply.offset + reply.length))
        finally:
            outgoing.put(None)

    def _resolved(self, part: Any) -> Any:
        match part:
            case {"$blob": {"sha256": str(name), "size": int(size)}} if len(part) == 1:
                return self._value(name, size) or part
            case dict():
                return {key: self._resolved(value) for key, value in part.items()}
            case list():
                return [self._resolved(value) for value in part]
            case _:
                return part

    def _value(self, name: str, size: int) -> msgspec.Raw | None:
        """The value, or None when a Flow's own data only looks like what stands for one."""
        try:
            reference = make_reference(b"")[:8] + bytes.fromhex(name) + size.to_bytes(8, "big")
            return msgspec.Raw(self.loaded(reference)) if is_reference(reference) else None
        except (ValueError, OverflowError):
            return None
        except CommandError as error:
            if error.exit_code is ExitCode.NOT_FOUND:
                return None
            raise
