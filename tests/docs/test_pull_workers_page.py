"""The page about pull workers says what the specification asks it to say."""

import re

import pytest

from tests.docs.fenced_blocks import ROOT

PAGE = (ROOT / "docs" / "pull-workers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(r"bidirectional HTTP/2 streams", id="WIRE-7-streams"),
        pytest.param(
            r"idle timeouts must lie above 20 s and above `matching.ping_interval`.*margin", id="WIRE-7-timeouts"
        ),
        pytest.param(r"heavy backlog of Steps set it to at least 2", id="CAP-5"),
        pytest.param(r"max_concurrent_tasks \+ \(F \+ 1\) \* idle_streams_per_queue", id="CAP-4"),
        pytest.param(r"nothing about spare capacity", id="READY-6"),
        pytest.param(r"Nothing wakes workers up.*matching.dispatch_wait.*attempts and backoff", id="DRAIN-5"),
    ],
)
def test_duties_of_documentation_are_met(said: str) -> None:
    """[WIRE-7, CAP-4, CAP-5, READY-6, DRAIN-5]"""
    assert re.search(said, PAGE, re.DOTALL)
