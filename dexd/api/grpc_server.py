"""The gRPC server: transport options, health, reflection, and handlers that get and give bytes.

Handlers take raw bytes so that a message that cannot be parsed, or is too large, is refused with a typed error of ours
instead of whatever the library says [ERR-B].
"""

from collections.abc import Sequence
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from dexd.errors import ListenError
from dexd.settings import ListenAddress

KEEPALIVE_INTERVAL_MS: Final = 30_000
"""How often the transport checks a silent peer; below the idle timeouts of common proxies (60 s)."""
KEEPALIVE_TIMEOUT_MS: Final = 10_000
PEER_PING_INTERVAL_MS_MIN: Final = 5_000
"""A peer that sends transport pings more often is told to calm down (GOAWAY too_many_pings) [WIRE-8]. Our SDK pings
every 20 s and more."""
TRANSPORT_BYTES_FACTOR: Final = 2
"""How far above api.max_message_bytes the transport itself refuses. In between, the refusal is ours: typed, and inside
a session only for the request that is too large. Beyond it nothing is read into memory at all."""

CALLS_MAX: Final = 100_000
"""Calls open at once, sessions and long polls included; what is beyond is refused by the transport [ARCH-8]."""


def create_grpc_server(max_message_bytes: int, handlers: Sequence[grpc.GenericRpcHandler]) -> grpc.aio.Server:
    """Make a server that is not listening yet. Must be called on the running event loop."""
    return grpc.aio.server(
        handlers=handlers,
        maximum_concurrent_rpcs=CALLS_MAX,
        options=(
            # Two servers on one port would share its connections at random instead of failing at start.
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", TRANSPORT_BYTES_FACTOR * max_message_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.keepalive_time_ms", KEEPALIVE_INTERVAL_MS),
            ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.min_ping_interval_without_data_ms", PEER_PING_INTERVAL_MS_MIN),
        ),
    )


def listen(server: grpc.aio.Server, address: ListenAddress) -> ListenAddress:
    """Bind, and give the address with the port that the operating system chose.

    Raises:
        ListenError: the address is taken or not one of this machine.
    """
    try:
        port = server.add_insecure_port(str(address))
    except RuntimeError as error:
        raise ListenError(f"cannot listen on {address}: the address is in use or not one of this machine") from error
    return ListenAddress(address.host, port)


class Health:
    """The standard health service, for probes and load balancers, and reflection beside it [OBS-4]."""

    def __init__(self, server: grpc.aio.Server, services: Sequence[str]) -> None:
        """Register both; every service is unknown until something is said of it."""
        self._services = ("", *services)
        self._servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)
        reflection.enable_server_reflection((*services, health.SERVICE_NAME, reflection.SERVICE_NAME), server)

    async def set_serving(self) -> None:
        """Say that calls are answered."""
        await self._set(health_pb2.HealthCheckResponse.SERVING)

    async def set_not_serving(self) -> None:
        """Say that calls go elsewhere or come later."""
        await self._set(health_pb2.HealthCheckResponse.NOT_SERVING)

    async def _set(self, status: "health_pb2.HealthCheckResponse.ServingStatus") -> None:
        for service in self._services:
            await self._servicer.set(service, status)
