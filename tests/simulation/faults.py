"""What can go wrong, and how often.

Each seed draws its own mix: some faults are off, others frequent (swarm testing).
"""

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
        drawn = {}
        for field in fields(Faults):
            low, high = ranges.get(field.name, (0.0, 0.3))
            drawn[field.name] = random.uniform(low, high) if random.random() < 0.5 else 0.0
        return Faults(**drawn)
