"""BlobService: large values in and out, in chunks and beside everything else [BLOB-2].

Disks and digests are the business of a few threads of its own, so that the event loop goes on deciding meanwhile. Each
transfer holds one chunk in memory; the transport's flow control holds back whoever is faster than the disk.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from errno import EDQUOT, ENOSPC
from functools import partial
from typing import Final, TypeVar

import grpc
import msgspec
from google.protobuf.message import DecodeError

from dexd.api.open_calls import OpenCalls
from dexd.api.session_key import NOBODY, session_of
from dexd.api.status import abort
from dexd.blobs.store import BlobDamagedError, BlobMissingError, BlobStore
from dexd.core.rejections import Code, Rejection
from dexd.engine.ports import Clock, OnAnswer
from dexd.engine.system import draw_below
from dexd.log.event_log import UploadRow
from dexpb.v1.blob_service_pb2 import (
    BlobChunk,
    BlobDownloadRequest,
    BlobTerms,
    BlobUpload,
    BlobUploadReply,
)
from dexpb.v1.blobs import CHUNK_BYTES

SERVICE_NAME: Final = "dexpb.v1.BlobService"

THREADS: Final = 4
"""Transfers that wait for the disk or a digest at the same time; more would not make either faster."""

SAMPLE_BYTES: Final = 4 * 1024
"""What a caller shows of a value that is stored already. Whoever does not have the value cannot: where the sample
begins is drawn."""

DIGEST_BYTES: Final = 32
RETRY_AFTER_MS: Final = 1_000

Result = TypeVar("Result")
NoteUpload = Callable[[UploadRow, OnAnswer[None]], None]
"""Makes it durable that a session has a value."""


class BlobLimits(msgspec.Struct, frozen=True):
    """What callers are told."""

    threshold_bytes: int
    max_bytes: int


class BlobService:
    """Serves the transfers of all clients and workers."""

    def __init__(
        self, store: BlobStore, note_upload: NoteUpload, open_calls: OpenCalls, clock: Clock, limits: BlobLimits
    ) -> None:
        self._store = store
        self._note_upload = note_upload
        self._open_calls = open_calls
        self._clock = clock
        self._limits = limits
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="dexd-blobs")

    def handler(self) -> grpc.GenericRpcHandler:
        """What the gRPC server registers."""
        terms: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(self._terms)
        upload: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._upload)
        download: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_stream_rpc_method_handler(self._download)
        return grpc.method_handlers_generic_handler(
            SERVICE_NAME, {"GetTerms": terms, "Upload": upload, "Download": download}
        )

    def close(self) -> None:
        """Let go of the threads, once nobody calls any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _terms(self, _: bytes, __: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        limits = self._limits
        return BlobTerms(threshold_bytes=limits.threshold_bytes, max_bytes=limits.max_bytes).SerializeToString()

    async def _upload(
        self, messages: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[bytes, bytes]"
    ) -> AsyncIterator[bytes]:
        with self._open_calls:
            try:
                session = session_of(context)
                if session == NOBODY:
                    raise _RefusedError(_NO_SESSION_KEY)
                async for message in messages:
                    announced = self._announced(_parsed(message))
                    async for reply in self._take(announced, messages, session):
                        yield reply.SerializeToString()
            except _RefusedError as refused:
                await abort(context, refused.rejection)
            except OSError as error:
                await abort(context, _not_written(error))

    def _announced(self, header: BlobUpload) -> BlobUpload:
        if len(header.digest) != DIGEST_BYTES or header.data:
            raise _RefusedError(
                Rejection(Code.PROTOCOL_VIOLATION, "an upload begins with the digest and size of a value")
            )
        if not 1 <= header.size <= self._limits.max_bytes:
            limit = self._limits.max_bytes
            fields = {"what": "value", "size": str(header.size), "limit": str(limit)}
            raise _RefusedError(
                Rejection(Code.VALUE_TOO_LARGE, f"the value has {header.size} bytes, the limit is {limit}", fields)
            )
        return header

    async def _take(
        self, announced: BlobUpload, messages: AsyncIterator[bytes], session: bytes
    ) -> AsyncIterator[BlobUploadReply]:
        """Take one value, or the proof that the caller has what is stored already."""
        digest, size = announced.digest, announced.size
        known = await self._in_thread(self._store.size_of, digest)
        if known is None:
            yield BlobUploadReply(offset=0, length=size)
            await self._receive(digest, size, messages)
        else:
            if known != size:
                raise _RefusedError(_mismatch(digest))
            length = min(size, SAMPLE_BYTES)
            offset = draw_below(size - length + 1)
            yield BlobUploadReply(offset=offset, length=length)
            await self._compare(digest, offset, length, messages)
        await self._remember(UploadRow(session, digest, self._clock.now()))
        yield BlobUploadReply(is_stored=True)

    async def _receive(self, digest: bytes, size: int, messages: AsyncIterator[bytes]) -> None:
        incoming = await self._in_thread(self._store.receive, digest, size)
        try:
            missing = size
            while missing:
                data = await _next_data(messages, missing)
                await self._in_thread(incoming.write, data)
                missing -= len(data)
            await self._in_thread(incoming.keep, self._clock.now())
        except BlobDamagedError:
            raise _RefusedError(_mismatch(digest)) from None
        finally:
            await asyncio.shield(self._in_thread(incoming.drop))

    async def _compare(self, digest: bytes, offset: int, length: int, messages: AsyncIterator[bytes]) -> None:
        sample = b""
        while len(sample) < length:
            sample += await _next_data(messages, length - len(sample))
        try:
            expected = await self._in_thread(self._store.read, digest, offset, length)
        except BlobMissingError:
            expected = b""
        if sample != expected:
            raise _RefusedError(_mismatch(digest))
        if not await self._in_thread(self._store.want, digest, self._clock.now()):
            # An orphan, removed in this moment; the next try stores it anew.
            raise _RefusedError(_not_written(OSError()))

    async def _remember(self, row: UploadRow) -> None:
        noted: asyncio.Future[Rejection | None] = asyncio.get_running_loop().create_future()
        self._note_upload(row, partial(_settle, noted))
        rejection = await noted
        if rejection is not None:
            raise _RefusedError(rejection)

    async def _download(self, body: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> AsyncIterator[bytes]:
        digest = b""
        with self._open_calls:
            try:
                digest = BlobDownloadRequest.FromString(body).digest
                size = await self._in_thread(self._store.size_of, digest)
                if size is None:
                    raise BlobMissingError
                offset = 0
                while offset < size:
                    data = await self._in_thread(self._store.read, digest, offset, CHUNK_BYTES)
                    offset += len(data)
                    yield BlobChunk(data=data).SerializeToString()
            except DecodeError:
                await abort(context, Rejection(Code.MALFORMED, "the bytes are not a BlobDownloadRequest"))
            except BlobMissingError:
                name = digest.hex()
                await abort(
                    context, Rejection(Code.BLOB_NOT_FOUND, f"no large value {name} is stored", {"digest": name})
                )

    async def _in_thread(self, call: Callable[..., Result], *arguments: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)


class _RefusedError(Exception):
    """Ends a call with a refusal."""

    def __init__(self, rejection: Rejection) -> None:
        self.rejection = rejection


def _parsed(message: bytes) -> BlobUpload:
    try:
        return BlobUpload.FromString(message)
    except DecodeError:
        raise _RefusedError(Rejection(Code.MALFORMED, "the bytes are not a BlobUpload")) from None


async def _next_data(messages: AsyncIterator[bytes], most: int) -> bytes:
    """The next bytes of the value, of which no more than `most` may come."""
    async for message in messages:
        data = _parsed(message).data
        if not 1 <= len(data) <= most:
            problem = f"{len(data)} bytes of the value came where 1 to {most} were asked for"
            raise _RefusedError(Rejection(Code.PROTOCOL_VIOLATION, problem))
        return data
    raise _RefusedError(Rejection(Code.PROTOCOL_VIOLATION, "the upload ended before the value did"))


def _settle(noted: "asyncio.Future[Rejection | None]", answer: Rejection | None) -> None:
    # Already cancelled when the caller left meanwhile.
    if not noted.done():
        noted.set_result(answer)


def _mismatch(digest: bytes) -> Rejection:
    name = digest.hex()
    return Rejection(Code.BLOB_MISMATCH, f"the bytes are not those of the value {name}", {"digest": name})


def _not_written(error: OSError) -> Rejection:
    """Refuse an upload that the disk refuses; the server goes on, because nothing refers to it [ERR-2]."""
    code = Code.DISK_FULL if error.errno in (ENOSPC, EDQUOT) else Code.STORAGE_UNAVAILABLE
    return Rejection(code, "the large value cannot be stored now", {}, RETRY_AFTER_MS)


_NO_SESSION_KEY = Rejection(
    Code.INVALID_ARGUMENT, "an upload needs the metadata dex-session, of 16 to 64 characters", {"field": "dex-session"}
)
