"""Bad input from users' code, foreign clients and strangers: a typed error each, and nobody else notices [ERR-B].

What the service refuses at its wire is proved clause by clause in tests/conformance; here are whole processes. A Flow
that was running before the first test and ends after the last one stands for everybody else.
"""

import math
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from dexpb.v1 import flow_service_pb2 as pb
from dexsdk import (
    Attribute,
    Channel,
    Client,
    ClientOptions,
    Context,
    DexServiceError,
    Flow,
    FlowDefinitionError,
    FlowErrorType,
    FlowNotFoundError,
    FlowStatus,
    PersistenceSchema,
    PullWorkerOptions,
    Registry,
    RetryPolicy,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    StepOptions,
    ValueMappingError,
    ValueTooLargeError,
    Worker,
    WorkerInvocationError,
    WorkerOptions,
    graceful_complete,
    rpc,
)
from tests.support.api_calls import fresh, refusal
from tests.support.api_client import ApiClient
from tests.support.deployment import verify_log
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bad-input")]

WAIT_S = 30.0
MIB = 1 << 20

SHORT_WAIT = ("--set", "matching.dispatch_wait=1s")
"""How long a call that nobody can serve is held."""

WORDS = Channel("words", str)
SCORE = Attribute("score", float)

CYCLIC: list[Any] = []
CYCLIC.append(CYCLIC)

BAD_VALUES: dict[str, Any] = {
    "nan": math.nan,
    "infinity": -math.inf,
    "2^63": 2**63,
    "surrogate": "lone \ud800",
    "cycle": CYCLIC,
    "65 MiB": "x" * (65 * MIB),
    "no value": object(),
}


BAD_VALUE_ERRORS = (ValueMappingError, ValueTooLargeError)


class SpoilStep(Step[str]):
    """Gives back what its input names; one attempt."""

    def get_step_options(self) -> StepOptions:
        return StepOptions(execute_retry=RetryPolicy(maximum_attempts=1))

    def execute(self, context: Context, input: str) -> StepDecision:
        if input == "no decision":
            return "not a decision"  # type: ignore[return-value] # this is the fault
        if input == "attribute":
            SCORE.set(context, math.nan)
        return graceful_complete(BAD_VALUES[input])


