"""The proxy breaks connections as it says; tests that rely on it would otherwise prove nothing."""

import socket
from collections.abc import Iterator

import pytest

from tests.support.fault_proxy import Direction, FaultProxy

WAIT_S = 5.0


class Echo:
    """A listener and, through a proxy, one connection to it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        host, port = self._listener.getsockname()
        self.proxy = FaultProxy(f"{host}:{port}")
        self.client, self.server = self.connect()

    def connect(self) -> tuple[socket.socket, socket.socket]:
        host, port = self.proxy.address.split(":")
        client = socket.create_connection((host, int(port)), WAIT_S)
        server, _ = self._listener.accept()
        server.settimeout(WAIT_S)
        # What has passed a byte is known to the proxy, too.
        client.sendall(b"!")
        assert server.recv(1) == b"!"
        return client, server

    def close(self) -> None:
        self.proxy.close()
        for opened in (self.client, self.server, self._listener):
            opened.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    opened = Echo()
    yield opened
    opened.close()


def test_bytes_pass_both_ways_and_ends_are_passed_on(echo: Echo) -> None:
    echo.client.sendall(b"ping")
    assert echo.server.recv(10) == b"ping"
    echo.server.sendall(b"pong")
    assert echo.client.recv(10) == b"pong"
    echo.client.shutdown(socket.SHUT_WR)
    assert echo.server.recv(10) == b""


def test_reset_reaches_both_sides_as_rst(echo: Echo) -> None:
    assert echo.proxy.reset() == 1
    for side in (echo.client, echo.server):
        with pytest.raises(ConnectionResetError):
            side.recv(10)


def test_cut_direction_is_silent_and_the_other_one_goes_on(echo: Echo) -> None:
    echo.proxy.cut(Direction.TO_CLIENT)
    echo.server.sendall(b"lost")
    echo.client.sendall(b"heard")
    assert echo.server.recv(10) == b"heard"
    echo.client.settimeout(0.1)
    with pytest.raises(TimeoutError):
        echo.client.recv(10)


def test_healing_resets_what_lost_bytes_and_lets_new_connections_through(echo: Echo) -> None:
    echo.proxy.cut(Direction.TO_SERVER, Direction.TO_CLIENT)
    echo.proxy.heal()
    with pytest.raises(ConnectionResetError):
        echo.client.recv(10)
    client, server = echo.connect()
    with client, server:
        client.sendall(b"new")
        assert server.recv(10) == b"new"


def test_client_of_a_proxy_without_target_is_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
    with FaultProxy(f"{host}:{port}") as proxy:
        host, port = proxy.address.split(":")
        with pytest.raises(ConnectionResetError), socket.create_connection((host, int(port)), WAIT_S) as client:
            client.recv(10)
