"""Logs are opened for reading only [SURF-23]."""

import os
import stat
from pathlib import Path

import pytest

from dexd.engine.projections import rebuild_projections
from dexd.log.directory import locked, log_path
from dexd.log.event_log import Batch
from dexd.log.sqlite_log import SqliteLog
from dextools.cli.errors import CommandError, ExitCode
from dextools.log_verification import verify_log
from dextools.offline_log import open_exclusively, open_offline
from tests.unit.dextools.test_log_verification import WORK, written


def stored(data_dir: Path) -> SqliteLog:
    """A log in a file with what the kernel decided about some commands; still open, as a server has it."""
    path = log_path(data_dir)
    path.parent.mkdir(parents=True)
    source = written(WORK)
    log = SqliteLog.open(path)
    rows = [run.row for name in ("run-a", "run-b") if (run := source.run_by_id(name)) is not None]
    log.append(Batch(0, source.read_all(1, 1_000), rows))
    return log


def files_of(data_dir: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in data_dir.rglob("*") if path.is_file() and path.suffix != ".db-shm"}


def test_a_log_is_read_while_a_server_has_it_open(tmp_path: Path) -> None:
    """[SURF-23] what is committed is seen, and not a byte changes."""
    log = stored(tmp_path / "data")
    before = files_of(tmp_path)
    with open_offline(tmp_path / "data") as offline:
        report = verify_log(offline, lambda _: None)
    assert (report.faults, report.runs) == ([], 2)
    assert files_of(tmp_path) == before
    log.close()


def test_a_log_that_was_closed_cleanly_is_read_and_keeps_its_bytes(tmp_path: Path) -> None:
    """[SURF-23] SQLite may put an empty write-ahead log beside it; nothing that was there changes."""
    stored(tmp_path / "data").close()
    before = files_of(tmp_path)
    with open_offline(tmp_path / "data") as offline:
        assert offline.last_seq > 0
    assert files_of(tmp_path) in (before, before | {"log.db-wal": b""})


def test_nothing_can_be_appended(tmp_path: Path) -> None:
    """[SURF-23] never writes."""
    stored(tmp_path / "data").close()
    with pytest.raises(CommandError, match="reading only"), open_offline(tmp_path / "data") as offline:
        offline.append(Batch(offline.last_seq, ()))


def test_a_directory_without_a_log_is_not_found(tmp_path: Path) -> None:
    """[SURF-20] exit code 3, and which file was looked for."""
    with pytest.raises(CommandError) as refused, open_offline(tmp_path):
        pass
    assert refused.value.exit_code is ExitCode.NOT_FOUND
    assert str(log_path(tmp_path)) in refused.value.message


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    """[SURF-12] damaged, exit code 1 of `dex`."""
    path = log_path(tmp_path)
    path.parent.mkdir()
    path.write_bytes(b"not a database at all, but long enough to look like one" * 40)
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    with pytest.raises(CommandError) as refused, open_offline(tmp_path):
        pass
    assert (refused.value.exit_code, refused.value.code) == (ExitCode.FAILED, "LOG_DAMAGED")


def test_a_log_is_written_only_when_no_server_has_it(tmp_path: Path) -> None:
    """[ARCH-6, SURF-23] exit code 4, and who has it."""
    stored(tmp_path / "data").close()
    with locked(tmp_path / "data"):
        in_use = f"in use by the server with pid {os.getpid()}; stop it"
        with pytest.raises(CommandError, match=in_use) as refused, open_exclusively(tmp_path / "data"):
            pass
        assert (refused.value.exit_code, refused.value.code) == (ExitCode.CONFLICT, "DATA_DIRECTORY_IN_USE")
    with open_exclusively(tmp_path / "data") as log:
        rebuild_projections(log, lambda _: None)
        assert verify_log(log, lambda _: None).faults == []


def test_a_directory_without_a_log_is_not_made_one(tmp_path: Path) -> None:
    """[SURF-20] exit code 3; nothing is created."""
    with pytest.raises(CommandError) as refused, open_exclusively(tmp_path / "data"):
        pass
    assert refused.value.exit_code is ExitCode.NOT_FOUND
    assert not (tmp_path / "data").exists()
