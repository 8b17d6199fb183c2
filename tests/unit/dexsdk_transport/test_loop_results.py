"""Results of one event loop: handed in together, and never held back by a handler that blocks the loop."""

import asyncio
from collections.abc import Sequence
from threading import Thread

from dexpb.v1 import frames
from dexsdk import Context, Flow, Registry, Step, StepDecision, StepList, graceful_complete
from dexsdk._delivery import Delivery, Ended
from dexsdk._loop_results import LoopResults
from dexsdk._runners import LoopRunner


class Sink:
    """Keeps what is handed in."""

    def __init__(self) -> None:
        self.batches: asyncio.Queue[Sequence[Ended]] = asyncio.Queue()

    def finish(self, ended: Sequence[Ended]) -> None:
        self.batches.put_nowait(ended)

    def heartbeat(self, delivery: Delivery) -> None:
        raise AssertionError(f"{delivery} had a heartbeat")

    def fetch(self, delivery: Delivery, question: frames.Fetch) -> None:
        raise AssertionError(f"{delivery} was not expected to ask for {question}")

    def skip(self, delivery: Delivery) -> None:
        raise AssertionError(f"{delivery} was skipped")

    def decline(self, delivery: Delivery, reason: str) -> None:
        raise AssertionError(f"{delivery} was declined: {reason}")


class QuickStep(Step[None]):
    async def execute(self, context: Context, input: None) -> StepDecision:
        return graceful_complete()


class QuickFlow(Flow[None]):
    def get_steps(self) -> StepList[None]:
        return StepList.start_step(QuickStep())


def call(number: int) -> Delivery:
    token = frames.Token("run", f"QuickStep-{number}", frames.METHOD_EXECUTE, 1, 1)
    assign = frames.Assign(number, token, "flow", "QuickFlow", "QuickStep", b"null", 1, 0, 0, 0)
    return Delivery(assign, "QuickFlow", number)


async def test_results_of_handlers_that_end_in_one_turn_are_handed_in_together() -> None:
    """[WIRE-2]"""
    runner = LoopRunner(Registry((QuickFlow(),), allow_async_handlers=True))
    runner.bind(asyncio.get_running_loop())
    sink = Sink()
    runner.start(sink, [call(1), call(2)])
    runner.start(sink, [call(3)])
    ended = await sink.batches.get()
    assert [delivery.stream for delivery, result in ended if isinstance(result, frames.Output)] == [1, 2, 3]
    assert sink.batches.empty()
    runner.close()


async def test_blocked_loop_does_not_keep_back_what_has_ended() -> None:
    """[WIRE-7, DELIV-3]: the supervisor's thread hands it in, and the loop does not do so again."""
    loop = asyncio.get_running_loop()
    results = LoopResults(loop.call_soon)
    sink = Sink()
    first, second = call(1), call(2)
    results.put(sink, first, None)
    supervisor = Thread(target=results.hand_in)
    supervisor.start()
    supervisor.join()  # This is what blocks the loop.
    assert list(sink.batches.get_nowait()) == [(first, None)]
    results.put(sink, second, None)
    assert list(await sink.batches.get()) == [(second, None)]
    assert sink.batches.empty()
