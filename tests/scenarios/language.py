"""The language of the scenarios: one command a line, each a verb with words after it.

    start FLOW STEP [wait] [attempts=N] [timeout=MS] [recover=STEP] [proceed] [reuse=POLICY]
          [standing=PRIORITY:KEY:WEIGHT] [priority=N]
    publish FLOW CHANNEL VALUE...          set FLOW KEY [VALUE]          stop FLOW [cancel|fail|terminate]
    rpc FLOW NAME                          abandon CALLER
    worker NAME [steps=A,B] [limit=N] [streams=N] [incarnation=I]
    lose NAME      drain NAME              return NAME [presenting]
    accept CALL    decline CALL REASON     fail CALL ERROR
    complete CALL RESULT... [publish=CHANNEL:VALUE] [write=KEY:VALUE]
        RESULT: skip | all COND... | any COND... | go-to STEP... | graceful [V] | force [V] | force-fail | dead-end
                | answer [V] | schedule STEP
        COND: MS | CHANNEL | CHANNEL:AT_LEAST..AT_MOST
    pass MS                                restart [MS]                  dump FLOW

A CALL is a Step execution ID or `rpc-N`, after `FLOW/` where several Flows have it. A STEP with `?` has a wait_for.
"""

from collections.abc import Callable, Iterator

from dexd.core import commands as c
from dexd.core.ids import FlowId, QueueName, StreamNumber
from dexd.core.values import (
    WEIGHT_DEFAULT,
    Condition,
    Decision,
    IdReusePolicy,
    Response,
    RunningCall,
    Standing,
    StepOptions,
    StepPlan,
    StopType,
    Token,
    Wait,
)
from tests.scenarios import transcript
from tests.scenarios.stage import Stage, StageWorker
from tests.support import builders as b

Output = Iterator[str]


