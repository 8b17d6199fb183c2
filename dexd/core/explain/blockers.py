"""What can keep an active Step from getting on, and how it is said [HIST-6]."""

from datetime import UTC, datetime
from enum import IntEnum

import msgspec

from dexd.core.flow.state import StepExecution
from dexd.core.ids import StepExecutionId
from dexd.core.values import Method

DETAIL_LENGTH_MAX = 200
"""How much of an error's detail a text quotes; live state has all of it."""

INSTANT_MS_MAX = 253_402_300_799_999
"""The last instant that has a date of its own."""


class BlockerKind(IntEnum):
    """Why a Step execution does not get on."""

    NO_WORKER = 1
    """No connected worker knows the Flow type, or the Step type."""
    WORKERS_BUSY = 2
    """Workers that know it are there, and none has room."""
    LIMIT = 3
    """A limit has no room before `until`."""
    CHANNEL = 4
    """The Wait needs more messages than its Channel holds."""
    TIMER = 5
    """The Wait's Timer is not due before `until`."""
    RETRY = 6
    """The next attempt is at `until`."""
    SUBFLOW = 7
    """A child of the Wait has not ended."""
    LOCK = 8
    """Another call holds an Attribute lock, or asked for it earlier."""
    RUNNING = 9
    """A worker runs the handler, until `until` at most."""
    START_DELAY = 10
    """The start was delayed to `until`."""
    NO_STEPS = 11
    """There is no active Step: the Flow waits for RPCs and for its end, or is closed."""


class Blocker(msgspec.Struct, frozen=True, gc=False):
    """One reason. Instants are milliseconds since the epoch; 0 is unknown."""

    step_execution_id: StepExecutionId
    """Empty for NO_STEPS."""
    kind: BlockerKind
    text: str
    """For people; the other fields are for programs."""
    since: int = 0
    until: int = 0


class Explanation(msgspec.Struct, frozen=True):
    """Blockers in the order in which their Step executions were scheduled."""

    blockers: tuple[Blocker, ...]
    omitted_steps: int = 0
    """Step executions that are not explained because there are too many."""


def instant_text(at: int) -> str:
    """An instant as RFC 3339 in UTC."""
    seconds, milliseconds = divmod(min(at, INSTANT_MS_MAX), 1_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"


def method_name(step: StepExecution) -> str:
    """What the Step's handler is called in code."""
    return "wait_for" if step.method is Method.WAIT_FOR else "execute"


def quoted(detail: str) -> str:
    """The beginning of an error's detail, on one line."""
    line = " ".join(detail.split())
    return line if len(line) <= DETAIL_LENGTH_MAX else f"{line[: DETAIL_LENGTH_MAX - 3]}..."
