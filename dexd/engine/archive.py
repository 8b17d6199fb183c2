"""The archive: a directory with a file for each execution that was removed [KEEP-2].

    <archive_dir>/2026-11-30/order-4711~1-<run id>.jsonl

The day is that of the close in UTC, the name begins with what of the Flow ID a file name can hold, and the run ID,
which no other file has, is that of the first run inside. Runs that were superseded while their execution was open have
files of their own, whose lines come before those of the execution's last file.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from dexd.blobs.store import BlobReader
from dexd.engine.exports import export_lines, runs_of_execution
from dexd.log.durable_file import write_durably
from dexd.log.event_log import EventLog, RunRow

FLOW_ID_SHOWN_MAX = 80
"""Characters of a Flow ID in a file name."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")


class DirectoryArchive:
    """See `dexd.engine.retention.Archive`."""

    def __init__(
        self, directory: Path, log: EventLog, blobs: BlobReader, *, release: str, now: Callable[[], int]
    ) -> None:
        """Begin; directories are made when they are needed.

        Args:
            directory: Where the files go.
            log: Where executions are read.
            blobs: Where their large values are read.
            release: What the files say of who wrote them.
            now: Server time.
        """
        self._directory = directory
        self._log = log
        self._blobs = blobs
        self._release = release
        self._now = now
        self._writing: asyncio.Future[Sequence[RunRow]] | None = None

    async def keep(self, flow_id: str, ordinal: int, until: int) -> Sequence[RunRow]:
        """Write the runs in a thread of its own; what is there of an earlier try is replaced."""
        self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, flow_id, ordinal, until, self._now()))
        # A thread cannot be stopped: whoever does not wait for it any more leaves it to `close`.
        return await asyncio.shield(self._writing)

    async def close(self) -> None:
        """Wait for the file that is being written; the log must not be closed while it is read."""
        if self._writing is not None:
            await asyncio.wait((self._writing,))
            self._writing.exception()

    def _write(self, flow_id: str, ordinal: int, until: int, now: int) -> Sequence[RunRow]:
        rows = [row for row in runs_of_execution(self._log, flow_id, ordinal) if 0 < row.closed_at <= until]
        if rows:
            lines = export_lines(self._log, rows, self._blobs, release=self._release, exported_at=now)
            write_durably(self._directory / file_name(rows), lines)
        return rows


def file_name(rows: Sequence[RunRow]) -> Path:
    """Where runs of an execution go, given oldest first."""
    first, last = rows[0], rows[-1]
    day = datetime.fromtimestamp(last.closed_at / 1_000, UTC).date().isoformat()
    shown, run_id = (_NOT_IN_NAMES.sub("_", name) for name in (first.flow_id[:FLOW_ID_SHOWN_MAX], first.run_id))
    return Path(day) / f"{shown}~{first.ordinal}-{run_id}.jsonl"
