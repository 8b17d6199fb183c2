"""The data directory: where the log of each partition lies, and that one server at a time uses it [ARCH-6].

    <data_dir>/lock         locked while a server runs; holds its pid
    <data_dir>/p0/log.db    the log of the one partition there is [ARCH-15]

The lock is the operating system's and ends with its process, however that ends; the file itself is left behind.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dexd.log.errors import DataDirectoryInUseError, DataDirectoryUnusableError

PARTITION = "p0"


def log_path(data_dir: Path) -> Path:
    """The file of the partition's log, whether it exists or not."""
    return data_dir / PARTITION / "log.db"


@contextmanager
def locked(data_dir: Path) -> Iterator[Path]:
    """Create the directory if need be, hold its lock, and give the path of the log.

    Raises:
        DataDirectoryInUseError: another process holds the lock.
        DataDirectoryUnusableError: the directory cannot be created or written.
    """
    try:
        _create(data_dir)
        _create(log_path(data_dir).parent)
        descriptor = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        problem = f"data directory {data_dir} cannot be made or written: {error.strerror}"
        raise DataDirectoryUnusableError(problem) from error
    try:
        _lock(descriptor, data_dir)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield log_path(data_dir)
    finally:
        os.close(descriptor)


def _create(directory: Path) -> None:
    """Create a directory for its owner only, and make its entry as durable as what will be committed inside."""
    if not directory.is_dir():
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _lock(descriptor: int, data_dir: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(descriptor, 20, 0).decode().strip()
        raise DataDirectoryInUseError(
            f"data directory {data_dir} is in use by the server with pid {owner or 'unknown, it is just starting'}"
        ) from error
