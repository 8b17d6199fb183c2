"""Large values go when nothing has referred to them for a day, and not before [BLOB-4, KEEP-3]."""

import asyncio
import hashlib
from contextlib import suppress

from dexd.blobs.memory_store import MemoryBlobStore
from dexd.core.blobs import BlobReference
from dexd.core.config import UPLOAD_REMEMBERED_MS
from dexd.engine.batch import blob_rows
from dexd.engine.orphans import SWEEP_MS, OrphanSweep
from dexd.log.event_log import BlobRow, StoredEvent, UploadRow
from tests.support.log_author import LogAuthor, removal, run_row
from tests.unit.engine.rig import Rig

DATA = b"0123456789" * 10_000
DIGEST = hashlib.sha256(DATA).digest()
OTHER = b"other" * 20_000
OTHER_DIGEST = hashlib.sha256(OTHER).digest()
REFERENCE = BlobReference(DIGEST, len(DATA))


class QuietDesk:
    """Of a server in which nothing is under way, for tests that write to the log themselves."""

    async def settled(self) -> None:
        pass

    def forget_uploads(self, until: int) -> None:
        pass


class Attic:
    """A store whose orphans are swept."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        self.rig = Rig()
        self.store = MemoryBlobStore()
        desk = QuietDesk() if is_quiet else self.rig.engine
        self.sweep = OrphanSweep(self.store, self.rig.log, desk, self.rig.clock, call_later=self.rig.alarms.call_later)
        self.sweep.start()

    def put(self, data: bytes) -> None:
        self.store.put(hashlib.sha256(data).digest(), data, self.rig.clock.now())

    async def advance(self, milliseconds: int) -> None:
        for _ in range(milliseconds // SWEEP_MS):
            # Nothing else is due meanwhile, and alarms look at the clock every second.
            self.rig.clock.at += SWEEP_MS - 1_000
            await self.rig.advance(1_000)
            await self.sweep.settled()

    @property
    def kept(self) -> list[bytes]:
        return sorted(blob.digest for blob in self.store.stored())


async def test_blob_4_an_orphan_is_removed_after_a_day() -> None:
    attic = Attic()
    attic.put(DATA)
    await attic.advance(UPLOAD_REMEMBERED_MS)
    assert attic.kept == [DIGEST]
    attic.put(OTHER)
    await attic.advance(2 * SWEEP_MS)
    assert attic.kept == [OTHER_DIGEST]
    assert attic.sweep.removed == 1
    await attic.sweep.stop()


async def test_blob_4_what_is_uploaded_again_stays_for_another_day() -> None:
    attic = Attic()
    attic.put(DATA)
    await attic.advance(UPLOAD_REMEMBERED_MS)
    attic.put(DATA)
    await attic.advance(UPLOAD_REMEMBERED_MS)
    assert attic.kept == [DIGEST]
    await attic.sweep.stop()


async def test_blob_4_what_any_flow_refers_to_stays_and_goes_with_the_last() -> None:
    """[BLOB-4, KEEP-3] Deleting one Flow never breaks another."""
    attic = Attic(is_quiet=True)
    attic.put(DATA)
    author = LogAuthor(attic.rig.log)
    for stream_id in (1, 2):
        author.start(run_row(stream_id))
        author.append_large(blobs=[BlobRow(stream_id, DIGEST, len(DATA))])
    await attic.advance(UPLOAD_REMEMBERED_MS + 2 * SWEEP_MS)
    author.append(removals=[removal(run_row(1))])
    await attic.advance(2 * SWEEP_MS)
    assert attic.kept == [DIGEST]
    author.append(removals=[removal(run_row(2))])
    await attic.advance(2 * SWEEP_MS)
    assert attic.kept == []
    await attic.sweep.stop()


async def test_blob_3_uploads_are_forgotten_after_a_day() -> None:
    attic = Attic()
    noted = attic.rig.engine.note_upload
    noted(UploadRow(b"s", DIGEST, attic.rig.clock.now()), lambda _: None)
    await attic.rig.decided()
    assert attic.rig.log.was_uploaded(b"s", DIGEST)
    await attic.advance(UPLOAD_REMEMBERED_MS + 2 * SWEEP_MS)
    noted(UploadRow(b"s", OTHER_DIGEST, attic.rig.clock.now()), lambda _: None)
    await attic.rig.decided()
    assert not attic.rig.log.was_uploaded(b"s", DIGEST)
    assert attic.rig.log.was_uploaded(b"s", OTHER_DIGEST)
    await attic.sweep.stop()


def test_blob_4_references_are_found_in_encoded_events() -> None:
    events = [
        StoredEvent(1, 7, 1, 0, "E", 1, b"nothing"),
        StoredEvent(2, 7, 2, 0, "E", 1, b"\x91\xc4\x30" + REFERENCE.to_value()),
    ]
    assert blob_rows(events) == [BlobRow(7, DIGEST, len(DATA))]


async def test_blob_4_what_a_commit_under_way_refers_to_stays_when_the_clock_is_set_forward() -> None:
    attic = Attic()
    attic.put(DATA)
    attic.rig.writer.is_automatic = False
    starting = asyncio.ensure_future(attic.rig.start(attributes=(("photo", REFERENCE.to_value()),)))
    await attic.rig.decided()
    attic.rig.clock.at += UPLOAD_REMEMBERED_MS + 1
    await attic.rig.advance(SWEEP_MS)
    with suppress(TimeoutError):
        await asyncio.wait_for(attic.sweep.settled(), 0.1)
    assert not starting.done()
    attic.rig.writer.is_automatic = True
    attic.rig.writer.commit()
    await starting
    await attic.sweep.settled()
    assert attic.kept == [DIGEST]
    await attic.sweep.stop()
