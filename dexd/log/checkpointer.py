"""When the WAL is copied into the database, so that it stays short without slowing a commit down [ARCH-5].

A passive checkpoint waits for nobody, and the next commit after a complete one overwrites the WAL from its start,
unless a reader still looks at the old content. Readers are quick, so it mostly succeeds at the first try; when it did
not for long, the writer waits for the readers instead, and so bounds the file. `writer` calls this between commits.
"""

import sqlite3
from pathlib import Path

from dexd.log import queries
from dexd.log.connection import WAL_BYTES_KEPT

WAL_BYTES_PATIENT = 40 << 20
"""Beyond this the writer waits for readers, up to the busy timeout; the rest to 64 MiB is for commits until then.

None of our readers takes that long. A foreign one may, a forgotten shell for instance: then availability goes before
size, and the next wait is due when the WAL has grown by half.
"""

STEP_BYTES = 1 << 20
"""The file is measured, and an unsuccessful checkpoint repeated, each time about this much was written."""

_COMMIT_BYTES = 16 << 10
"""What even a small commit adds to the WAL: four pages."""


class Checkpointer:
    """Checkpoints through the writer's connection, in the writer's thread."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._wal = path.with_name(f"{path.name}-wal")
        self._unmeasured_bytes = 0
        self._due_bytes = WAL_BYTES_KEPT
        self._patience_bytes = WAL_BYTES_PATIENT
        self._is_complete = False

    def count(self, written_bytes: int) -> None:
        """Take note of a commit and about how many bytes its rows have."""
        self._unmeasured_bytes += written_bytes + _COMMIT_BYTES
        self._is_complete = False

    def checkpoint_if_due(self) -> None:
        """Checkpoint when the WAL has passed its bound.

        The file is cut to the bound whenever it is started over, so its size shows exactly whether the bound was passed
        since. Asking SQLite for the length would mean to checkpoint.
        """
        if self._unmeasured_bytes < STEP_BYTES:
            return
        self._unmeasured_bytes = 0
        wal_bytes = self._wal.stat().st_size
        if wal_bytes <= WAL_BYTES_KEPT:
            self._due_bytes = WAL_BYTES_KEPT
            self._patience_bytes = WAL_BYTES_PATIENT
        elif wal_bytes > self._patience_bytes:
            self._patience_bytes = wal_bytes * 3 // 2
            self._run(queries.transactions.CHECKPOINT_PATIENTLY)
        elif wal_bytes > self._due_bytes:
            self._due_bytes = wal_bytes + STEP_BYTES
            self._run(queries.transactions.CHECKPOINT)

    def checkpoint(self) -> None:
        """Copy what there is, as far as readers allow it without waiting."""
        if not self._is_complete:
            self._run(queries.transactions.CHECKPOINT)

    def _run(self, statement: str) -> None:
        _, wal_frames, copied_frames = self._connection.execute(statement).fetchone()
        self._is_complete = wal_frames == copied_frames