class SpoilFlow(Flow[str]):
    def get_steps(self) -> StepList[str]:
        return StepList.start_step(SpoilStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(WORDS, SCORE)


class EchoStep(Step[Any]):
    def execute(self, context: Context, input: Any) -> StepDecision:
        return graceful_complete(input)


class EchoFlow(Flow[Any]):
    """Takes any value that JSON can carry."""

    def get_steps(self) -> StepList[Any]:
        return StepList.start_step(EchoStep())


class DoubleStep(Step[int]):
    def execute(self, context: Context, input: int) -> StepDecision:
        return graceful_complete(2 * input)


class DoubleFlow(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(DoubleStep())


class WaitStep(Step[None]):
    def __init__(self, is_over: threading.Event) -> None:
        self._is_over = is_over

    def execute(self, context: Context, input: None) -> StepDecision:
        self._is_over.wait(10 * WAIT_S)
        return graceful_complete("undisturbed")


class BystanderFlow(Flow[None]):
    """Has nothing to do with all of this."""

    def __init__(self, is_over: threading.Event) -> None:
        self._step = WaitStep(is_over)

    def get_steps(self) -> StepList[None]:
        return StepList.start_step(self._step)

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(WORDS, SCORE)

    @rpc
    def spoil(self, context: Context, name: str) -> RPCResult[Any]:
        return RPCResult(BAD_VALUES[name])

    @rpc
    def length(self, context: Context, word: str) -> RPCResult[int]:
        return RPCResult(len(word))


class World:
    """A server, a worker and two ways to call."""

    def __init__(self, server: ServerProcess, client: Client, api: ApiClient, bystander: BystanderFlow) -> None:
        self.server = server
        self.client = client
        self.api = api
        self.bystander = bystander

    def check_working(self) -> None:
        """A Flow of others goes through."""
        flow_id = fresh("other")
        self.client.start_flow(DoubleFlow, flow_id, 21)
        assert self.client.wait_for_flow(flow_id, WAIT_S).single_output(int) == 42

    def is_unknown(self, flow_id: str) -> bool:
        """Whether nothing was stored."""
        try:
            self.client.describe_flow(flow_id)
        except FlowNotFoundError:
            return True
        return False


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    data_dir = tmp_path_factory.mktemp("bad") / "data"
    is_over = threading.Event()
    bystander = BystanderFlow(is_over)
    registry = Registry((SpoilFlow(), EchoFlow(), DoubleFlow(), bystander))
    with (
        ServerProcess(data_dir, *SHORT_WAIT) as server,
        ApiClient(server.address) as api,
        ThreadPoolExecutor(1) as threads,
    ):
        pull = PullWorkerOptions(max_concurrent_tasks=8)
        worker = Worker(registry, None, WorkerOptions(server_address=server.address, pull=pull))
        running = threads.submit(worker.start)
        try:
            worker.wait_pull_registered(WAIT_S)
            with Client(registry, None, ClientOptions(server_address=server.address)) as client:
                client.start_flow(BystanderFlow, "bystander")
                yield World(server, client, api, bystander)
                is_over.set()
                assert client.wait_for_flow("bystander", WAIT_S).single_output(str) == "undisturbed"
                kinds = [event.kind for event in client.get_history("bystander").events]
        finally:
            is_over.set()
            worker.close()
            running.result()
        server.terminate()
        assert server.wait() == 0
        problems = [event for event in server.log_events() if event["level"] in {"error", "critical"}]
    assert kinds == ["FlowStarted", "StepScheduled", "StepDispatched", "ExecuteCompleted", "FlowClosed"]
    assert problems == [], "bad input is nobody's emergency"
    verify_log(data_dir)


@pytest.fixture(autouse=True)
def others_go_on(world: World) -> Iterator[None]:
    yield
    world.check_working()


# ---- from client code: refused before anything is sent ------------------------------------------------------------


@pytest.mark.parametrize("name", BAD_VALUES)
def test_bad_input_of_a_start_is_refused_and_nothing_is_stored(world: World, name: str) -> None:
    """[VAL-2, VAL-5, LIM-3, GEN-2]"""
    flow_id = fresh("start")
    with pytest.raises(BAD_VALUE_ERRORS):
        world.client.start_flow(EchoFlow, flow_id, BAD_VALUES[name])
    assert world.is_unknown(flow_id)


def test_input_of_the_wrong_type_is_refused_and_nothing_is_stored(world: World) -> None:
    """[TYPE-2]"""
    flow_id = fresh("start")
    not_an_int: Any = "twenty-one"
    with pytest.raises(FlowDefinitionError, match="DoubleFlow"):
        world.client.start_flow(DoubleFlow, flow_id, not_an_int)
    assert world.is_unknown(flow_id)


@pytest.mark.parametrize("flow_id", ["nul\0inside", "", "x" * 256, "line\nbreak", "lone \ud800", "sys:own"])
def test_bad_flow_id_is_refused_by_every_call(world: World, flow_id: str) -> None:
    """[ID-1, ID-3]"""
    with pytest.raises(ValueError, match="Flow ID"):
        world.client.start_flow(DoubleFlow, flow_id, 1)
    if flow_id != "sys:own":
        with pytest.raises(ValueError, match="Flow ID"):
            world.client.publish(flow_id, WORDS, "x")
        with pytest.raises(ValueError, match="Flow ID"):
            world.client.describe_flow(flow_id)


@pytest.mark.parametrize("name", ["surrogate", "65 MiB"])
def test_bad_message_is_refused_and_the_one_before_it_is_not_published_either(world: World, name: str) -> None:
    """[VAL-2, LIM-3, CHAN-2]"""
    before = len(world.client.get_history("bystander").events)
    with pytest.raises(BAD_VALUE_ERRORS):
        world.client.publish("bystander", WORDS, "good", BAD_VALUES[name])
    assert len(world.client.get_history("bystander").events) == before


@pytest.mark.parametrize("name", ["nan", "infinity"])
def test_bad_attribute_is_refused_and_not_written(world: World, name: str) -> None:
    """[VAL-2, ATTR-5]"""
    with pytest.raises(ValueMappingError):
        world.client.set_attribute("bystander", SCORE, BAD_VALUES[name])
    assert world.client.get_attribute("bystander", SCORE) is None


# ---- from handlers: a failed attempt ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nan", "ValueMappingError"),
        ("2^63", "ValueMappingError"),
        ("surrogate", "ValueMappingError"),
        ("cycle", "ValueMappingError"),
        ("65 MiB", "ValueTooLargeError"),
        ("no value", "ValueMappingError"),
        ("no decision", "InvalidStepResultError"),
        ("attribute", "ValueMappingError"),
    ],
)
def test_bad_result_of_a_step_fails_its_flow_alone(world: World, name: str, error: str) -> None:
    """[VAL-5, STEP-7, LIM-3]"""
    flow_id = fresh("spoiled")
    world.client.start_flow(SpoilFlow, flow_id, name)
    result = world.client.wait_for_flow(flow_id, WAIT_S)
    assert (result.status, result.error_type) == (FlowStatus.FAILED, FlowErrorType.WORKER_API_FAILED)
    assert error in (result.error_message or "")
    assert result.completions == ()


