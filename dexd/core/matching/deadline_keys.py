"""What of the matching can have a deadline."""

from typing import NamedTuple, TypeAlias

import msgspec

from dexd.core.ids import SessionId, StreamId, WorkerId
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


class AgeDue(msgspec.Struct, frozen=True):
    """Deadline key: the session is old, or was asked long ago to go. No tuple, as it would equal others."""

    session_id: SessionId


class FireDue(msgspec.Struct, frozen=True):
    """Deadline key: a schedule fires. A struct, because a tuple of a number would be the key of a session, too."""

    stream_id: StreamId


class TurnDue(msgspec.Struct, frozen=True):
    """Deadline key: the next targets of a batch job have their turn. No tuple, as it would equal others."""

    stream_id: StreamId


DeadlineKey: TypeAlias = CallKey | PingDue | AgeDue | HoldDue | HeartbeatDue | FireDue | TurnDue
