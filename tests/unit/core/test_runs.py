"""The runs in memory, and which of them a request started [START-3]."""

import msgspec

from dexd.core.ids import RequestId, RunId
from dexd.core.runs import Runs
from dexd.core.values import FlowStatus
from tests.support.builders import FLOW, started
from tests.support.given import given


def test_start_3_run_that_its_retry_replaced_leaves_the_retry_findable() -> None:
    """[START-8] A Flow retry has the request ID of the run it follows."""
    first = msgspec.structs.replace(given(started()).run(), status=FlowStatus.FAILED)
    second = msgspec.structs.replace(first, run_id=RunId("run-2"))
    latest = msgspec.structs.replace(first, run_id=RunId("run-3"), start_request_id=RequestId("other"))
    runs = Runs()
    for run in (first, second, latest):
        runs.begin(run)
    runs.drop(first)
    assert runs.started_by(FLOW, first.start_request_id) is second
    runs.drop(second)
    assert runs.started_by(FLOW, first.start_request_id) is None
