"""Removes large values that nothing refers to: of crashed uploads, of answers, of runs that are gone [BLOB-4, KEEP-3].

A value that was wanted within the last day stays, because its uploader may be about to refer to it. What is older and
in no event of any retained run can never be referred to again: whoever uploads it once more makes it young before.
"""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, Protocol

import structlog

from dexd.blobs.store import BlobStore, StoredBlob
from dexd.core.config import UPLOAD_REMEMBERED_MS
from dexd.engine.ports import CallLater, Clock
from dexd.engine.timekeeper import Timekeeper
from dexd.log.errors import LogError

SWEEP_MS: Final = 3_600_000
"""How often orphans are looked for."""

BLOBS_AT_ONCE: Final = 256
"""Values that are looked up together."""


class UsesOfBlobs(Protocol):
    """Knows what events refer to; a part of EventLog."""

    def blobs_in_use(self, digests: Sequence[bytes]) -> frozenset[bytes]:
        """See EventLog."""
        ...


class UploadDesk(Protocol):
    """Forgets who has uploaded what, and knows what is still on its way into the log; the engine."""

    async def settled(self) -> None:
        """See `Engine.settled`."""
        ...

    def forget_uploads(self, until: int) -> None:
        """See `Engine.forget_uploads`."""
        ...


class OrphanSweep:
    """Sweeps now and then while the server serves."""

    def __init__(
        self,
        store: BlobStore,
        uses: UsesOfBlobs,
        desk: UploadDesk,
        clock: Clock,
        *,
        call_later: CallLater | None = None,
    ) -> None:
        """Create on the running loop; `call_later` is the loop's own unless a test turns the clock."""
        self._store = store
        self._uses = uses
        self._desk = desk
        self._clock = clock
        self._timekeeper = Timekeeper(clock, call_later or asyncio.get_running_loop().call_later, self._on_due)
        self._sweep: asyncio.Task[None] | None = None
        self.removed = 0
        """Values removed so far."""

    def start(self) -> None:
        """Sweep from now on; the first one soon, because a crash may have left much."""
        self._timekeeper.arm(self._clock.now() + SWEEP_MS // 60)

    async def stop(self) -> None:
        """End; a sweep that is under way ends with the look-up it is at. Idempotent."""
        self._timekeeper.stop()
        if self._sweep is not None:
            self._sweep.cancel()
            await asyncio.wait((self._sweep,))

    async def settled(self) -> None:
        """Return when no sweep is under way."""
        if self._sweep is not None:
            await asyncio.wait((self._sweep,))

    def _on_due(self) -> None:
        self._sweep = asyncio.get_running_loop().create_task(self._sweep_once(), name="orphan_sweep")

    async def _sweep_once(self) -> None:
        until = self._clock.now() - UPLOAD_REMEMBERED_MS
        try:
            if until > 0:
                self._desk.forget_uploads(until)
                await self._remove_orphans(until)
        except (LogError, OSError) as error:
            # Nothing is lost: what is an orphan now is one in the next sweep.
            structlog.get_logger().error("orphan_sweep_failed", error=repr(error))
        self._timekeeper.arm(self._clock.now() + SWEEP_MS)

    async def _remove_orphans(self, until: int) -> None:
        blobs = self._store.stored()
        while group := await asyncio.to_thread(list, islice(blobs, BLOBS_AT_ONCE)):
            old = old_among(group, until)
            if not old:
                continue
            # Where the clock was set forward, what was referred to a moment ago looks as old as the rest.
            await self._desk.settled()
            removed = await asyncio.to_thread(remove_unused, self._store, self._uses, old, until)
            self.removed += removed
            if removed:
                structlog.get_logger().info("orphans_removed", blobs=removed)


def old_among(blobs: Iterable[StoredBlob], until: int) -> Sequence[bytes]:
    """Digests of the values that were last wanted before an instant."""
    return [blob.digest for blob in blobs if blob.wanted_at < until]


def remove_unused(store: BlobStore, uses: UsesOfBlobs, old: Sequence[bytes], until: int) -> int:
    """Remove those of the old values that nothing refers to; gives how many.

    The time was looked at before the references, and is again with the removal. So a value that is uploaded or referred
    to once more meanwhile stays, and that need not be known here. What was referred to before it was found to be old
    must be in the log by now.
    """
    in_use = uses.blobs_in_use(old)
    return sum(store.remove(digest, until) for digest in old if digest not in in_use)
