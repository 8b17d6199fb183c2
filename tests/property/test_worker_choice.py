"""[ROUTE-7] The worker that gets a call is the one that a look at all of them would choose."""

from hypothesis import given as given_any
from hypothesis import strategies as st

from dexd.core.commands import Command
from dexd.core.effects import AssignCall
from dexd.core.ids import QueueName
from dexd.core.kernel import Kernel
from dexd.core.matching.sessions import Worker
from dexd.core.values import Token
from tests.support.builders import DEAD_END, FLOW_TYPE, complete, connect, decline, plan, serves, start, stream
from tests.support.given import given

QUEUE = QueueName(FLOW_TYPE)
STEPS = ("A B", "A", "B")

happenings = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.sampled_from("AB")),
        st.tuples(st.just("complete"), st.integers(0, 30)),
        st.tuples(st.just("decline"), st.integers(0, 30)),
        st.tuples(st.just("stream"), st.integers(0, 5)),
        st.tuples(st.just("pass"), st.integers(1, 60)),
    ),
    max_size=60,
)


def _best(kernel: Kernel, step: str, now: int) -> Worker | None:
    """Look at everybody."""
    may_have_it = [
        worker
        for worker in kernel.dispatcher.matcher.workers.values()
        if QUEUE in worker.idle
        and worker.can_run(FLOW_TYPE, step, is_rpc=False)
        and not worker.is_held(is_rpc=False, now=now)
    ]
    return min(may_have_it, key=lambda worker: (worker.load(), worker.idle_since, worker.worker_id), default=None)


@given_any(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(STEPS)), min_size=1, max_size=6), happenings)
def test_choice_is_that_of_a_look_at_all_workers(
    fleet: list[tuple[int, str]], happened: list[tuple[str, int | str]]
) -> None:
    world = given()
    running: list[tuple[int, int, Token]] = []
    streams: dict[int, int] = {}
    now = world.now
    for number, (limit, steps) in enumerate(fleet, start=1):
        world.after(*connect(number, f"w{number}", serves(steps=steps), limit=limit, streams=2))
        streams[number] = 2
    for count, (what, pick) in enumerate(happened):
        if what == "pass":
            now += int(pick)
            then = world.when_time_passes(now)
        elif what == "start":
            expected = _best(world.kernel, str(pick), now)
            then = world.when(start(f"f{count}", f"r{count}", step=plan(str(pick))), now=now)
            assigned = [effect for effect in then.effects if isinstance(effect, AssignCall)]
            chosen = [world.kernel.workforce.sessions[effect.session].worker for effect in assigned]
            assert chosen == ([] if expected is None else [expected])
        elif what == "stream":
            session = 1 + int(pick) % len(fleet)
            streams[session] += 1
            then = world.when(stream(session, streams[session], FLOW_TYPE), now=now)
        elif running:
            session, number, token = running.pop(int(pick) % len(running))
            answer: Command = complete(DEAD_END, token, session=session, number=number)
            if what == "decline":
                answer = decline("NO_CAPACITY", token, session=session, number=number)
            then = world.when(answer, now=now)
        else:
            continue
        running += [(e.session, e.stream, e.call.token) for e in then.effects if isinstance(e, AssignCall)]
