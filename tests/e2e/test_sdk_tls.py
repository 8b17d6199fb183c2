"""SDK workers and clients behind TLS and with tokens, against a scripted server that asks for them [SEC-2, SEC-3]."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from dexpb.v1 import frames
from dexsdk import (
    Client,
    ClientOptions,
    Context,
    FileCredential,
    Flow,
    PullRegistrationError,
    Registry,
    Step,
    StepDecision,
    StepList,
    TlsOptions,
    Worker,
    WorkerOptions,
    graceful_complete,
)
from tests.support.scripted_peer import Refusal, ScriptedPeer, WorkerPeer

WAIT_S = 15.0

CERTIFICATES = Path(__file__).parents[1] / "support" / "tls"
AUTHORITY = CERTIFICATES / "ca.pem"
TRUSTING = TlsOptions(ca_file=AUTHORITY)
IDENTIFIED = TlsOptions(
    ca_file=AUTHORITY, cert_file=CERTIFICATES / "client.pem", key_file=str(CERTIFICATES / "client.key")
)


class EchoStep(Step[str]):
    def execute(self, context: Context, input: str) -> StepDecision:
        return graceful_complete(input)


class EchoFlow(Flow[str]):
    def get_steps(self) -> StepList[str]:
        return StepList.start_step(EchoStep())


REGISTRY = Registry((EchoFlow(),))


def server_credentials(*, is_mutual: bool = False) -> grpc.ServerCredentials:
    pair = ((CERTIFICATES / "server.key").read_bytes(), (CERTIFICATES / "server.pem").read_bytes())
    authority = AUTHORITY.read_bytes() if is_mutual else None
    return grpc.ssl_server_credentials([pair], authority, require_client_auth=is_mutual)


@contextmanager
def running(options: WorkerOptions) -> Iterator[Worker]:
    worker = Worker(REGISTRY, None, options)
    serving = threading.Thread(target=worker.start, name="serving")
    serving.start()
    try:
        yield worker
    finally:
        worker.stop()
        serving.join(WAIT_S)
        assert not serving.is_alive()


def welcome(peer: WorkerPeer) -> None:
    """Confirm the worker's queues, and return when it knows."""
    peer.welcome()
    peer.send(frames.Ping(1))
    peer.take(frames.Pong)


def test_worker_registers_over_tls_and_sends_its_token_there(tmp_path: Path) -> None:
    """[SEC-2, SEC-3]"""
    token = tmp_path / "token"
    token.write_text("sesame\n")
    with ScriptedPeer(server_credentials()) as server:
        options = WorkerOptions(server_address=server.address, tls=TRUSTING, credential=FileCredential(token))
        with running(options) as worker:
            peer = server.worker()
            assert peer.session.metadata["authorization"] == "Bearer sesame"
            peer.welcome()
            worker.wait_pull_registered(timeout=WAIT_S)


def test_worker_proves_who_it_is_where_that_is_asked() -> None:
    """[SEC-3]: with a certificate of its own TLS is mutual."""
    with ScriptedPeer(server_credentials(is_mutual=True)) as server:
        options = WorkerOptions(server_address=server.address, tls=TRUSTING)
        with running(options) as stranger, pytest.raises(TimeoutError):
            stranger.wait_pull_registered(timeout=0.5)
        with running(WorkerOptions(server_address=server.address, tls=IDENTIFIED)) as worker:
            server.worker().welcome()
            worker.wait_pull_registered(timeout=WAIT_S)


def test_worker_does_not_talk_to_a_server_that_it_cannot_verify() -> None:
    """[SEC-3]: None trusts the system's authorities, of which the test's is none."""
    with ScriptedPeer(server_credentials()) as server:
        options = WorkerOptions(server_address=server.address, tls=TlsOptions())
        with running(options) as worker, pytest.raises(TimeoutError, match="ended with UNAVAILABLE"):
            worker.wait_pull_registered(timeout=0.5)


def test_certificates_that_cannot_be_read_fail_the_start(tmp_path: Path) -> None:
    """[READY-2, SEC-3]: the start and whoever waits for it get the same error."""
    worker = Worker(REGISTRY, None, WorkerOptions(tls=TlsOptions(ca_file=tmp_path / "absent.pem")))
    with pytest.raises(FileNotFoundError):
        worker.start()
    with pytest.raises(FileNotFoundError):
        worker.wait_pull_registered(timeout=WAIT_S)


def test_every_new_session_carries_the_token_of_its_time(tmp_path: Path) -> None:
    """[SEC-2, WIRE-9]: a token that was refused is asked for again, and the rotated one is taken."""
    token = tmp_path / "token"
    token.write_text("old")
    with ScriptedPeer() as server:
        options = WorkerOptions(server_address=server.address, credential=FileCredential(token))
        with running(options) as worker:
            peer = server.worker()
            token.write_text("rotated")
            while peer.session.metadata["authorization"] != "Bearer rotated":
                peer.session.end(Refusal(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", "token expired"))
                peer = server.worker()
            welcome(peer)
            worker.wait_pull_registered(timeout=WAIT_S)


def test_credential_without_a_token_is_told_to_the_waiter_and_tried_again(tmp_path: Path) -> None:
    """[READY-3, SEC-2]"""
    token = tmp_path / "token"
    with ScriptedPeer() as server:
        options = WorkerOptions(server_address=server.address, credential=FileCredential(token))
        with running(options) as worker:
            with pytest.raises(PullRegistrationError, match="the credential gives no token") as raised:
                worker.wait_pull_registered(timeout=WAIT_S)
            assert raised.value.code == "UNAUTHENTICATED"
            token.write_text("here")
            welcome(server.worker())
            worker.wait_pull_registered(timeout=WAIT_S)
            assert worker.pull_registration_state().is_ready


def test_client_calls_over_mutual_tls() -> None:
    """[SEC-3]"""
    with ScriptedPeer(server_credentials(is_mutual=True)) as server:
        options = ClientOptions(server_address=server.address, tls=IDENTIFIED)
        client = Client(REGISTRY, None, options)
        asking = threading.Thread(target=client.start_flow, args=(EchoFlow, "flow-1", "x"), name="asking")
        asking.start()
        peer = server.client()
        request = peer.take()
        # An empty StartFlowResponse: no run ID, and no error either.
        peer.reply((request, b""))
        asking.join(WAIT_S)
        assert not asking.is_alive()
        client.close()
