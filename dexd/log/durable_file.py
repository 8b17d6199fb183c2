"""Files that are there whole or not at all, whatever happens while they are written."""

import os
from collections.abc import Iterable
from pathlib import Path


def write_durably(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file under another name, fsync it, and give it its own; one that is there already is replaced.

    What fails on the way leaves nothing behind but perhaps the file with the other name, which the next try replaces.

    Raises:
        OSError: it cannot be written.
    """
    _make_directory(path.parent)
    unfinished = path.with_name(f".{path.name}.unfinished")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    _fsync_directory(path.parent)


def _make_directory(directory: Path) -> None:
    """Create it, for its owner only, and every missing one above it, so that their entries are durable as well."""
    if not directory.is_dir():
        _make_directory(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        _fsync_directory(directory.parent)


def _fsync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
