"""The gRPC channel of a client or worker: address, options, TLS and token.

The SDK uses blocking gRPC in its own daemon threads, never grpc.aio: that shares one poller between all loops of a
process, so that a user's blocked loop could cost a worker its session.
"""

from pathlib import Path
from typing import TypeAlias

import grpc

from dexpb.v1.blobs import SESSION_KEY
from dexsdk._carriers import ByteStream
from dexsdk.credentials import Credential, TlsOptions

Metadata: TypeAlias = tuple[tuple[str, str], ...]

MESSAGE_BYTES_MAX = 17 * 1024 * 1024
"""The largest frame of 16 MiB [LIM-1] and its envelope."""

_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # Slower than the server tolerates, so that it never answers with GOAWAY too_many_pings [WIRE-8].
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 0),
    # The SDK backs off itself [WIRE-9]; gRPC's own delays of up to two minutes would add to that.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Also how long a half-open handshake is waited for.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    # Subchannels shared with another channel of the process would share its failures.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
)


class ServerChannel:
    """A channel and what every call on it carries."""

    def __init__(self, address: str, credential: Credential | None, tls: TlsOptions | None, session_key: str) -> None:
        """`session_key` is what all calls of the process have in common, see `dexpb.v1.blobs`."""
        self._credential = credential
        self._session: Metadata = ((SESSION_KEY, session_key),)
        self._channel = _open_channel(address, tls)

    def metadata(self) -> Metadata:
        """Give the metadata of one call; asks the credential, whose exceptions fail the call [SEC-2]."""
        if self._credential is None:
            return self._session
        return (("authorization", f"Bearer {self._credential.token()}"), *self._session)

    def stream_stream(self, method: str) -> "grpc.StreamStreamMultiCallable[bytes, bytes]":
        """Give a bidirectional method whose messages are bytes."""
        return self._channel.stream_stream(method)

    def open_stream(self, method: str, body: bytes) -> ByteStream:
        """Call a method that streams its answer, in bytes; see StreamSource."""
        open_call: grpc.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(method)
        return open_call(body, metadata=self.metadata())

    def unary_unary(self, method: str) -> "grpc.UnaryUnaryMultiCallable[bytes, bytes]":
        """Give a method with one answer, in bytes."""
        return self._channel.unary_unary(method)

    def close(self) -> None:
        """End all calls and release the connection."""
        self._channel.close()


def _open_channel(address: str, tls: TlsOptions | None) -> grpc.Channel:
    if tls is None:
        return grpc.insecure_channel(address, options=_OPTIONS)
    credentials = grpc.ssl_channel_credentials(_read(tls.ca_file), _read(tls.key_file), _read(tls.cert_file))
    return grpc.secure_channel(address, credentials, options=_OPTIONS)


def _read(path: Path | str | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()
