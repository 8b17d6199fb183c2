"""Large values of a test environment: straight into the server's store and out of it."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from dexpb.v1.blobs import Reference
from dexsdk._blobs import BlobTerms
from dexsdk.errors import DexServiceError
from dexsdk.testing._server import InProcessServer


class InProcessTransfer:
    """A BlobTransfer without a connection; made on the environment's loop, used from any thread."""

    def __init__(self, server: InProcessServer, *, is_worker: bool) -> None:
        """Upload as the Worker or as the client."""
        self._server = server
        self._is_worker = is_worker
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()

    def terms(self, is_wanted: Callable[[], bool]) -> BlobTerms:  # noqa: ARG002 - nothing here takes time
        """See BlobTransfer."""
        return BlobTerms(self._server.blob_threshold_bytes, self._server.blob_bytes_max)

    def upload(
        self,
        blobs: Sequence[tuple[Reference, bytes]],
        is_wanted: Callable[[], bool],  # noqa: ARG002 - see terms
    ) -> None:
        """See BlobTransfer."""
        if self._thread_id == threading.get_ident():
            self._put(blobs)
            return
        done: Future[None] = Future()
        self._loop.call_soon_threadsafe(self._put_for, blobs, done)
        done.result()

    def download(self, reference: Reference, is_wanted: Callable[[], bool]) -> bytes:  # noqa: ARG002 - see terms
        """See BlobTransfer."""
        data = self._server.download(reference.digest)
        if data is None:
            detail = f"no large value {reference.name} is stored"
            raise DexServiceError(detail, code="NOT_FOUND", sub_status="BLOB_NOT_FOUND", operation="download")
        return data

    def close(self) -> None:
        """See BlobTransfer; nothing takes time here."""

    def _put(self, blobs: Sequence[tuple[Reference, bytes]]) -> None:
        for _, data in blobs:
            self._server.upload(data, is_worker=self._is_worker)

    def _put_for(self, blobs: Sequence[tuple[Reference, bytes]], done: "Future[None]") -> None:
        self._put(blobs)
        done.set_result(None)
