"""Building and encoding a Flow's rows, nothing else, in one process: ``PLAN`` on the command line."""

import sys
from time import perf_counter

import msgspec

from dextools.bench.floor.rows import commits_of_chain
from dextools.bench.measurement import LoadResult
from dextools.bench.notice import announce
from dextools.bench.pipeline.facts import Scribe
from dextools.bench.workloads import LoadPlan


def drive(plan: LoadPlan) -> LoadResult:
    """Encodes Flow after Flow for the length of the window."""
    scribe = Scribe("bench-host-12345-abcdefgh", "abcdefghijklmnop")
    latencies_ms: list[float] = []
    announce("window_open")
    began_at = now = perf_counter()
    while now < began_at + plan.window_s:
        commits_of_chain(scribe, len(latencies_ms), plan.steps)
        ended_at = perf_counter()
        latencies_ms.append((ended_at - now) * 1000)
        now = ended_at
    announce("window_closed")
    flows = len(latencies_ms)
    return LoadResult(flows=flows, steps=flows * plan.steps, window_s=now - began_at, latencies_ms=sorted(latencies_ms))


if __name__ == "__main__":
    announce("load_result", result=drive(msgspec.json.decode(sys.argv[1], type=LoadPlan)))
