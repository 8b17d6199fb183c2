"""The gRPC connection of one `dex` call: plain unary calls, a deadline, and the bearer token."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import grpc

from dexpb.v1.admin_service_pb2_grpc import AdminServiceStub
from dexpb.v1.blobs import SESSION_KEY
from dexpb.v1.flow_service_pb2_grpc import FlowServiceStub
from dexpb.v1.schedule_service_pb2_grpc import ScheduleServiceStub
from dextools.cli.errors import CommandError, ExitCode, command_error_of
from dextools.cli.large_values import LargeValues

Request = TypeVar("Request")
Reply = TypeVar("Reply")

MESSAGE_BYTES_MAX = 64 * 1024 * 1024
"""What a reply may have; the server's own limits are lower, so that no answer is refused on this side."""


class Connection:
    """Calls to one server. Every failure leaves as a CommandError."""

    def __init__(self, channel: grpc.Channel, server: str, timeout: float, token: str | None) -> None:
        """Use `connect`."""
        self.flows = FlowServiceStub(channel)
        self.schedules = ScheduleServiceStub(channel)
        self.admin = AdminServiceStub(channel)
        self.server = server
        self.timeout = timeout
        session = ((SESSION_KEY, secrets.token_hex(16)),)
        self._metadata = session if token is None else (("authorization", f"Bearer {token}"), *session)
        self.large_values = LargeValues(channel, self._metadata, self._command_errors)

    def call(
        self, method: "grpc.UnaryUnaryMultiCallable[Request, Reply]", request: Request, *, held_for: float = 0.0
    ) -> Reply:
        """Make one unary call.

        Args:
            method: A method of `flows`, `schedules` or `admin`.
            request: Its request message.
            held_for: Seconds for which the server may hold the call by itself; the deadline adds to that.

        Raises:
            CommandError: the server refused, or did not answer in time.
        """
        with self._command_errors():
            return method(request, timeout=self.timeout + held_for, metadata=self._metadata)

    def stream(self, method: "grpc.UnaryStreamMultiCallable[Request, Reply]", request: Request) -> Iterator[Reply]:
        """Read a server stream until it ends; there is no deadline, the caller may interrupt it.

        Raises:
            CommandError: the server refused, or the stream broke.
        """
        with self._command_errors():
            yield from method(request, metadata=self._metadata)

    @contextmanager
    def _command_errors(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            raise command_error_of(error, self.server) from error


@contextmanager
def connect(server: str, timeout: float, token_file: Path | None) -> Iterator[Connection]:
    """Open a channel for the length of one `dex` call."""
    options = [
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
        # A proxy from the environment would be asked to connect to the loopback address.
        ("grpc.enable_http_proxy", 0),
    ]
    with grpc.insecure_channel(server, options=options) as channel:
        yield Connection(channel, server, timeout, _token(token_file))


def _token(token_file: Path | None) -> str | None:
    if token_file is None:
        return None
    try:
        return token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--token-file {token_file} cannot be read: {error}", ExitCode.USAGE) from None
