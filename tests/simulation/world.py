"""One simulated world: a server, some workers and clients, and the faults between them, from one seed.

A run has two halves. While the clients work, faults strike; after that they stop, and everything that is runnable must
finish within a bound [INV-9]. The trace digest covers every event of the log, so two runs of one seed can be compared.
"""

import asyncio
import hashlib
from collections.abc import Coroutine
from random import Random
from typing import Any

from dexd.codec.event_codec import from_stored, is_of_run, stream_event_from_stored
from dexd.core.config import KernelConfig
from dexd.core.values import FlowStatus
from dexd.engine.parking_lot import Bounds
from dexd.engine.ports import AFTER_COMMIT_BEFORE_EFFECTS, AFTER_SEND, BEFORE_APPEND
from dexd.log.event_log import RunFilter
from tests.simulation.chains import draw_rollover
from tests.simulation.checkers import check_all, check_deliveries
from tests.simulation.client import SimulatedClient
from tests.simulation.faults import Faults
from tests.simulation.retention import KeptLog, draw_retention
from tests.simulation.searches import Searcher, draw_searches
from tests.simulation.server import SimulatedCrash, SimulatedServer
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.worker import Replacements, SimulatedWorker

WORK_SECONDS_MAX = 900
"""Virtual time that the clients may take while faults strike."""
METHOD_TIMEOUT_MS = 60_000
METHOD_TIMEOUT_MS_NEVER = 24 * 3_600_000
DELIVERY_SECONDS_MAX = 120
"""How long one delivery may last: a slow handler, stalled for a while, then missed, or moved between sessions."""
CALM_SECONDS_MAX = 900
"""Virtual time in which everything must finish once faults have stopped: backoffs of at most 100 s, a few in a row."""

GOING_SECONDS_MAX = 300
"""How long it may take until the last run is removed once its time has come, a few crashes included."""
GONE_A_SECOND = 5
"""Events that leave the simulated log in a second, at least; about ten do (`SimulatedRetention`)."""


def draw_memory(seed: int) -> Bounds:
    """In most worlds every run that waits is parked at once, or nearly so [ARCH-11]."""
    random = Random(f"memory of {seed}")
    runs_max = random.choice([0, 0, 1, 2, 4, 10_000])
    return Bounds(runs_max=runs_max, distance_ms=random.choice([0, 0, 50, 1_000]))


def draw_session_age(seed: int) -> int:
    """In half of the worlds sessions grow old while they work [DRAIN-3]."""
    return Random(f"age of sessions of {seed}").choice([0, KernelConfig().session_max_age_ms, 1_000, 10_000])


