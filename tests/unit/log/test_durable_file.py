"""Files that are there whole or not at all [KEEP-2]."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dexd.log.durable_file import write_durably


def test_keep_2_file_is_written_with_its_directories(tmp_path: Path) -> None:
    """[KEEP-2] For the owner only; another one of that name is replaced."""
    path = tmp_path / "a" / "b" / "file"
    for content in ((b"one", b"two"), (b"three",)):
        write_durably(path, content)
        assert path.read_bytes() == b"".join(content)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_keep_2_file_that_cannot_be_finished_is_not_there(tmp_path: Path) -> None:
    """[KEEP-2] And one that was there stays as it was."""
    path = tmp_path / "file"

    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        write_durably(path, chunks())
    assert not path.exists()
    write_durably(path, [b"old"])
    with pytest.raises(OSError, match="no more"):
        write_durably(path, chunks())
    assert path.read_bytes() == b"old"
    write_durably(path, [b"new"])
    assert list(tmp_path.iterdir()) == [path]


def test_keep_2_directory_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="file"):
        write_durably(tmp_path / "file" / "below", [b"x"])
