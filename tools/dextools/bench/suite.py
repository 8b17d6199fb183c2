"""The order of a benchmark: systems take turns, so that a slow minute of the machine hits all of them."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from dextools.bench.flushes import count_flushes
from dextools.bench.measurement import Run
from dextools.bench.rows import Environment, Row, row_of, with_flushes, with_ratios
from dextools.bench.stage import perform
from dextools.bench.systems import DEXD, FLOOR, PIPELINE, System
from dextools.bench.workloads import Shape, Workload

WARM_UP_S = 1.5

FLOOR_WINDOW_S = 2.0
"""The parts of the floor are steadier than whole systems and run once."""

GROWTH_WINDOW_MAX_S = 120.0
"""Bound of a workload that ends with its last Flow."""


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured."""

    window_s: float
    repeats: int
    systems: frozenset[str]
    """Names of the systems that take part."""
    profiles: Path | None = None
    """Directory for profiler reports; they cost throughput, so such rows are not comparable."""


async def measure(workload: Workload, effort: Effort, environment: Environment) -> list[Row]:
    """The rows of one workload."""
    rows = []
    for system, runs in (await _take_turns(workload, effort)).items():
        row = row_of(workload, system, runs, environment)
        if system in (DEXD, PIPELINE) and workload.shape is Shape.CHAIN:
            row = with_flushes(row, await count_flushes(system, workload))
        rows.append(row)
    rows += [row_of(workload, part, [run], environment) for part, run in (await _floor(workload, effort)).items()]
    return with_ratios(rows)


async def _take_turns(workload: Workload, effort: Effort) -> dict[System, list[Run]]:
    able = (DEXD, PIPELINE) if workload.shape is Shape.CHAIN else (DEXD,)
    runs: dict[System, list[Run]] = {system: [] for system in able if system.name in effort.systems}
    window_s = effort.window_s if workload.flows_max == 0 else GROWTH_WINDOW_MAX_S
    plan = workload.plan(warm_up_s=WARM_UP_S, window_s=window_s)
    for _ in range(effort.repeats):
        for system, done in runs.items():
            done.append(await perform(system, plan, _reports(effort, workload, system)))
    return runs


def _reports(effort: Effort, workload: Workload, system: System) -> Path | None:
    if effort.profiles is None:
        return None
    reports = effort.profiles / f"{workload.letter}-{system.name}"
    reports.mkdir(parents=True, exist_ok=True)
    return reports


async def _floor(workload: Workload, effort: Effort) -> dict[System, Run]:
    parts: Sequence[System] = FLOOR if "floor" in effort.systems and workload.shape is Shape.CHAIN else ()
    plan = workload.plan(warm_up_s=WARM_UP_S, window_s=FLOOR_WINDOW_S)
    return {part: await perform(part, plan) for part in parts}