class Interpreter:
    """Plays commands on a stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._requests = 0
        self._verbs: dict[str, Callable[..., Output]] = {
            name.removeprefix("_do_").replace("_", "-"): getattr(self, name) for name in dir(self) if name[:4] == "_do_"
        }

    def play(self, line: str) -> list[str]:
        """What comes of one command line."""
        verb, *words = line.split()
        plain = [word for word in words if "=" not in word]
        named = dict(word.split("=", 1) for word in words if "=" in word)
        output = list(self._verbs[verb](*plain, **named))
        if verb != "dump":
            output.append(f"due {transcript.instant(self._stage.kernel.next_deadline())}")
        return output

    def _play(self, *commands: c.Command) -> Output:
        for command in commands:
            yield from transcript.lines(self._stage, self._stage.do(command))

    def _fresh(self) -> str:
        self._requests += 1
        return f"r{self._requests}"

    # ---- clients ----

    def _do_start(
        self, flow_id: str, step: str, *flags: str, reuse: str = "DEFAULT", standing: str = "", **chosen: str
    ) -> Output:
        run_id = f"run-{self._fresh()}"
        options = _options(*flags, **chosen)
        plan = _plan(step, options)
        yield from self._play(
            b.start(flow_id, run_id, step=plan, id_reuse_policy=IdReusePolicy[reuse], standing=_standing(standing))
        )

    def _do_publish(self, flow_id: str, channel: str, *values: str) -> Output:
        encoded = [value.encode() for value in values]
        yield from self._play(b.publish(channel, *encoded, flow_id=flow_id, request_id=self._fresh()))

    def _do_set(self, flow_id: str, key: str, value: str | None = None) -> Output:
        encoded = None if value is None else value.encode()
        yield from self._play(b.set_attribute(key, encoded, flow_id=flow_id, request_id=self._fresh()))

    def _do_stop(self, flow_id: str, kind: str = "cancel") -> Output:
        yield from self._play(b.stop(StopType[kind.upper()], flow_id=flow_id, request_id=self._fresh()))

    def _do_rpc(self, flow_id: str, name: str) -> Output:
        self._requests += 1
        number = self._requests
        expires_at = self._stage.now + 60_000
        yield from self._play(
            b.rpc(name, caller=number, request_id=str(number), flow_id=flow_id, expires_at=expires_at)
        )

    def _do_abandon(self, caller: str) -> Output:
        yield from self._play(b.abandon(int(caller)))

    # ---- workers ----

    def _do_worker(
        self, name: str, steps: str = "A,B", limit: str = "8", streams: str = "1", incarnation: str = "i1"
    ) -> Output:
        served = steps.replace(",", " ")
        worker = StageWorker(name, incarnation, self._stage.next_session(), served, int(limit))
        self._stage.workers[name] = worker
        yield from self._hello(worker, ())
        for _ in range(int(streams)):
            yield from self._open_stream(worker)

    def _hello(self, worker: StageWorker, running: tuple[RunningCall, ...]) -> Output:
        yield from self._play(
            b.hello(
                worker.session,
                worker.name,
                b.serves(steps=worker.steps),
                incarnation=worker.incarnation,
                limit=worker.limit,
                running=running,
            )
        )

    def _open_stream(self, worker: StageWorker) -> Output:
        number = StreamNumber(max(worker.queues, default=0) + 1)
        worker.queues[number] = b.FLOW_TYPE
        yield from self._play(c.OpenStream(worker.session, number, QueueName(b.FLOW_TYPE)))

    def _do_lose(self, name: str) -> Output:
        yield from self._play(b.lose(self._stage.workers[name].session))

    def _do_drain(self, name: str) -> Output:
        yield from self._play(b.goodbye(self._stage.workers[name].session))

    def _do_return(self, name: str, presenting: str = "") -> Output:
        worker = self._stage.workers[name]
        worker.session = self._stage.next_session()
        running = [RunningCall(number, b.FLOW_TYPE, token) for number, token in worker.calls.items()]
        if not presenting:
            worker.calls = {}
            running = []
        worker.queues = dict.fromkeys(worker.calls, b.FLOW_TYPE)
        yield from self._hello(worker, tuple(running))
        yield from self._open_stream(worker)

    # ---- answers ----

    def _do_accept(self, call: str) -> Output:
        worker, number, token = self._find(call)
        yield from self._play(b.accept(token, worker.session, number))

    def _do_decline(self, call: str, reason: str) -> Output:
        worker, number, token = self._take(call)
        yield from self._play(b.decline(reason, token, worker.session, number))

    def _do_fail(self, call: str, error: str) -> Output:
        worker, number, token = self._take(call)
        yield from self._play(b.fail(b.failure(error, "broken"), token, worker.session, number))

    def _do_complete(self, call: str, kind: str, *words: str, publish: str = "", write: str = "") -> Output:
        worker, number, token = self._take(call)
        channel, _, message = publish.partition(":")
        key, _, value = write.partition(":")
        result = _RESULTS[kind](*words)
        response = Response(
            wait=result if isinstance(result, Wait) else None,
            decision=result if isinstance(result, Decision) else None,
            publications=((channel, message.encode()),) if publish else (),
            writes=((key, value.encode()),) if write else (),
            output=result if isinstance(result, bytes) else b"",
            next_steps=(result,) if isinstance(result, StepPlan) else (),
        )
        yield from self._play(c.CompleteCall(worker.session, number, token, response))

    def _find(self, call: str) -> tuple[StageWorker, StreamNumber, Token]:
        flow_id, _, name = call.rpartition("/")
        return self._stage.holder(name.replace("rpc-", "sys:rpc-"), flow_id or None)

    def _take(self, call: str) -> tuple[StageWorker, StreamNumber, Token]:
        worker, number, token = self._find(call)
        del worker.calls[number]
        return worker, number, token

    # ---- time and the server ----

    def _do_pass(self, milliseconds: str) -> Output:
        until = self._stage.now + int(milliseconds)
        while (due := self._stage.kernel.next_deadline()) is not None and due <= until:
            self._stage.now = max(self._stage.now, due)
            yield f"at {transcript.instant(self._stage.now)}"
            yield from self._play(c.Tick())
        self._stage.now = until

    def _do_restart(self, milliseconds: str = "0") -> Output:
        self._stage.now += int(milliseconds)
        yield from transcript.lines(self._stage, self._stage.restart())

    def _do_dump(self, flow_id: str) -> Output:
        run = self._stage.kernel.run(FlowId(flow_id))
        return iter(["unknown"]) if run is None else transcript.state(run)


def _standing(words: str) -> Standing | None:
    if not words:
        return None
    priority, _, rest = words.partition(":")
    key, _, weight = rest.partition(":")
    return Standing(int(priority), key, int(weight) if weight else WEIGHT_DEFAULT)


def _options(
    *flags: str, attempts: str = "0", timeout: str = "", recover: str = "", priority: str = ""
) -> StepOptions | None:
    if not flags and (attempts, timeout, recover, priority) == ("0", "", "", ""):
        return None
    retry = b.retry(maximum_attempts=int(attempts))
    return b.options(
        wait_for_retry=retry,
        execute_retry=retry,
        execute_timeout_ms=int(timeout) if timeout else None,
        recovery=b.recovery(recover.rstrip("?"), wait_for=recover.endswith("?")) if recover else None,
        wait_for_failure=b.PROCEED if "proceed" in flags else StepOptions().wait_for_failure,
        priority=int(priority) if priority else None,
    )


def _plan(step: str, options: StepOptions | None = None) -> StepPlan:
    return b.plan(step.rstrip("?"), wait_for=step.endswith("?"), options=options)


def _condition(word: str) -> Condition:
    if word.isdecimal():
        return b.timer(int(word))
    name, _, bounds = word.partition(":")
    at_least, _, at_most = (bounds or "1..1").partition("..")
    return b.channel(name, int(at_least), int(at_most) if at_most else None)


_RESULTS: dict[str, Callable[..., Wait | Decision | StepPlan | bytes]] = {
    "skip": lambda: b.SKIP,
    "all": lambda *words: b.all_of(*map(_condition, words)),
    "any": lambda *words: b.any_of(*map(_condition, words)),
    "go-to": lambda *steps: b.go_to(*map(_plan, steps)),
    "graceful": lambda value="": b.graceful(value.encode()),
    "force": lambda value="": b.force(value.encode()),
    "force-fail": lambda: b.force_fail("no"),
    "dead-end": lambda: b.DEAD_END,
    "answer": lambda value="": value.encode(),
    "schedule": _plan,
}
