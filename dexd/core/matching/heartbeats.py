"""Heartbeats of running calls: signs of life that may carry a value for the next attempt [HB-1..3].

A call without heartbeats and without a heartbeat timeout has no pulse and costs nothing here. What decides about a
Flow is in the log: the first heartbeat of an attempt is recorded at once, later values at most once a second, and what
is newer than the log goes with the failure of the attempt. Only the instant of the last sign of life is not, as all
deadlines of a delivery begin anew after recovery.
"""

from dexd.core.config import HEARTBEAT_LOG_MS
from dexd.core.deadlines import Deadlines
from dexd.core.events import HeartbeatReceived
from dexd.core.matching.calls import Call, Pulse, step_of
from dexd.core.matching.deadline_keys import DeadlineKey, HeartbeatDue
from dexd.core.turn import Turn


class Heartbeats:
    """Takes heartbeats in, keeps their newest values, and says when one is overdue."""

    __slots__ = ("_deadlines",)

    def __init__(self, deadlines: Deadlines[DeadlineKey]) -> None:
        self._deadlines = deadlines

    def begin(self, call: Call, timeout_ms: int, *, now: int) -> None:
        """From hand-over on a sign of life is due in time [HB-1]."""
        call.pulse = Pulse(timeout_ms, now, now)
        self._watch(call, call.pulse)

    def end(self, call: Call) -> None:
        """Nothing is due any more; what the log has not yet can still be taken."""
        self._deadlines.disarm(HeartbeatDue(call.key))

    def receive(self, turn: Turn, call: Call, value: bytes) -> None:
        """A delivered Step method showed life; `b""` is no value, or clears the one there was [HB-2]."""
        pulse = call.pulse
        if pulse is None:
            pulse = call.pulse = Pulse(0, turn.now)
        pulse.seen_at = turn.now
        step = step_of(call)
        if step.has_heartbeat and value == step.heartbeat:
            pulse.unlogged = None
        elif step.has_heartbeat and turn.now < pulse.logged_at + HEARTBEAT_LOG_MS:
            pulse.unlogged = value
            self._watch(call, pulse)
        else:
            _log(turn, call, pulse, value)

    def is_overdue(self, turn: Turn, call: Call, pulse: Pulse) -> bool:
        """Record a value that has waited a second; say whether a sign of life is overdue [HB-1, HB-3]."""
        value = pulse.unlogged
        if value is not None and turn.now >= pulse.logged_at + HEARTBEAT_LOG_MS:
            _log(turn, call, pulse, value)
        if pulse.timeout_ms and turn.now >= pulse.seen_at + pulse.timeout_ms:
            return True
        self._watch(call, pulse)
        return False

    def _watch(self, call: Call, pulse: Pulse) -> None:
        due = []
        if pulse.timeout_ms:
            due.append(pulse.seen_at + pulse.timeout_ms)
        if pulse.unlogged is not None:
            due.append(pulse.logged_at + HEARTBEAT_LOG_MS)
        if due:
            self._deadlines.arm(HeartbeatDue(call.key), min(due))


def _log(turn: Turn, call: Call, pulse: Pulse, value: bytes) -> None:
    step = step_of(call)
    pulse.logged_at = turn.now
    pulse.unlogged = None
    turn.emit(call.run, HeartbeatReceived(step.step_execution_id, step.attempt, step.delivery, value))


def take_unlogged(call: Call) -> bytes | None:
    """Give the newest value if it is not in the log; it goes there with the end of the attempt [HB-3]."""
    return None if call.pulse is None else call.pulse.unlogged
