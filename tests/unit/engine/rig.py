"""An engine on the memory log whose commits and clock are in the test's hands, and a worker of effects and commands."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from dexd.core import commands as c
from dexd.core.config import KernelConfig
from dexd.core.effects import AssignCall, ConfirmStream, EndSession, SessionEffect, WelcomeSession
from dexd.core.ids import FlowId, QueueName, RequestId, RunId, SessionId, StreamNumber, WorkerId
from dexd.core.values import Decision, DecisionKind, FlowCapability, Response, StepPlan, StopType, Wait
from dexd.engine.engine import Engine, EngineOptions
from dexd.engine.parking_lot import Bounds
from dexd.log.errors import LogError
from dexd.log.event_log import Batch, EventLog
from dexd.log.memory_log import MemoryLog

BEGUN_AT = 1_000_000


class ManualClock:
    """Stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.at = BEGUN_AT

    def now(self) -> int:
        return self.at


class ManualWriter:
    """Commits when told to, or at once; refuses when told to."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.refusal: LogError | None = None
        self.is_automatic = True
        self.submitted: deque[tuple[Batch, Callable[[LogError | None], None]]] = deque()

    def submit(self, batch: Batch, on_done: Callable[[LogError | None], None]) -> None:
        self.submitted.append((batch, on_done))
        if self.is_automatic:
            asyncio.get_running_loop().call_soon(self.commit)

    def commit(self) -> Batch:
        """Write the oldest batch, or refuse it."""
        batch, on_done = self.submitted.popleft()
        if self.refusal is None:
            self.log.append(batch)
        on_done(self.refusal)
        return batch


class Alarms:
    """Timers of the engine; they ring when the test moves the clock."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.waiting: list[Alarm] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> "Alarm":
        alarm = Alarm(self, self.clock.at + round(seconds * 1_000), callback)
        self.waiting.append(alarm)
        return alarm

    def advance(self, milliseconds: int) -> None:
        """Let time pass, alarm by alarm."""
        end = self.clock.at + milliseconds
        while self.ring_next(end):
            pass
        self.clock.at = end

    def ring_next(self, end: int) -> bool:
        """Ring the first alarm that is due until then; False if there is none."""
        due = [alarm for alarm in self.waiting if alarm.at <= end]
        if not due:
            return False
        first = min(due, key=lambda alarm: alarm.at)
        self.waiting.remove(first)
        self.clock.at = max(self.clock.at, first.at)
        first.callback()
        return True


class Alarm:
    def __init__(self, alarms: Alarms, at: int, callback: Callable[[], None]) -> None:
        self.alarms = alarms
        self.at = at
        self.callback = callback

    def cancel(self) -> None:
        if self in self.alarms.waiting:
            self.alarms.waiting.remove(self)


class Answers:
    """Callable as an answer; remembers what came."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def __call__(self, answer: Any) -> None:
        self.all.append(answer)

    @property
    def only(self) -> Any:
        [answer] = self.all
        return answer


class Rig:
    """An engine and its surroundings."""

    def __init__(
        self, log: EventLog | None = None, *, is_serving: bool = True, memory: Bounds | None = None, **options: int
    ) -> None:
        self.log = log or MemoryLog()
        self.clock = ManualClock()
        self.alarms = Alarms(self.clock)
        self.writer = ManualWriter(self.log)
        self.fatal: list[BaseException] = []
        self.points: list[str] = []
        self.engine = Engine(
            self.log,
            self.writer,
            self.clock,
            KernelConfig(),
            on_fatal=self.fatal.append,
            options=EngineOptions(**options, memory=memory or Bounds()),
            failpoint=self.points.append,
            call_later=self.alarms.call_later,
        )
        if is_serving:
            self.engine.start()

    async def decided(self) -> None:
        """Let the loop run until nothing waits in the mailbox and no callback is due."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def advance(self, milliseconds: int) -> None:
        """Let time pass, and everything happen that is due on the way."""
        end = self.clock.at + milliseconds
        while self.alarms.ring_next(end):
            await self.decided()
        self.clock.at = end

    async def start(self, flow_id: str = "f", **changes: Any) -> Any:
        """Start a Flow and give the committed answer."""
        return await self.answer(start_command(flow_id, **changes))

    async def answer(self, command: Any) -> Any:
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.engine.request(command, answered.set_result)
        return await answered

    async def read(self, read: Callable[..., Any], query: Any) -> Any:
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        read(query, answered.set_result)
        return await answered

    async def worker(self, name: str = "w", streams: int = 2) -> "RigWorker":
        worker = RigWorker(self.engine, name)
        worker.say(worker.hello())
        for number in range(1, streams + 1):
            worker.say(c.OpenStream(worker.session, StreamNumber(number), QueueName("Order")))
        await self.decided()
        return worker


class RigWorker:
    """A SessionSink that does what the test says."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name
        self.deliveries: list[list[SessionEffect]] = []
        self.session: SessionId = engine.open_session(self)

    def deliver(self, effects: list[SessionEffect]) -> None:
        self.deliveries.append(effects)

    @property
    def effects(self) -> list[SessionEffect]:
        return [effect for delivery in self.deliveries for effect in delivery]

    @property
    def calls(self) -> list[AssignCall]:
        return [effect for effect in self.effects if isinstance(effect, AssignCall)]

    @property
    def end(self) -> EndSession | None:
        ends = [effect for effect in self.effects if isinstance(effect, EndSession)]
        return ends[0] if ends else None

    @property
    def is_registered(self) -> bool:
        kinds = {type(effect) for effect in self.effects}
        return {WelcomeSession, ConfirmStream} <= kinds

    def hello(self) -> c.OpenSession:
        steps = frozenset({"Begin", "Next"})
        flows = (FlowCapability("Order", steps, frozenset({"get"})),)
        return c.OpenSession(self.session, WorkerId(self.name), "once", 8, 0, flows)

    def say(self, *commands: c.WorkerCommand) -> None:
        self.engine.post(commands)

    def complete(self, call: AssignCall, **response: Any) -> None:
        self.say(c.CompleteCall(self.session, call.stream, call.call.token, Response(**response)))

    def decide(self, call: AssignCall, kind: DecisionKind, output: bytes = b"", *next_steps: StepPlan) -> None:
        self.complete(call, decision=Decision(kind, next_steps, output))

    def wait(self, call: AssignCall, wait: Wait) -> None:
        self.complete(call, wait=wait)


def start_command(flow_id: str = "f", **changes: Any) -> c.StartFlow:
    fields: dict[str, Any] = {
        "flow_id": FlowId(flow_id),
        "flow_type": "Order",
        "run_id": RunId(f"run-{flow_id}"),
        "seed": 7,
        "request_id": RequestId(f"start-{flow_id}"),
        "digest": b"digest",
        "start_step": StepPlan("Begin", b"1", False),
        **changes,
    }
    return c.StartFlow(**fields)


def publish_command(flow_id: str, *values: bytes, request_id: str = "p") -> c.PublishMessages:
    return c.PublishMessages(FlowId(flow_id), None, "news", values, RequestId(request_id), b"digest")


def stop_command(flow_id: str, stop_type: StopType = StopType.CANCEL) -> c.StopFlow:
    return c.StopFlow(FlowId(flow_id), None, stop_type, "enough", RequestId("stop"), b"digest")
