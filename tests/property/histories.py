"""Random lives of a kernel, and the histories that it wrote in them."""

from random import Random

from hypothesis import strategies as st

from dexd.core import commands as c
from dexd.core.outcome import RecordedEvent
from dexd.core.values import Method, Response, StepPlan, StopType
from tests.property.kernel_world import Delivered, KernelWorld, Peer
from tests.support.builders import (
    DEAD_END,
    PROCEED,
    SKIP,
    accept,
    all_of,
    any_of,
    channel,
    complete,
    decides,
    decline,
    fail,
    force,
    force_fail,
    go_to,
    graceful,
    no_retry,
    options,
    plan,
    publish,
    recovery,
    rpc,
    set_attribute,
    start,
    stop,
    timer,
    waits,
)

FLOW_ID = "f"
seeds = st.integers(0, 2**32)
_OPTIONS = (None, no_retry(recovery=recovery(wait_for=True), wait_for_failure=PROCEED), options(execute_timeout_ms=900))
_WAITS = (
    SKIP,
    all_of(timer(500)),
    any_of(channel("c"), timer(2_000)),
    all_of(channel("c", 1, None), channel("d", 0, 2)),
)
_ENDS = (DEAD_END, graceful(b"1"), graceful(), force(b"2"), force_fail("no"))


def histories() -> st.SearchStrategy[list[RecordedEvent]]:
    """All events of a run, from its start to wherever its life stopped."""
    return st.builds(lambda seed, steps: live(seed, steps).streams[1], seeds, st.integers(1, 40))


def live(seed: int, steps: int) -> KernelWorld:
    """One Flow and its worker, and so many things that happen to them."""
    random = Random(seed)
    world = KernelWorld()
    world.connect("w0", "i0", limit=3)
    world.do(start(FLOW_ID, "run-1", step=_plan(random), attributes=(("a", b"1"),)))
    for number in range(steps):
        _happen(world, random, f"r{number}")
    return world


def _happen(world: KernelWorld, random: Random, request_id: str) -> None:
    held = world.held()
    if held and random.random() < 0.6:
        _answer(world, random, *random.choice(held))
        return
    match random.randrange(7):
        case 0:
            names = random.choice(("c", "d"))
            world.do(publish(names, *[b"m"] * random.randint(1, 3), flow_id=FLOW_ID, request_id=request_id))
        case 1:
            world.do(set_attribute("a", random.choice((None, b"2")), flow_id=FLOW_ID, request_id=request_id))
        case 2:
            world.answer_pings()
            world.pass_time(random.choice((10, 1_000, 6_000)))
        case 3:
            _reconnect(world, random)
        case 4:
            _call(world, request_id)
        case 5 if random.random() < 0.2:
            world.do(stop(random.choice(list(StopType)), flow_id=FLOW_ID, request_id=request_id))
        case _:
            world.crash()
            world.connect("w0", "i0", limit=3)


def _call(world: KernelWorld, request_id: str) -> None:
    command = rpc("write", flow_id=FLOW_ID, request_id=request_id, expires_at=world.now + 20_000)
    if command.caller not in world.callers:
        world.callers[command.caller] = None
        world.do(command)


def _reconnect(world: KernelWorld, random: Random) -> None:
    for peer in list(world.peers.values()):
        world.lose(peer)
        world.connect(peer.worker_id, peer.incarnation, presents_from=peer if random.random() < 0.5 else None)


def _answer(world: KernelWorld, random: Random, peer: Peer, call: Delivered) -> None:
    where = (call.token, peer.session, call.stream)
    match random.randrange(6):
        case 0:
            world.answer(peer, call, fail(None, *where))
        case 1:
            world.answer(peer, call, decline("NO_CAPACITY", *where))
        case 2:
            world.do(accept(*where))
        case _:
            world.answer(peer, call, _result(random, call, peer))


def _result(random: Random, call: Delivered, peer: Peer) -> c.CompleteCall:
    publications = (("c", b"p"),) if random.random() < 0.3 else ()
    if call.token.method is Method.RPC:
        steps = (_plan(random),) if random.random() < 0.5 else ()
        response = Response(output=b"1", publications=publications, next_steps=steps)
    elif call.token.method is Method.WAIT_FOR:
        response = waits(random.choice(_WAITS), publications=publications, locals=(("l", b"1"),))
    else:
        decision = go_to(_plan(random)) if random.random() < 0.7 else random.choice(_ENDS)
        response = decides(decision, publications=publications, writes=(("b", b"1"), ("a", None)))
    return complete(response, call.token, peer.session, call.stream)


def _plan(random: Random) -> StepPlan:
    return plan(random.choice("AB"), wait_for=random.random() < 0.5, options=random.choice(_OPTIONS))
