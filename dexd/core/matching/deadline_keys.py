"""What of the matching can have a deadline."""

from typing import NamedTuple, TypeAlias

from dexd.core.ids import SessionId, WorkerId
from dexd.core.matching.calls import CallKey


class PingDue(NamedTuple):
    """Deadline key: the session wants a Ping, or owes a Pong."""

    session_id: SessionId


class HoldDue(NamedTuple):
    """Deadline key: offers to a worker that said NO_CAPACITY may go out again."""

    worker_id: WorkerId


class HeartbeatDue(NamedTuple):
    """Deadline key: a call's heartbeat is overdue, or the value of one is to be recorded."""

    call_key: CallKey


DeadlineKey: TypeAlias = CallKey | PingDue | HoldDue | HeartbeatDue
