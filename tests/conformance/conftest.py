"""The server that API clauses are proved against, one per test process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api_calls import fresh
from tests.support.api_client import ApiClient
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
