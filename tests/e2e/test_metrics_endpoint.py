"""The metrics endpoint of a real server [OBS-1, SURF-11, SURF-13]."""

import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dexd.observe.metric_table import METRIC_TABLE
from dexpb.v1.flow_service_pb2 import ClientRequest, DescribeFlowRequest
from tests.support.api_client import ApiClient, RefusedError
from tests.support.server_process import ServerProcess

CONFIGURATION = 2
NOT_FOUND = 5


def metrics_address(server: ServerProcess) -> str:
    (line,) = (event for event in server.log_events() if event["event"] == "metrics_listening")
    return str(line["address"])


def test_metrics_are_served_where_the_log_says(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--set", "metrics.listen=127.0.0.1:0") as server:
        with urllib.request.urlopen(f"http://{metrics_address(server)}/metrics", timeout=20) as reply:
            assert reply.headers["Content-Type"].startswith("text/plain")
            families = {family.name for family in text_string_to_metric_families(reply.read().decode())}
        assert families == {metric.name.removesuffix("_total") for metric in METRIC_TABLE}
        address = metrics_address(server)
        with ServerProcess(tmp_path / "second", "--set", f"metrics.listen={address}") as second:
            assert second.wait() == CONFIGURATION
            assert "for metrics" in second.log_path.read_text()
        server.terminate()
        assert server.wait() == 0


def test_unary_and_session_requests_are_measured_by_method(tmp_path: Path) -> None:
    """[OBS-1]"""
    with (
        ServerProcess(tmp_path / "data", "--set", "metrics.listen=127.0.0.1:0") as server,
        ApiClient(server.address) as api,
    ):
        body = DescribeFlowRequest(flow_id="unknown").SerializeToString()
        with pytest.raises(RefusedError):
            api.call_bytes("dexpb.v1.FlowService/DescribeFlow", body)
        session = api.client_session()
        session.send(*(ClientRequest(id=number, method="DescribeFlow", body=body) for number in range(1, 31)))
        assert {reply.code for reply in session.replies(30).values()} == {NOT_FOUND}
        session.cancel()
        with urllib.request.urlopen(f"http://{metrics_address(server)}/metrics", timeout=20) as reply:
            families = {family.name: family for family in text_string_to_metric_families(reply.read().decode())}
    counts = {
        sample.labels["method"]: sample.value
        for sample in families["dexd_request_seconds"].samples
        if sample.name.endswith("_count")
    }
    assert counts == {"DescribeFlow": 31}


def test_without_an_address_nothing_is_served(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--set", "metrics.listen=") as server:
        assert [event for event in server.log_events() if event["event"] == "metrics_listening"] == []
