"""The request that another run continues a Flow [ROLL-2]."""

import pytest

from dexd.codec import flow_requests as requests
from dexd.core.commands import ContinueAsNew
from dexd.core.ids import RequestId
from dexd.core.rejections import Rejection
from dexpb.v1 import flow_service_pb2 as pb


def test_roll_2_request_is_read() -> None:
    """[GEN-8] It gets an ID of ours when its caller gave none; all of them have the same content."""
    named = pb.TriggerContinueAsNewRequest(flow_id="f", run_id="r", request_id="q")
    command = requests.to_continue_as_new(named, RequestId("fresh"))
    assert isinstance(command, ContinueAsNew)
    assert (command.flow_id, command.run_id, command.request_id) == ("f", "r", "q")
    other = requests.to_continue_as_new(pb.TriggerContinueAsNewRequest(flow_id="g"), RequestId("fresh"))
    assert isinstance(other, ContinueAsNew)
    assert (other.run_id, other.request_id, other.digest) == (None, "fresh", command.digest)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.TriggerContinueAsNewRequest(), "flow_id"),
        (pb.TriggerContinueAsNewRequest(flow_id="f", request_id="\n"), "request_id"),
    ],
)
def test_gen_2_illegal_requests_are_refused_by_name(request_: pb.TriggerContinueAsNewRequest, field: str) -> None:
    refused = requests.to_continue_as_new(request_, RequestId("fresh"))
    assert isinstance(refused, Rejection)
    assert refused.fields == {"field": field}
