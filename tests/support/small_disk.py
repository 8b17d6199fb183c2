"""A file system of a few megabytes for one server, really full when it is full.

The server gets a tmpfs in a mount namespace of its own, made without privileges where the system allows that. The test
reaches into it through /proc. It is gone with the server.
"""

import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.server_process import SERVE, ServerProcess

UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")
MOUNT_AND_RUN = 'mount -t tmpfs -o size="$0" tmpfs "$1" && shift && exec "$@"'

MISSING = "unprivileged mount namespaces and the program `unshare` (package util-linux) are needed"


def in_small_disk(mount_point: Path, size: str, command: Sequence[str] = SERVE) -> Sequence[str]:
    """The command that runs another one with a small disk at that directory."""
    return (*UNSHARE, "sh", "-c", MOUNT_AND_RUN, size, str(mount_point), *command)


def is_available(mount_point: Path) -> bool:
    """Whether this system lets a user mount a tmpfs."""
    try:
        tried = subprocess.run(in_small_disk(mount_point, "1m", ("true",)), capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return tried.returncode == 0


class SmallDisk:
    """The disk of a running server."""

    def __init__(self, server: ServerProcess, mount_point: Path) -> None:
        self._pid = server.pid
        # The mount point as seen from here.
        self._path = Path(f"/proc/{server.pid}/root{mount_point}")
        self._ballast = self._path / "ballast"

    def fill(self, *, spare_bytes: int) -> None:
        """Leave so many bytes free."""
        descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for size in (1 << 16, 1):
                self._write_until_full(descriptor, b"x" * size)
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - spare_bytes)
        finally:
            os.close(descriptor)

    def free(self) -> None:
        """Make room again."""
        self._ballast.unlink()

    def copy(self, name: str, target: Path) -> None:
        """Copy a directory as a kill would leave it: the server is frozen meanwhile, in the middle of anything."""
        os.kill(self._pid, signal.SIGSTOP)
        try:
            shutil.copytree(self._path / name, target)
        finally:
            os.kill(self._pid, signal.SIGCONT)

    @staticmethod
    def _write_until_full(descriptor: int, data: bytes) -> None:
        while True:
            try:
                os.write(descriptor, data)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    return
                raise
