"""The figures of one run, as the client process and the operating system report them."""

import math
from collections.abc import Sequence

import msgspec


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a client saw inside its window."""

    flows: int
    steps: int
    window_s: float
    latencies_ms: list[float]
    """Start to result of each Flow that ended inside the window, ascending; less for workloads E and H."""
    growth_ratio: float | None = None
    """Time per Step near the end of a long Flow over time per Step near its beginning; workload J only."""
    join_p99_ms: float | None = None
    """Last leaf to the beginning of the join; workload D only."""


class CpuSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """Processor time, user and system, that each process took inside the window; 0.0 where there is no such process."""

    server: float = 0.0
    worker: float = 0.0
    client: float = 0.0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one system."""

    load: LoadResult
    cpu: CpuSeconds

    @property
    def flows_per_s(self) -> float:
        return self.load.flows / self.load.window_s


def quantile(ascending: Sequence[float], fraction: float) -> float:
    """The smallest of the values that at least ``fraction`` of them do not exceed; 0.0 when there are none."""
    if not ascending:
        return 0.0
    return ascending[max(0, math.ceil(len(ascending) * fraction) - 1)]


def median_run(runs: Sequence[Run]) -> Run:
    """The run of median throughput; of an even number the better one of the two in the middle."""
    ranked = sorted(runs, key=lambda run: run.flows_per_s)
    return ranked[len(ranked) // 2]
