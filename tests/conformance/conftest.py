"""What clauses are proved against: a server, one per test process, and every kind of log."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dexd.log.event_log import EventLog
from dexd.log.memory_log import MemoryLog
from dexd.log.sqlite_log import SqliteLog
from tests.support.api_calls import fresh
from tests.support.api_client import ApiClient
from tests.support.log_author import LogAuthor, Restart
from tests.support.server_process import ServerProcess


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data_dir: Path = tmp_path_factory.mktemp("api") / "data"
    with ServerProcess(data_dir, "--set", "matching.dispatch_wait=300ms") as process:
        yield process


@pytest.fixture(scope="session")
def api(server: ServerProcess) -> Iterator[ApiClient]:
    with ApiClient(server.address) as client:
        yield client


@pytest.fixture
def flow_id() -> str:
    return fresh("flow")


@pytest.fixture(params=["memory", "sqlite"])
def restart(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Restart]:
    """Close the log if it is open, and open it again with what was committed."""
    logs: list[EventLog] = []
    kept = MemoryLog()

    def open_again() -> EventLog:
        if logs:
            logs[-1].close()
        logs.append(kept if request.param == "memory" else SqliteLog.open(tmp_path / "log.db"))
        return logs[-1]

    yield open_again
    for log in logs:
        log.close()


@pytest.fixture
def log(restart: Restart) -> EventLog:
    return restart()


@pytest.fixture
def author(log: EventLog) -> LogAuthor:
    return LogAuthor(log)
