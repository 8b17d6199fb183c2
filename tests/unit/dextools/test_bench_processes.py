"""The processes of the benchmark: how they are described, what they announce and how they end."""

import sys
from pathlib import Path

import msgspec
import pytest

from dextools.bench.process import Child, ChildError
from dextools.bench.systems import DEXD, FLOOR, profiled
from dextools.bench.workloads import WORKLOADS, LoadPlan

PLAN = WORKLOADS["A"].plan(warm_up_s=1.0, window_s=5.0)
ANNOUNCE = "from dextools.bench.notice import announce; announce('other'); announce('ready', address='a:1'); "


def test_product_is_started_as_a_user_starts_it(tmp_path: Path) -> None:
    """[SURF-10]."""
    argv = DEXD.server_argv(tmp_path)
    assert argv[1:] == ("-m", "dexd", "serve", "--data-dir", f"{tmp_path}/data", "--listen", "127.0.0.1:0")


def test_client_is_told_address_and_plan() -> None:
    *_, address, plan = DEXD.client_argv("127.0.0.1:1", PLAN)
    assert address == "127.0.0.1:1"
    assert msgspec.json.decode(plan, type=LoadPlan) == PLAN


def test_part_of_the_floor_without_server_is_told_the_plan_only() -> None:
    append = FLOOR[0]
    assert msgspec.json.decode(append.client_argv("", PLAN)[-1], type=LoadPlan) == PLAN


async def test_announced_event_is_found_behind_others(tmp_path: Path) -> None:
    child = await Child.spawn("child", (sys.executable, "-c", ANNOUNCE), tmp_path / "log")
    assert msgspec.json.decode(await child.expect("ready")) == {"event": "ready", "address": "a:1"}
    await child.ended()


async def test_process_that_dies_is_reported_with_its_last_words(tmp_path: Path) -> None:
    child = await Child.spawn("server", (sys.executable, "-c", "raise SystemExit('out of luck')"), tmp_path / "log")
    with pytest.raises(ChildError, match="server: ended before 'ready'\nout of luck"):
        await child.expect("ready")
    with pytest.raises(ChildError, match="ended with 1"):
        await child.ended()


async def test_process_that_waits_is_ended_by_stop(tmp_path: Path) -> None:
    waits = ANNOUNCE + "import threading; threading.Event().wait()"
    child = await Child.spawn("server", (sys.executable, "-c", waits), tmp_path / "log")
    await child.expect("ready")
    assert child.cpu_seconds() >= 0.0
    await child.stop()
    with pytest.raises(ChildError):
        await child.ended()


async def test_profiled_program_runs_with_its_arguments_and_leaves_a_report(tmp_path: Path) -> None:
    out = tmp_path / "report.txt"
    plan = LoadPlan(steps=1, at_once=1, warm_up_s=0.0, window_s=0.1)
    child = await Child.spawn("encode", profiled(FLOOR[2].client_argv("", plan), out), tmp_path / "log")
    await child.expect("load_result")
    await child.ended()
    assert "encode.py:drive" in out.read_text()
