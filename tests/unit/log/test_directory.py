"""One server per data directory, whatever became of the one before; with real processes [ARCH-6]."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dexd.errors import ExitCode, exit_code_of
from dexd.log.directory import locked, log_path
from dexd.log.errors import DataDirectoryInUseError, DataDirectoryUnusableError

HOLD_LOCK = """
import sys
from pathlib import Path
from dexd.log.directory import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def owner(data_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until it is killed, or its stdin is closed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        try:
            yield process
        finally:
            process.kill()


def test_second_server_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    """[ARCH-6, SURF-12]"""
    with owner(tmp_path) as first:
        with pytest.raises(DataDirectoryInUseError, match=rf"pid {first.pid}\b") as refused, locked(tmp_path):
            pass
        assert str(tmp_path) in str(refused.value)
        assert exit_code_of(refused.value) == ExitCode.DATA_DIRECTORY_IN_USE


def test_killed_server_blocks_nobody(tmp_path: Path) -> None:
    """[ARCH-6]"""
    with owner(tmp_path) as first:
        first.kill()
        first.wait()
        assert (tmp_path / "lock").read_text() == f"{first.pid}\n"
        with locked(tmp_path):
            assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_refused_server_leaves_the_lock_to_its_owner(tmp_path: Path) -> None:
    with owner(tmp_path):
        for _ in range(2):
            with pytest.raises(DataDirectoryInUseError), locked(tmp_path):
                pass


def test_lock_is_free_after_use(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path):
            pass


def test_directory_is_created_for_its_owner_only(tmp_path: Path) -> None:
    data_dir = tmp_path / "new" / "data"
    with locked(data_dir) as path:
        assert path == log_path(data_dir) == data_dir / "p0" / "log.db"
        assert [stat.S_IMODE(folder.stat().st_mode) for folder in (data_dir, path.parent)] == [0o700, 0o700]
        assert stat.S_IMODE((data_dir / "lock").stat().st_mode) == 0o600


def test_directory_that_is_there_is_used_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    with locked(tmp_path):
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750


def test_file_in_the_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with (
        pytest.raises(DataDirectoryUnusableError, match=r"data directory \S+/data cannot be"),
        locked(tmp_path / "data"),
    ):
        pass
