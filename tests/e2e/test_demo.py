"""`make demo` [SURF-1]."""

import subprocess
import sys
import time

import pytest

from dextools.local_processes import CHECKOUT

DEMO_SECONDS_MAX = 60
"""[SURF-1] under 60 s after installation."""


@pytest.mark.slow
def test_the_demo_survives_a_sigkill_of_the_server_and_shows_each_history() -> None:
    """[SURF-1] exit 0, a table for each Flow, one line that says what was recovered, under 60 s."""
    began = time.monotonic()
    demo = subprocess.run(
        [sys.executable, "-m", "dextools.demo"],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        timeout=DEMO_SECONDS_MAX,
        check=False,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert time.monotonic() - began < DEMO_SECONDS_MAX
    lines = demo.stdout.splitlines()
    assert len([line for line in lines if line.startswith("recovered 3 of 3 open Flows")]) == 1
    for title in ("order-1001: COMPLETED", "reminder-ada: COMPLETED", "transfer-7: FAILED, given back to alice"):
        assert any(title in line for line in lines), title
    assert "none accepted twice" in lines[-1]
