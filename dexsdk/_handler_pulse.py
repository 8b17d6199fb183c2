"""Heartbeats of one running handler, coalesced to what the server needs [HB-2]."""

EVERY_MS_MAX = 1_000
"""Heartbeats leave at most this often; the server records one value a second [HB-3]."""

BEATS_PER_TIMEOUT = 4
"""A handler whose heartbeats are watched sends so many within the timeout, so that one may come late."""


class HandlerPulse:
    """The newest heartbeat of a handler and when it may leave. The handler's thread writes, the session's thread reads.

    A heartbeat that is not due yet is replaced by the next one or sent by the session's tick.
    """

    __slots__ = ("_every_ms", "_is_new", "_next_at", "_value")

    def __init__(self, timeout_ms: int) -> None:
        """Take the call's heartbeat timeout, 0 without one."""
        self._every_ms = min(EVERY_MS_MAX, timeout_ms // BEATS_PER_TIMEOUT) if timeout_ms else EVERY_MS_MAX
        self._value = b""
        self._is_new = False
        self._next_at = 0

    def beat(self, value: bytes) -> None:
        """Note a heartbeat."""
        self._value = value
        self._is_new = True

    def is_due(self, now: int) -> bool:
        """Whether there is a heartbeat that may leave."""
        return self._is_new and now >= self._next_at

    @property
    def is_unsent(self) -> bool:
        """Whether there is a heartbeat that has not left, due or not."""
        return self._is_new

    def take(self, now: int) -> bytes:
        """Give the newest value; it leaves now."""
        self._is_new = False
        self._next_at = now + self._every_ms
        return self._value

    def send_again(self) -> None:
        """The connection broke: whether the last one has arrived is unknown."""
        self._is_new = True
        self._next_at = 0
