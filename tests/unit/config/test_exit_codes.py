"""What ended the server, as an exit code [SURF-12]."""

import pytest

from dexd.errors import ConfigError, ExitCode, ListenError, exit_code_of
from dexd.log.errors import (
    DataDirectoryInUseError,
    DataDirectoryUnusableError,
    LogDamagedError,
    LogFailedError,
    LogFullError,
    LogUnavailableError,
    SequenceConflictError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError(("a: unknown key",)), 2),
        (ListenError("taken"), 2),
        (DataDirectoryInUseError("pid 1"), 3),
        (LogDamagedError("newer"), 4),
        (DataDirectoryUnusableError("read-only"), 5),
        (LogFailedError("fsync"), 5),
        (LogFullError("full"), 5),
        (LogUnavailableError("locked"), 5),
        (SequenceConflictError("fenced"), 5),
        (PermissionError("read-only"), 5),
        (AssertionError("broken invariant"), 1),
    ],
)
def test_every_kind_of_end_has_its_exit_code(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code


def test_exit_codes_are_those_of_the_specification() -> None:
    assert {code.value for code in ExitCode} == {0, 1, 2, 3, 4, 5}
