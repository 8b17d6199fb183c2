"""Tokens from files [SEC-2]."""

import os
from pathlib import Path

import pytest

from dexsdk import Credential, FileCredential
from dexsdk import credentials as credentials_module


class Clock:
    """Stands for the monotonic clock; moved by the test."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(credentials_module, "time", clock)
    return clock


def test_sec_2_a_rotated_token_is_read_within_a_second(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    credential: Credential = FileCredential(path)
    assert credential.token() == "first"
    path.write_text("second")
    clock.now += 0.9
    assert credential.token() == "first"
    clock.now += 0.1
    assert credential.token() == "second"


def test_sec_2_a_file_of_equal_size_is_told_by_its_time(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "token"
    path.write_text("aaaa")
    credential = FileCredential(str(path))
    assert credential.token() == "aaaa"
    path.write_text("bbbb")
    os.utime(path, ns=(1, 1))
    clock.now += 1
    assert credential.token() == "bbbb"


def test_sec_2_an_unreadable_file_fails_the_call(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "token"
    credential = FileCredential(path)
    with pytest.raises(FileNotFoundError):
        credential.token()
    path.write_text(" \n")
    with pytest.raises(ValueError, match="is empty"):
        credential.token()
    path.write_text("now")
    assert credential.token() == "now"
    path.unlink()
    clock.now += 1
    with pytest.raises(FileNotFoundError):
        credential.token()