@pytest.mark.parametrize("name", ["nan", "2^63", "cycle", "65 MiB", "no value"])
def test_bad_output_of_an_rpc_is_an_error_of_its_caller(world: World, name: str) -> None:
    """[RPC-3, VAL-5]"""
    with pytest.raises(DexServiceError) as raised:
        world.client.invoke_rpc(world.bystander.spoil, "bystander", name)
    assert isinstance(raised.value, WorkerInvocationError | ValueTooLargeError)


# ---- from foreign clients: bytes that no SDK sends -----------------------------------------------------------------


@pytest.mark.parametrize("data", [b'"text"', b"1.5", b"null", b"{", b"\xff\xfe", b"9223372036854775808", b"NaN"])
def test_stored_input_that_does_not_fit_fails_its_flow_alone(world: World, data: bytes) -> None:
    """[VAL-5]: whoever wrote it; the handler is never called, and history can be read."""
    flow_id = fresh("foreign")
    policy = pb.RetryPolicy(initial_interval_ms=1, backoff_coefficient=1.0, maximum_attempts=1)
    step = pb.StartStep(step_type="DoubleStep", options=pb.StepOptions(execute_retry=policy))
    request = pb.StartFlowRequest(
        flow_id=flow_id, flow_type="DoubleFlow", request_id=flow_id, input=data, start_step=step
    )
    world.api.call("StartFlow", request, pb.StartFlowReply)
    result = world.client.wait_for_flow(flow_id, WAIT_S)
    assert (result.status, result.error_type) == (FlowStatus.FAILED, FlowErrorType.WORKER_API_FAILED)
    assert "ValueMappingError" in (result.error_message or "")
    assert world.client.get_history(flow_id).events[-1].kind == "FlowClosed"


def test_rpc_that_no_worker_knows_and_one_with_wrong_input_are_refused_by_name(world: World) -> None:
    """[ROUTE-5, VAL-5]"""
    unknown = refusal(world.api, "InvokeRpc", pb.InvokeRpcRequest(flow_id="bystander", name="no_such_rpc"))
    assert (unknown.code, unknown.reason) == ("UNAVAILABLE", "NO_WORKER_AVAILABLE")
    assert "no_such_rpc" in unknown.message
    wrong = refusal(world.api, "InvokeRpc", pb.InvokeRpcRequest(flow_id="bystander", name="length", input=b"[1]"))
    assert wrong.reason == "WORKER_API_ERROR"
    assert wrong.metadata["worker_error_type"].endswith("ValueMappingError")


# ---- from strangers: no gRPC at all --------------------------------------------------------------------------------

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
STRANGERS: dict[str, bytes] = {
    "nothing": b"",
    "HTTP/1.1": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "noise": bytes(range(256)) * 64,
    "half a preface": PREFACE[:11],
    "half a frame": PREFACE + SETTINGS + b"\x00\x40\x00\x00\x01\x00\x00\x00\x01half",
    "a frame beyond all limits": PREFACE + SETTINGS + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + bytes(1024),
    "headers that are no headers": PREFACE + SETTINGS + b"\x00\x00\x04\x01\x05\x00\x00\x00\x01\xff\xff\xff\xff",
}


@pytest.mark.parametrize("name", STRANGERS)
@pytest.mark.parametrize("ending", ["hangs up", "stays"])
def test_stranger_does_not_disturb(world: World, name: str, ending: str) -> None:
    """[ERR-B]: whether it hangs up or stays, others are served meanwhile."""
    host, port = world.server.address.split(":")
    with socket.create_connection((host, int(port)), WAIT_S) as opened:
        opened.sendall(STRANGERS[name])
        if ending == "hangs up":
            with suppress(OSError):  # the server may have been quicker
                opened.shutdown(socket.SHUT_WR)
        world.check_working()


def test_service_and_method_that_do_not_exist_are_unimplemented(world: World) -> None:
    """[ERR-A]"""
    for path in ("dexpb.v1.FlowService/NoSuchMethod", "no.such.Service/Method"):
        with pytest.raises(Exception, match="UNIMPLEMENTED"):
            world.api.call_bytes(path, b"")
