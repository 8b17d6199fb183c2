"""The only place with clocks and randomness: server time and everything that is minted [ARCH-1, TIMER-6]."""

import random
import secrets
import time
from collections.abc import Callable

from dexd.codec.flow_requests import Minted
from dexd.core.ids import RequestId, RunId

NS_PER_MS = 1_000_000


class ServerClock:
    """Milliseconds since the epoch that never run backwards [TIMER-6].

    Time advances with the monotonic clock and follows the wall clock when that is ahead: a wall clock that steps back
    neither un-fires nor stalls a timer, one that steps forward makes due what became due.
    """

    __slots__ = ("_monotonic_ns", "_offset_ns", "_wall_ns")

    def __init__(
        self,
        last_at: int,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`last_at` is the newest instant in the log; time continues from it, also across restarts."""
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self._offset_ns = last_at * NS_PER_MS - monotonic_ns()

    def now(self) -> int:
        """Server time."""
        monotonic_ns = self._monotonic_ns()
        offset_ns = self._wall_ns() - monotonic_ns
        self._offset_ns = max(self._offset_ns, offset_ns)
        return (monotonic_ns + self._offset_ns) // NS_PER_MS


def mint(request_id: str) -> Minted:
    """Make what one client command may need beside its request ID, and that too if the caller gave none, "".

    IDs are opaque; the seed only spreads retries [ID-5, RETRY-2].
    """
    fresh = RequestId(request_id) if request_id else mint_request_id()
    return Minted(RunId(_ordered_token()), _draws.getrandbits(63), fresh)


def mint_request_id() -> RequestId:
    """Make a request ID for a caller that gave none [START-6]."""
    return RequestId(_token())


_draws = random.Random()
"""Seeded by the operating system when the process starts. IDs need to be unique, not secret, and asking the system for
each of them would hand the interpreter lock to another thread every time."""


def _token() -> str:
    return _draws.getrandbits(128).to_bytes(16, "big").hex()


def _ordered_token() -> str:
    """Like `_token`, but later ones sort behind earlier ones.

    Run IDs are indexed: random ones would dirty a page of their own for every run, which costs the log more than all
    events of a short Flow.
    """
    instant = time.time_ns() // NS_PER_MS  # fits into 48 bits for 8,000 years
    return (instant << 80 | _draws.getrandbits(80)).to_bytes(16, "big").hex()


def draw_below(bound: int) -> int:
    """Draw a number that nobody can foresee."""
    return secrets.randbelow(bound)


class SeededMint:
    """Mints the same in every test with the same seed [TEST-3]."""

    def __init__(self, seed: int) -> None:
        self._draws = random.Random(seed)
        self._last = 0

    def mint(self, request_id: str) -> Minted:
        """Make what one client command may need; later run IDs sort behind earlier ones, as a server's do."""
        self._last += 1
        run_id = RunId(f"{self._last:012x}{self._draws.getrandbits(80):020x}")
        return Minted(run_id, self._draws.getrandbits(63), RequestId(request_id) if request_id else self.request_id())

    def request_id(self) -> RequestId:
        """Make a request ID for a caller that gave none."""
        return RequestId(f"{self._draws.getrandbits(128):032x}")


def stopwatch_ms() -> float:
    """A reading whose differences are durations; finer than the loop's own time, which uvloop keeps in whole ms."""
    return time.perf_counter() * 1_000
