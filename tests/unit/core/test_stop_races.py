"""A stop that races a completion: reply and history always agree [STOP-2]."""

import random

from dexd.core import commands as c
from dexd.core.config import KernelConfig
from dexd.core.events import Event, FlowClosed
from dexd.core.kernel import Kernel
from dexd.core.outcome import Outcome, StopFlowResult
from dexd.core.values import FlowStatus
from tests.support.builders import T0, complete, connect, force, plan, start, stop, token

ROUNDS = 10_000


def test_row_22_stop_at_completion_plus_or_minus_2_ms() -> None:
    """[STOP-2, FLOW-8] Acceptance row 22, in virtual time: whoever comes first wins, and nobody is told otherwise."""
    draws = random.Random(22)
    kernel = Kernel(KernelConfig(), last_stream_id=0)
    kernel.handle(c.BeginServing(), now=T0)
    for command in connect():
        kernel.handle(command, now=T0)
    winners = dict.fromkeys((FlowStatus.CANCELED, FlowStatus.COMPLETED), 0)
    now = T0
    for number in range(ROUNDS):
        flow_id, run_id = f"f-{number}", f"r-{number}"
        kernel.handle(start(flow_id, run_id, step=plan("A")), now=now)
        now += 2
        races: list[tuple[int, c.Command]] = [
            (now, complete(force(b"1"), token("A-1", run=run_id))),
            (now + draws.randint(-2, 2), stop(flow_id=flow_id)),
        ]
        draws.shuffle(races)
        outcomes: list[Outcome] = []
        for at, command in sorted(races, key=lambda race: race[0]):
            now = max(now, at)
            outcomes.append(kernel.handle(command, now=now))
        (status,) = [event.status for event in _events(outcomes) if isinstance(event, FlowClosed)]
        (reply,) = [outcome.reply for outcome in outcomes if isinstance(outcome.reply, StopFlowResult)]
        assert reply == StopFlowResult(status is FlowStatus.CANCELED, status)
        winners[status] += 1
        kernel.forget(token(run=run_id).run_id)
    assert min(winners.values()) > ROUNDS // 5, winners


def _events(outcomes: list[Outcome]) -> list[Event]:
    return [recorded.event for outcome in outcomes for recorded in outcome.events]
