"""The server killed at each named point of a commit: what was acknowledged is there, the rest is whole or absent."""

import signal
import sys
from pathlib import Path

import pytest

from dexd.engine.ports import AFTER_COMMIT_BEFORE_EFFECTS, AFTER_SEND, BEFORE_APPEND
from tests.support.api_calls import describe, fresh, history, start
from tests.support.api_client import ApiClient, RefusedError
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.slow

STARTS_BEFORE_THE_END = 5


def failpoint_command(point: str) -> tuple[str, ...]:
    # The first pass may belong to BeginServing, so one start more than is needed can be acknowledged before the end.
    passage = str(STARTS_BEFORE_THE_END)
    return (sys.executable, "-m", "tests.support.failpoint_server", "--at", point, "--passage", passage)


@pytest.mark.parametrize("point", [BEFORE_APPEND, AFTER_COMMIT_BEFORE_EFFECTS, AFTER_SEND])
def test_acknowledged_starts_survive_a_kill_at_any_point_of_a_commit(tmp_path: Path, point: str) -> None:
    """[INV-1, INV-2, ARCH-3]: a start that was not acknowledged is either whole or not there, and can be repeated."""
    data_dir = tmp_path / "data"
    acknowledged: dict[str, str] = {}
    attempted: list[str] = []
    refusal: RefusedError | None = None
    with ServerProcess(data_dir, command=failpoint_command(point)) as server, ApiClient(server.address) as api:
        while refusal is None:
            attempted.append(fresh(point))
            try:
                acknowledged[attempted[-1]] = start(api, attempted[-1])
            except RefusedError as error:
                refusal = error
        assert refusal.code == "UNAVAILABLE"
        assert server.wait() == -signal.SIGKILL
    assert len(acknowledged) >= STARTS_BEFORE_THE_END - 2

    with ServerProcess(data_dir) as server, ApiClient(server.address) as api:
        recovered = {flow_id: describe(api, flow_id).run_id for flow_id in acknowledged}
        assert recovered == acknowledged
        unanswered = attempted[-1]
        run_id = start(api, unanswered)
        kinds = [event.kind for event in history(api, unanswered)]
        assert kinds == ["FlowStarted", "StepScheduled"]
        assert describe(api, unanswered).run_id == run_id
        was_committed = server.ready["recovered_runs"] == len(attempted)
        if point == AFTER_SEND:
            # What is sent last need not be the last start: a batch that only answers passes that point as well.
            assert server.ready["recovered_runs"] in (len(attempted) - 1, len(attempted))
        else:
            assert was_committed is (point != BEFORE_APPEND)
