"""What simulated handlers answer, as wire results."""

import json
from typing import Any, TypeAlias

from dexpb.v1 import frames

Result: TypeAlias = frames.Output | frames.Failed

QUICK = frames.StepOptions(
    execute_retry=frames.RetryPolicy(initial_interval_ms=200, maximum_interval_ms=5_000, jitter=0.2),
    wait_for_retry=frames.RetryPolicy(initial_interval_ms=200, maximum_interval_ms=5_000),
)
DEAD_END = frames.Decision(frames.DECISION_DEAD_END)


def value(content: Any) -> bytes:
    """A value as it travels."""
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def fail(assign: frames.Assign, detail: str) -> Result:
    """Fail a call."""
    return frames.Failed(assign.stream, assign.token, frames.Failure("SimulatedError", detail))


def decide(assign: frames.Assign, decision: frames.Decision, **effects: Any) -> Result:
    """What execute returns."""
    return frames.Output(assign.stream, assign.token, decision=decision, **effects)


def go_to(*movements: frames.Movement) -> frames.Decision:
    """Schedule Steps."""
    return frames.Decision(frames.DECISION_GO_TO, movements)


def complete(output: Any) -> frames.Decision:
    """Complete when nothing else runs."""
    return frames.Decision(frames.DECISION_GRACEFUL_COMPLETE, output=value(output))


def force_fail(reason: str) -> frames.Decision:
    """Fail the Flow at once."""
    return frames.Decision(frames.DECISION_FORCE_FAIL, reason=reason)


def wait_for_channel(assign: frames.Assign, channel: str, *, at_least: int = 1, at_most: int = 1) -> Result:
    """What wait_for returns to wait for messages."""
    condition = frames.Condition(frames.CONDITION_CHANNEL, channel=channel, at_least=at_least, at_most=at_most)
    return frames.Output(assign.stream, assign.token, wait=frames.Wait(frames.WAIT_ALL_OF, (condition,)))
