"""What the simulated server does with large values: takes them in, accepts references, removes orphans [BLOB-1..4]."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from dexd.api.references import References
from dexd.blobs.memory_store import MemoryBlobStore
from dexd.engine.engine import Engine
from dexd.engine.orphans import old_among, remove_unused
from dexd.engine.ports import CallLater, Clock
from dexd.log.event_log import UploadRow
from dexd.log.memory_log import MemoryLog

ORPHAN_MS = 60_000
"""Instead of a day: longer than an upload and the request after it take, unless the clock is set forward."""

RETRY_SECONDS = 1.5
"""After which an upload that nobody confirmed is tried again."""


class DocumentDesk:
    """What one life of the server does with large values; the store outlives it."""

    def __init__(
        self,
        random: Random,
        store: MemoryBlobStore,
        log: MemoryLog,
        engine: Engine,
        clock: Clock,
        call_later: CallLater,
    ) -> None:
        self.references = References(store, log, clock)
        self._random = random
        self._store = store
        self._log = log
        self._engine = engine
        self._clock = clock
        self._call_later = call_later
        self._sweeping: asyncio.Task[None] | None = None
        """For ever under way, and kept, when the server is killed meanwhile."""
        self._call_later(random.uniform(1, 10), self._sweep)

    def take(self, blobs: Sequence[bytes], session: bytes, on_stored: Callable[[], None]) -> None:
        """Store values of a session, and say so when all of that is durable."""
        now = self._clock.now()
        missing = [hashlib.sha256(data).digest() for data in blobs]
        for digest, data in zip(missing, blobs, strict=True):
            self._store.put(digest, data, now)
        for digest in list(missing):

            def noted(refusal: object, digest: bytes = digest) -> None:
                if refusal is None:
                    missing.remove(digest)
                    if not missing:
                        on_stored()

            # A crash on the way unwinds the loop's turn, not whoever uploads.
            row = UploadRow(session, digest, now)
            asyncio.get_running_loop().call_soon(self._engine.note_upload, row, noted)

    def _sweep(self) -> None:
        self._sweeping = asyncio.get_running_loop().create_task(self._sweep_once())

    async def _sweep_once(self) -> None:
        until = self._clock.now() - ORPHAN_MS
        self._engine.forget_uploads(until)
        old = old_among(self._store.stored(), until)
        await self._engine.settled()
        remove_unused(self._store, self._log, old, until)
        self._call_later(self._random.uniform(1, 10), self._sweep)


class UploadTarget(Protocol):
    """The server, over its lives."""

    engine: Engine | None
    documents: DocumentDesk | None


async def upload(server: UploadTarget, random: Random, data: bytes, session: bytes) -> None:
    """Upload until the server has confirmed it, over as many of its lives as that takes."""
    while True:
        await asyncio.sleep(random.uniform(0.001, 0.02))
        desk, stored = server.documents, asyncio.Event()
        if desk is not None and server.engine is not None:
            desk.take([data], session, stored.set)
            try:
                async with asyncio.timeout(RETRY_SECONDS):
                    await stored.wait()
                    return
            except TimeoutError:
                continue
        await asyncio.sleep(random.uniform(0.2, RETRY_SECONDS))
