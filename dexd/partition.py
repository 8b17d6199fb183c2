"""What of a partition is on disk: the locked directory, the open log and the thread that appends to it [ARCH-15]."""

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from dexd.blobs.local_store import LocalBlobStore
from dexd.config import StoreSection
from dexd.engine.projections import refresh_projections
from dexd.log.directory import locked
from dexd.log.reading import SqlitePages
from dexd.log.sqlite_log import SqliteLog
from dexd.log.writer import LogWriter


@dataclass(frozen=True, slots=True)
class Partition:
    """An open log with its writer."""

    log: SqliteLog
    pages: SqlitePages
    """Reads of the log off the loop; opened and closed by its owner while the loop runs."""
    writer: LogWriter
    blobs: LocalBlobStore
    """Large values that the log refers to."""
    resources: ExitStack

    def close(self) -> None:
        """Commit what was submitted, checkpoint, release the lock; waits for the disk. Idempotent."""
        self.resources.close()


def open_partition(store: StoreSection, blob_directory: Path) -> Partition:
    """Lock the data directory and open its log and its large values, on the running event loop.

    Raises:
        DataDirectoryInUseError: another server has the directory [ARCH-6].
        LogError: the data directory cannot be used, or its log not be opened.
        OSError: the directory of large values cannot be made.
    """
    post = asyncio.get_running_loop().call_soon_threadsafe
    with ExitStack() as resources:
        path = resources.enter_context(locked(store.data_dir))
        log = SqliteLog.open(path, store.synchronous)
        resources.callback(log.close)
        refresh_projections(log)
        writer = LogWriter(log, post)
        resources.callback(writer.close)
        blobs = LocalBlobStore(blob_directory)
        return Partition(log, SqlitePages(path), writer, blobs, resources.pop_all())
