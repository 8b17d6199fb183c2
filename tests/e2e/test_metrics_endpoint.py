"""The metrics endpoint of a real server [OBS-1, SURF-11, SURF-13]."""

import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from dexd.observe.metric_table import METRIC_TABLE
from tests.support.server_process import ServerProcess

CONFIGURATION = 2


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


def test_without_an_address_nothing_is_served(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--set", "metrics.listen=") as server:
        assert [event for event in server.log_events() if event["event"] == "metrics_listening"] == []
