"""SDK clients on real sockets against a scripted server [START-6, GEN-8, ERR-1, HIST-5, SDK-1]."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from dexpb.v1 import flow_service_pb2 as pb
from dexsdk import (
    AsyncClient,
    Channel,
    Client,
    ClientOptions,
    Context,
    DexServiceError,
    Flow,
    FlowNotFoundError,
    HistoryEvent,
    PersistenceSchema,
    Registry,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    dead_end,
    rpc,
)
from tests.support.scripted_peer import ClientPeer, Refusal, ScriptedPeer

NOTES = Channel("notes", str)


class Note(Step[str]):
    def execute(self, context: Context, input: str) -> StepDecision:
        return dead_end()


class Notebook(Flow[str]):
    def get_steps(self) -> StepList[str]:
        return StepList.start_step(Note())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema(channels=(NOTES,))

    @rpc
    def count(self, context: Context, word: str) -> RPCResult[int]:
        return RPCResult.of(len(word))


NOTEBOOK = Notebook()
REGISTRY = Registry((NOTEBOOK,))


@pytest.fixture
def server() -> Iterator[ScriptedPeer]:
    with ScriptedPeer() as peer:
        yield peer


def options(server: ScriptedPeer) -> ClientOptions:
    return ClientOptions(server_address=server.address)


def started(run_id: str) -> bytes:
    return pb.StartFlowReply(run_id=run_id).SerializeToString()


def answer_start(peer: ClientPeer, run_id: str) -> pb.StartFlowRequest:
    request = peer.take()
    assert request.method == "StartFlow"
    peer.reply((request, started(run_id)))
    return pb.StartFlowRequest.FromString(request.body)


async def test_calls_at_once_share_one_session_and_find_their_answers(server: ScriptedPeer) -> None:
    """[START-1]: replies come in any order."""
    async with AsyncClient(REGISTRY, None, options(server)) as client:
        calls = [asyncio.create_task(client.start_flow(Notebook, f"f-{n}", "x")) for n in range(50)]

        def answer_backwards() -> None:
            peer = server.client()
            requests = [peer.take() for _ in range(50)]
            ids = [pb.StartFlowRequest.FromString(request.body).flow_id for request in requests]
            answers = [started(f"run of {flow_id}") for flow_id in ids]
            peer.reply(*reversed(list(zip(requests, answers, strict=True))))

        await asyncio.to_thread(answer_backwards)
        assert await asyncio.gather(*calls) == [f"run of f-{n}" for n in range(50)]


def test_start_says_how_the_flow_begins(server: ScriptedPeer) -> None:
    """[FLOW-2, START-6]: with a request ID of its own."""
    with Client(REGISTRY, None, options(server)) as client, ThreadPoolExecutor(1) as pool:
        run_id = pool.submit(client.start_flow, Notebook, "f", "hello")
        request = answer_start(server.client(), "run-1")
        assert run_id.result() == "run-1"
    assert (request.flow_id, request.flow_type, request.input) == ("f", "Notebook", b'"hello"')
    assert request.start_step.step_type == "Note"
    assert not request.start_step.has_wait_for
    assert len(request.request_id) >= 16


def test_broken_session_repeats_the_request_under_the_same_id(server: ScriptedPeer) -> None:
    """[START-6, GEN-8]"""
    with Client(REGISTRY, None, options(server)) as client, ThreadPoolExecutor(1) as pool:
        run_id = pool.submit(client.start_flow, Notebook, "f", "hello")
        first = pb.StartFlowRequest.FromString(server.client().take().body)
        server.stop()
        server.restart()
        second = answer_start(server.client(), "run-1")
        assert run_id.result() == "run-1"
    assert first == second


def test_call_that_waits_for_a_server_says_so_once_in_an_outage(
    server: ScriptedPeer, caplog: pytest.LogCaptureFixture
) -> None:
    """[ERR-2] The call is silent for up to 30 s."""
    with Client(REGISTRY, None, options(server)) as client, ThreadPoolExecutor(1) as pool:
        peer = None
        for number in (1, 2):
            run_id = pool.submit(client.start_flow, Notebook, "f", "hello")
            (peer or server.client()).take()
            server.stop()
            server.restart()
            peer = server.client()
            answer_start(peer, "run-1")
            assert run_id.result() == "run-1"
            warnings = [record for record in caplog.records if record.levelname == "WARNING"]
            assert [record.getMessage().split()[0] for record in warnings] == ["client_session_ended"] * number


def test_refusal_becomes_its_exception(server: ScriptedPeer) -> None:
    """[ERR-1]"""
    with Client(REGISTRY, None, options(server)) as client, ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.describe_flow, "f")
        peer = server.client()
        peer.reply((peer.take(), Refusal(grpc.StatusCode.NOT_FOUND, "FLOW_NOT_FOUND", "no Flow 'f'")))
        with pytest.raises(FlowNotFoundError, match="no Flow 'f'") as raised:
            call.result()
    assert (raised.value.code, raised.value.sub_status, raised.value.flow_id) == ("NOT_FOUND", "FLOW_NOT_FOUND", "f")


def test_permanent_end_of_the_session_answers_what_is_open(server: ScriptedPeer) -> None:
    """[SEC-2]: a client without a valid token learns it at once, not after its budget."""
    with Client(REGISTRY, None, options(server)) as client, ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.describe_flow, "f")
        peer = server.client()
        peer.take()
        peer.session.end(Refusal(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", "no token"))
        with pytest.raises(DexServiceError, match="no token"):
            call.result()


def test_rpc_sends_its_input_and_decodes_its_output(server: ScriptedPeer) -> None:
    """[RPC-1, RPC-7]"""
    with Client(REGISTRY, None, options(server)) as client, ThreadPoolExecutor(1) as pool:
        call = pool.submit(lambda: client.invoke_rpc(NOTEBOOK.count, "f", "word", timeout=5))
        peer = server.client()
        request = peer.take()
        peer.reply((request, pb.InvokeRpcReply(output=b"4").SerializeToString()))
        assert call.result() == 4
    sent = pb.InvokeRpcRequest.FromString(request.body)
    assert (sent.name, sent.input, sent.timeout_ms) == ("count", b'"word"', 5_000)


def test_publish_keeps_the_order_of_its_messages(server: ScriptedPeer) -> None:
    """[CHAN-2]"""
    with Client(REGISTRY, None, options(server)) as client, ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.publish, "f", NOTES, "a", "b", "c", request_id="mine")
        peer = server.client()
        request = peer.take()
        peer.reply((request, b""))
        assert call.result() is None
    sent = pb.PublishRequest.FromString(request.body)
    assert (sent.channel, list(sent.values), sent.request_id) == ("notes", [b'"a"', b'"b"', b'"c"'], "mine")


async def test_close_answers_open_calls_and_leaves_no_thread(server: ScriptedPeer) -> None:
    """[SDK-1]: close is idempotent."""
    client = AsyncClient(REGISTRY, None, options(server))
    call = asyncio.create_task(client.wait_for_flow("f"))
    peer = await asyncio.to_thread(server.client)
    await asyncio.to_thread(peer.take)
    await client.close()
    await client.close()
    with pytest.raises(DexServiceError, match="closed"):
        await call
    with pytest.raises(DexServiceError, match="closed"):
        await client.describe_flow("f")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("dexsdk")]


async def test_canceled_call_leaves_the_session_usable(server: ScriptedPeer) -> None:
    """[WAITAPI-6]"""
    async with AsyncClient(REGISTRY, None, options(server)) as client:
        call = asyncio.create_task(client.wait_for_flow("f"))
        peer = await asyncio.to_thread(server.client)
        late = await asyncio.to_thread(peer.take)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        peer.reply((late, pb.WaitForFlowReply(is_terminal=True, status="COMPLETED").SerializeToString()))
        next_call = asyncio.create_task(client.start_flow(Notebook, "g", "x"))
        await asyncio.to_thread(answer_start, peer, "run-2")
        assert await next_call == "run-2"


def event(event_id: int) -> bytes:
    return pb.HistoryEvent(
        event_id=event_id, run_id="run-1", kind="AttributesSet", data=b'{"n":9007199254740993}'
    ).SerializeToString()


def serve_watch_with_a_break(server: ScriptedPeer) -> list[int]:
    """Give two events, break, give the third, end; gives where each watch began."""
    first, session = server.watches.get(timeout=15)
    session.send_bytes(event(1))
    session.send_bytes(event(2))
    session.end(Refusal(grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN"))
    second, session = server.watches.get(timeout=15)
    session.send_bytes(event(3))
    session.end()
    return [pb.WatchHistoryRequest.FromString(request).from_event_id for request in (first, second)]


async def test_watch_goes_on_where_its_connection_broke(server: ScriptedPeer) -> None:
    """[HIST-5, VAL-3]: each event once, numbers exact."""
    async with AsyncClient(REGISTRY, None, options(server)) as client:
        begins = asyncio.create_task(asyncio.to_thread(serve_watch_with_a_break, server))
        events = [seen async for seen in client.watch_history("f")]
        assert [seen.event_id for seen in events] == [1, 2, 3]
        assert events[0].data == {"n": 9007199254740993}
        assert await begins == [1, 3]


def test_blocking_watch_gives_the_same_events(server: ScriptedPeer) -> None:
    """[HIST-5]"""
    with Client(REGISTRY, None, options(server)) as client, ThreadPoolExecutor(1) as pool:
        begins = pool.submit(serve_watch_with_a_break, server)
        assert [seen.event_id for seen in client.watch_history("f")] == [1, 2, 3]
        assert begins.result() == [1, 3]


async def first_event(client: AsyncClient) -> HistoryEvent:
    return await anext(client.watch_history("f"))


async def test_watch_of_an_unknown_flow_raises(server: ScriptedPeer) -> None:
    """[ERR-1]"""
    async with AsyncClient(REGISTRY, None, options(server)) as client:
        first = asyncio.create_task(first_event(client))
        _, session = await asyncio.to_thread(server.watches.get, True, 15)
        session.end(Refusal(grpc.StatusCode.NOT_FOUND, "FLOW_NOT_FOUND"))
        with pytest.raises(FlowNotFoundError):
            await first
