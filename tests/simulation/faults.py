"""What can go wrong, and how often.

Each seed draws its own mix: some faults are off, others frequent (swarm testing).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from random import Random


@dataclass(frozen=True, slots=True)
class Faults:
    """Mean virtual seconds between faults of a kind, or probabilities; 0 switches a fault off."""

    server_crash_every: float = 0.0
    """kill -9 of the server; the log keeps what was committed."""
    worker_crash_every: float = 0.0
    """kill -9 of a worker; another process takes its place."""
    session_reset_every: float = 0.0
    """A session breaks for both sides."""
    half_open_every: float = 0.0
    """The worker's direction goes dead: the server hears nothing and is not told."""
    stall_every: float = 0.0
    """A worker stops for a while, as under SIGSTOP."""
    lost_reply: float = 0.0
    """A client request or its reply is lost; the client repeats it with the same request ID."""
    duplicate_request: float = 0.0
    duplicate_result: float = 0.0
    """A worker's batch arrives twice."""
    handler_failure: float = 0.0
    slow_handler: float = 0.0
    slow_commit: float = 0.0
    refused_append: float = 0.0
    """The disk is full for a moment."""
    clock_step_every: float = 0.0
    """The server's wall clock is set forward or back."""
    deaf_every: float = 0.0
    """The server's direction goes dead: the worker talks and hears nothing, and nobody is told."""
    worker_leave_every: float = 0.0
    """A worker drains and ends, as in a rolling deployment; another one has come before."""
    worker_vanish_every: float = 0.0
    """A worker is gone with its machine: the server is not told, and finds out by its pings."""
    storm_every: float = 0.0
    """All sessions break at once, several times within moments."""

    @staticmethod
    def draw(random: Random) -> "Faults":
        """Draw a mix in which every fault is off with probability one half."""
        ranges = {
            "server_crash_every": (3.0, 40.0),
            "worker_crash_every": (3.0, 40.0),
            "session_reset_every": (1.0, 30.0),
            "half_open_every": (10.0, 60.0),
            "stall_every": (5.0, 60.0),
            "clock_step_every": (5.0, 60.0),
            "refused_append": (0.0, 0.02),
        }
        return _draw(random, ranges, 0.5, [field.name for field in fields(Faults) if field.name not in WORKER_FAULTS])

    @staticmethod
    def draw_worker_faults(random: Random) -> "Faults":
        """Draw a mix of what happens to workers and their connections: churn, cuts, stalls, storms."""
        ranges = {
            "server_crash_every": (15.0, 60.0),
            "worker_crash_every": (3.0, 30.0),
            "worker_leave_every": (2.0, 30.0),
            "worker_vanish_every": (10.0, 60.0),
            "session_reset_every": (1.0, 30.0),
            "half_open_every": (5.0, 40.0),
            "deaf_every": (5.0, 40.0),
            "stall_every": (5.0, 40.0),
            "storm_every": (5.0, 40.0),
            "slow_handler": (0.0, 0.5),
        }
        return _draw(random, ranges, 0.7, list(ranges))


WORKER_FAULTS = frozenset({"deaf_every", "worker_leave_every", "worker_vanish_every", "storm_every"})
"""Faults of the second mix only."""


def _draw(random: Random, ranges: Mapping[str, tuple[float, float]], share: float, names: Sequence[str]) -> Faults:
    drawn = {}
    for name in names:
        low, high = ranges.get(name, (0.0, 0.3))
        drawn[name] = random.uniform(low, high) if random.random() < share else 0.0
    return Faults(**drawn)
