"""`make demo` [SURF-1] and `make dev` [SURF-3]."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dexsdk import Client, ClientOptions
from dextools.local_processes import CHECKOUT
from examples.reminders import ReminderFlow, ReminderPlan
from examples.worker import example_registry

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


@pytest.mark.slow
def test_development_runs_a_server_and_a_worker_until_ctrl_c(tmp_path: Path) -> None:
    """[SURF-3] the address is printed, the example Flows are served, Ctrl+C ends all three processes."""
    arguments = ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-m", "dextools.dev", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
        start_new_session=True,
    ) as dev:
        assert dev.stdout is not None
        said = [dev.stdout.readline() for _ in range(3)]
        address = said[0].split()[3].rstrip(",")
        with Client(example_registry(), None, ClientOptions(server_address=address)) as client:
            client.start_flow(ReminderFlow, "r", ReminderPlan("ada", times=1, interval=0.01))
            assert client.wait_for_flow("r", timeout=30).single_output(str) == "all 1 sent"
        # A terminal sends the signal to every process of the group.
        os.killpg(dev.pid, signal.SIGINT)
        assert dev.wait(30) == 0
    with pytest.raises(ProcessLookupError):
        os.killpg(dev.pid, 0)


@pytest.mark.slow
def test_development_says_why_it_cannot_start(tmp_path: Path) -> None:
    """[SURF-3] in the server's own words, and without what an earlier one had logged."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        (tmp_path / "data.log").write_text("of an earlier one\n")
        arguments = ["--data-dir", str(tmp_path / "data"), "--listen", listen]
        dev = subprocess.run(
            [sys.executable, "-m", "dextools.dev", *arguments],
            capture_output=True,
            text=True,
            cwd=CHECKOUT,
            timeout=DEMO_SECONDS_MAX,
            check=False,
        )
    assert dev.returncode == 1
    assert f"cannot listen on {listen}" in dev.stderr
    assert "Traceback" not in dev.stderr
    assert "earlier" not in dev.stderr
