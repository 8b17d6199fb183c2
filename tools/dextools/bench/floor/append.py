"""Group-committed appends alone, in one process: ``PLAN`` on the command line."""

import asyncio
import gc
import sys
import tempfile
from pathlib import Path

import msgspec
import uvloop

from dextools.bench.floor.rows import commits_of_chain
from dextools.bench.load import ClosedLoop
from dextools.bench.notice import announce
from dextools.bench.pipeline.facts import Row, Scribe
from dextools.bench.pipeline.journal import Journal, Unit
from dextools.bench.pipeline.server import GC_THRESHOLDS, SWITCH_INTERVAL_S
from dextools.bench.workloads import LoadPlan


class Appender:
    """Appends the rows of whole Flows, each commit awaited before the next."""

    def __init__(self, journal: Journal, steps: int) -> None:
        self._journal = journal
        self._steps = steps
        self._scribe = Scribe("bench-host-12345-abcdefgh", "abcdefghijklmnop")

    async def run_flow(self, number: int) -> None:
        for rows in commits_of_chain(self._scribe, number, self._steps):
            await self._append(rows)

    async def _append(self, rows: list[Row]) -> None:
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._journal.submit(Unit(rows, lambda: committed.set_result(None)))
        await committed


async def drive(plan: LoadPlan) -> None:
    """Runs the load and announces what it measured."""
    with tempfile.TemporaryDirectory(prefix="dexd-bench-") as directory:
        journal = Journal(Path(directory) / "journal.sqlite")
        journal.open()
        result = await ClosedLoop(Appender(journal, plan.steps).run_flow, plan).run()
        journal.close()
    announce("load_result", result=result)


if __name__ == "__main__":
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(*GC_THRESHOLDS)
    uvloop.run(drive(msgspec.json.decode(sys.argv[1], type=LoadPlan)))
