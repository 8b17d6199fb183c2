"""A closed loop of Flows in a client process: when one ends, the next one starts."""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter

from dextools.bench.measurement import LoadResult
from dextools.bench.notice import announce
from dextools.bench.workloads import LoadPlan

RunFlow = Callable[[int], Awaitable[float | None]]
"""Runs the n-th Flow from its start to its result; gives the milliseconds that count, if not all of them do."""


class ClosedLoop:
    """Keeps ``plan.at_once`` Flows going until the window is over, then lets the open ones end.

    The parent is told when the window opens and closes, so that it can read processor time and device counters at those
    moments. A Flow counts when it *ends* inside the window.
    """

    def __init__(self, run_flow: RunFlow, plan: LoadPlan) -> None:
        self._run_flow = run_flow
        self._plan = plan
        self._started = 0
        self._latencies_ms: list[float] = []
        self._opened_at = 0.0
        self._closed_at = 0.0
        self._enough = asyncio.Event()

    async def run(self) -> LoadResult:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._plan.at_once):
                group.create_task(self._repeat())
            await asyncio.sleep(self._plan.warm_up_s)
            self._open()
            await self._window()
            self._close()
        return self._result()

    def _open(self) -> None:
        announce("window_open")
        self._opened_at = perf_counter()

    async def _window(self) -> None:
        try:
            await asyncio.wait_for(self._enough.wait(), self._plan.window_s)
        except TimeoutError:
            return

    def _close(self) -> None:
        self._closed_at = perf_counter()
        announce("window_closed")

    async def _repeat(self) -> None:
        while not self._closed_at:
            number = self._started
            self._started += 1
            began_at = perf_counter()
            counted_ms = await self._run_flow(number)
            self._on_end((perf_counter() - began_at) * 1000 if counted_ms is None else counted_ms)

    def _on_end(self, latency_ms: float) -> None:
        if not self._opened_at or self._closed_at:
            return
        self._latencies_ms.append(latency_ms)
        if len(self._latencies_ms) == self._plan.flows_max:
            self._enough.set()

    def _result(self) -> LoadResult:
        flows = len(self._latencies_ms)
        return LoadResult(
            flows=flows,
            steps=flows * self._plan.steps,
            window_s=self._closed_at - self._opened_at,
            latencies_ms=sorted(self._latencies_ms),
        )
