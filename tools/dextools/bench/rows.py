"""The rows that the benchmark prints and stores, one JSON line each."""

import os
import platform
import shutil
import sqlite3
import subprocess
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

import msgspec

from dextools.bench.flushes import FlushCount
from dextools.bench.measurement import Run, median_run, quantile
from dextools.bench.systems import System
from dextools.bench.workloads import Unit, Workload

PACKAGES = ("grpcio", "msgspec", "protobuf", "uvloop")
"""Packages whose versions decide the figures."""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Where and with what a row was measured."""

    commit: str
    """Short hash; ends in ``+`` when files differ from it. Empty outside a checkout."""
    cores: int
    versions: dict[str, str]


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The figures of one system under one workload: those of its run of median throughput."""

    workload: str
    system: str
    part: str = ""
    at_once: int
    flows_per_s: float | None = None
    steps_per_s: float | None = None
    calls_per_s: float | None = None
    p50_ms: float
    """Start to result of a Flow, as for p99. E counts what a Flow took beyond its Timer, H from the message on."""
    p99_ms: float
    growth_ratio: float | None = None
    join_p99_ms: float | None = None
    """Workload D: last leaf to the beginning of the join."""
    parked: int | None = None
    """Workload I: Flows that wait on disk when the server starts."""
    ready_s: float | None = None
    """Workload I: from the start of the server's process until it serves."""
    first_result_s: float | None = None
    """Workload I: from there until the first of them was sent a message, dispatched and completed."""
    rss_mib: float | None = None
    """Workload I: memory of the server's process then, and after the wake-up of many."""
    rss_after_mib: float | None = None
    share_of: dict[str, float] = {}
    """Throughput as a share of the bare pipeline and of each part of the floor, measured in the same run."""
    p50_over_pipeline: float | None = None
    cpu_us_per_step: dict[str, float] = {}
    """Processor time of each process, over all Steps of the window."""
    fsyncs_per_flow: float | None = None
    device_flushes_per_flow: float | None = None
    spread: list[float]
    """Throughput of all runs in ascending order."""
    environment: Environment

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes rows of two stored results comparable."""
        return self.workload, self.system, self.part

    @property
    def throughput(self) -> float:
        return self.flows_per_s or self.steps_per_s or self.calls_per_s or 0.0


def row_of(workload: Workload, system: System, runs: Sequence[Run], environment: Environment) -> Row:
    """The row of a system's runs; its ratios to other systems are added when all are known."""
    run = median_run(runs)
    load = run.load
    throughput = round(throughput_of(run, workload.unit), 1)
    return Row(
        workload=workload.letter,
        system=system.name,
        part=system.part,
        at_once=workload.at_once,
        flows_per_s=throughput if workload.unit is Unit.FLOWS else None,
        steps_per_s=throughput if workload.unit is Unit.STEPS else None,
        calls_per_s=throughput if workload.unit is Unit.CALLS else None,
        p50_ms=round(quantile(load.latencies_ms, 0.5), 3),
        p99_ms=round(quantile(load.latencies_ms, 0.99), 3),
        growth_ratio=load.growth_ratio and round(load.growth_ratio, 3),
        join_p99_ms=load.join_p99_ms and round(load.join_p99_ms, 3),
        cpu_us_per_step=_cpu_us_per_step(run),
        spread=sorted(round(throughput_of(run, workload.unit), 1) for run in runs),
        environment=environment,
    )


def throughput_of(run: Run, unit: Unit) -> float:
    """Flows, Steps or calls per second of the window; a call is counted as a Flow."""
    return (run.load.steps if unit is Unit.STEPS else run.load.flows) / run.load.window_s


def _cpu_us_per_step(run: Run) -> dict[str, float]:
    used = msgspec.structs.asdict(run.cpu)
    return {name: round(seconds / run.load.steps * 1e6, 1) for name, seconds in used.items() if seconds}


def with_ratios(rows: Iterable[Row]) -> list[Row]:
    """The rows of one workload, each with its share of the pipeline and the floor."""
    rows = list(rows)
    yardsticks = {row.part or row.system: row for row in rows if row.system != "dexd"}
    pipeline = yardsticks.get("pipeline")
    return [
        msgspec.structs.replace(
            row,
            share_of={name: round(row.throughput / yard.throughput, 3) for name, yard in yardsticks.items()},
            p50_over_pipeline=round(row.p50_ms / pipeline.p50_ms, 3) if pipeline else None,
        )
        if row.system != "floor"
        else row
        for row in rows
    ]


def with_flushes(row: Row, count: FlushCount) -> Row:
    return msgspec.structs.replace(
        row, fsyncs_per_flow=count.fsyncs_per_flow, device_flushes_per_flow=count.device_flushes_per_flow
    )


def this_environment() -> Environment:
    """Commit, cores and versions of the running process."""
    versions = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    versions |= {package: metadata.version(package) for package in PACKAGES}
    return Environment(commit=_commit(), cores=len(os.sched_getaffinity(0)), versions=versions)


def _commit() -> str:
    commit = _git("rev-parse", "--short", "HEAD")
    return commit + "+" if commit and _git("status", "--porcelain", "--untracked-files=no") else commit


def _git(*arguments: str) -> str:
    git = shutil.which("git")
    if git is None:
        return ""
    here = str(Path(__file__).parent)
    answer = subprocess.run((git, "-C", here, *arguments), capture_output=True, check=False, text=True)
    return answer.stdout.strip()


def encode_row(row: Row) -> str:
    return msgspec.json.encode(row).decode()


def read_rows(path: Path) -> list[Row]:
    """The stored rows of a file, in order."""
    return [msgspec.json.decode(line, type=Row) for line in path.read_bytes().splitlines() if line.strip()]