class World:
    """Everything of one seed."""

    def __init__(
        self,
        seed: int,
        faults: Faults | None = None,
        memory: Bounds | None = None,
        *,
        session_max_age_ms: int | None = None,
    ) -> None:
        """Make a world.

        Args:
            seed: Decides everything.
            faults: What strikes; None draws a mix.
            memory: How many open runs the server keeps in memory; None draws one.
            session_max_age_ms: When workers are asked to replace their sessions; None draws one.
        """
        self.seed = seed
        self._random = Random(seed)
        self.is_about_workers = seed % 2 == 1
        """Every other world is about churn of workers and their connections."""
        draw = Faults.draw_worker_faults if self.is_about_workers else Faults.draw
        self.faults = draw(self._random) if faults is None else faults
        # Nothing but its method timeout would free a call that was forgotten, so in those worlds it never comes.
        timeout_ms = METHOD_TIMEOUT_MS_NEVER if self.is_about_workers else METHOD_TIMEOUT_MS
        self.session_max_age_ms = draw_session_age(seed) if session_max_age_ms is None else session_max_age_ms
        config = KernelConfig(
            method_timeout_ms=timeout_ms,
            rollover_events=draw_rollover(seed),
            session_max_age_ms=self.session_max_age_ms,
        )
        self.memory = draw_memory(seed) if memory is None else memory
        self.retention_ms = draw_retention(seed, self.faults)
        self._server = SimulatedServer(
            self._random, self.faults, self._on_crash, config, self.memory, self.retention_ms
        )
        self._workers: list[SimulatedWorker] = []
        self.replacements = Replacements()
        self._leaving: list[SimulatedWorker] = []
        self._worker_count = 0
        self._clients = [
            SimulatedClient(number, self._random, self._server, self.faults)
            for number in range(self._random.randint(1, 3))
        ]
        self.searcher = Searcher(seed, self._server, self.describe())
        self._tasks: list[asyncio.Task[None]] = []
        self._problems: list[str] = []
        self._is_calm = False

    def run(self) -> str:
        """Live through both halves and check every invariant; gives the digest of the log.

        Raises:
            AssertionError: an invariant is broken; the message names the seed.
        """
        loop = VirtualLoop()
        loop.set_exception_handler(self._on_exception)
        try:
            loop.run_until_complete(self._live())
        finally:
            loop.close()
        return self._digest()

    @property
    def log(self) -> KeptLog:
        """What was committed."""
        return self._server.log

    async def _live(self) -> None:
        self._server.start()
        for _ in range(self._random.randint(1, 5 if self.is_about_workers else 3)):
            self._add_worker()
        for every, strike in (
            (self.faults.server_crash_every, self._crash_server),
            (self.faults.worker_crash_every, self._crash_worker),
            (self.faults.session_reset_every, self._reset_session),
            (self.faults.half_open_every, self._mute_worker),
            (self.faults.stall_every, self._stall_worker),
            (self.faults.clock_step_every, self._step_clock),
            (self.faults.deaf_every, self._deafen_worker),
            (self.faults.worker_leave_every, self._replace_worker),
            (self.faults.worker_vanish_every, self._vanish_worker),
            (self.faults.storm_every, self._begin_storm),
        ):
            if every:
                self._spawn(self._strike(every, strike))
        if draw_searches(self.seed):
            self._spawn(self.searcher.live())
        async with asyncio.timeout(WORK_SECONDS_MAX):
            await asyncio.gather(*(client.work(self._random.randint(3, 10)) for client in self._clients))
        self._calm_down()
        await self._finish()
        for task in self._tasks:
            task.cancel()
        await self.searcher.ask_everything()
        self._fail_if_any()
        if self.is_about_workers:
            check_deliveries(self._server.log, DELIVERY_SECONDS_MAX, self.describe())
        check_all(self._server, [client.acknowledged for client in self._clients], self.describe())
        if self.retention_ms:
            await self._see_all_runs_go()
            await self.searcher.ask_everything()
            check_all(self._server, [client.acknowledged for client in self._clients], self.describe())

    async def _see_all_runs_go(self) -> None:
        """[KEEP-1] When time has passed and nothing happens any more, only open schedules are left, kills or not."""
        log, crashes = self._server.log, self._random.randint(0, 3)
        for _ in range(GOING_SECONDS_MAX + len(log.everything) // GONE_A_SECOND):
            if self._server.engine is not None and self._server.clock is not None:
                if not self._has_closed_ones() and not log.streams_leaving():
                    break
                self._server.clock.step(2 * self.retention_ms)
            await asyncio.sleep(self._random.uniform(0.5, 1.5))
            if crashes:
                crashes -= 1
                self._server.crash()
        self._fail_if_any()
        assert not self._has_closed_ones(), f"{self.describe()}: runs or streams are kept for ever [KEEP-1]"
        is_open = {stored.row.stream_id for stored in log.open_streams()}
        left = {stored.stream_id for stored in log.read_all(1, len(log.everything))}
        assert left <= is_open, f"{self.describe()}: events of removed streams are kept for ever [KEEP-1]"
        gone = sum(stored.stream_id not in is_open for stored in log.everything)
        assert (log.last_seq, log.removed_events) == (len(log.everything), gone), f"{self.describe()} [KEEP-1]"

    def _has_closed_ones(self) -> bool:
        log = self._server.log
        is_due = log.closed_streams(2**62, (0, 0), 1)
        return bool(log.list_runs(RunFilter(), 1) or is_due)

    # ---- faults ----

    async def _strike(self, every: float, strike: Any) -> None:
        while not self._is_calm:
            await asyncio.sleep(self._random.expovariate(1 / every))
            if not self._is_calm:
                strike()

    def _crash_server(self) -> None:
        points = [None, BEFORE_APPEND, AFTER_COMMIT_BEFORE_EFFECTS, AFTER_SEND]
        point = self._random.choice(points)
        if point is None:
            self._server.crash()
        else:
            self._server.crash_at(point)

    def _on_crash(self) -> None:
        for worker in (*self._workers, *self._leaving):
            worker.reset()
        self._spawn(self._restart(self._random.choice([0.05, 0.5, 3.0, 8.0])))

    async def _restart(self, down_seconds: float) -> None:
        await asyncio.sleep(down_seconds)
        self._server.start()

    def _crash_worker(self) -> None:
        worker = self._random.choice(self._workers)
        self._workers.remove(worker)
        worker.kill()
        self._add_worker()

    def _reset_session(self) -> None:
        self._random.choice(self._workers).reset()

    def _mute_worker(self) -> None:
        self._random.choice(self._workers).go_mute()

    def _stall_worker(self) -> None:
        self._random.choice(self._workers).stall(self._random.uniform(1, 60))

    def _deafen_worker(self) -> None:
        self._random.choice(self._workers).go_deaf()

    def _replace_worker(self) -> None:
        worker = self._random.choice(self._workers)
        self._add_worker()
        self._workers.remove(worker)
        self._leaving.append(worker)
        worker.leave()

    def _vanish_worker(self) -> None:
        worker = self._random.choice(self._workers)
        self._workers.remove(worker)
        worker.vanish()
        self._add_worker()

    def _begin_storm(self) -> None:
        self._spawn(self._storm())

    async def _storm(self) -> None:
        for _ in range(self._random.randint(2, 6)):
            for worker in (*self._workers, *self._leaving):
                worker.reset()
            await asyncio.sleep(self._random.uniform(0.05, 1.0))

    def _step_clock(self) -> None:
        if self._server.clock is not None:
            self._server.clock.step(self._random.choice([-3_600_000, -1_000, 1_000, 60_000]))

    def _calm_down(self) -> None:
        self._is_calm = True
        calm = Faults()
        self._server.calm(calm)
        for worker in (*self._workers, *self._leaving):
            worker.calm(calm)
        for client in self._clients:
            client.calm(calm)

    # ---- life ----

    def _add_worker(self) -> None:
        self._worker_count += 1
        worker = SimulatedWorker(self._worker_count, self._random, self._server, self.faults, self.replacements)
        self._workers.append(worker)
        self._spawn(worker.live())

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        task.add_done_callback(self._on_task_done)
        self._tasks.append(task)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._problems.append(f"{task.get_coro()}: {task.exception()!r}")

    def _on_exception(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, SimulatedCrash):
            self._problems.append(f"{context.get('message')}: {error!r}")

    async def _finish(self) -> None:
        """[INV-9] Once faults stop, every Flow ends."""
        deadline = asyncio.get_running_loop().time() + CALM_SECONDS_MAX
        while self._open_flows() or self._server.log.open_streams() or self._server.engine is None:
            self._fail_if_any()
            if asyncio.get_running_loop().time() > deadline:
                streams = [stored.row.name for stored in self._server.log.open_streams()]
                raise AssertionError(f"{self.describe()}: still open: {self._open_flows()}, {streams}")
            await asyncio.sleep(1)
        await asyncio.sleep(30)

    def _open_flows(self) -> list[str]:
        return [listed.row.flow_id for listed in self._server.log.list_runs(RunFilter(status=FlowStatus.RUNNING), 100)]

    def _fail_if_any(self) -> None:
        if self._server.fatal is not None:
            self._problems.append(f"the engine stopped: {self._server.fatal!r}")
        if self._problems:
            raise AssertionError(f"{self.describe()}: {self._problems[:3]}") from self._server.fatal

    def describe(self) -> str:
        """How to repeat this run, for failures."""
        kept = f"runs kept {self.retention_ms} ms" if self.retention_ms else "runs kept for ever"
        runs = f"runs of {draw_rollover(self.seed)} events, {kept}, sessions of {self.session_max_age_ms} ms"
        return f"seed {self.seed} (make sim SEED={self.seed}), faults {self.faults}, {self.memory}, {runs}"

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for stored in self._server.log.everything:
            shown = from_stored(stored) if is_of_run(stored) else stream_event_from_stored(stored)
            digest.update(repr(shown).encode())
        return digest.hexdigest()
