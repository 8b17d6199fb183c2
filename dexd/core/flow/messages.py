"""Messages on their way into Channels and out again unconsumed: IDs, limits, deletion [ID-13, CHAN-8..10]."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter

from dexd.core.blobs import value_bytes
from dexd.core.config import PENDING_BYTES_MAX, PENDING_MESSAGES_MAX
from dexd.core.events import ChannelMessageDeleted
from dexd.core.flow.state import RunState
from dexd.core.ids import MessageId
from dexd.core.rejections import Code, Rejection
from dexd.core.values import Message

_message_id = attrgetter("message_id")


def message_ids(run: RunState, count: int, *, now: int, after: int = 0) -> list[MessageId]:
    """IDs for messages of the run's next event, or the one `after` so many: unique in the run, in text order of time.

    The instant leads for the eye; version and index make them unique, and order those of one instant.
    """
    version = run.message_base + run.version + 1 + after
    return [MessageId(f"{now:011x}-{version:08x}-{index:05x}") for index in range(count)]


def refuse_overflow(
    run: RunState, values: Sequence[bytes], deletions: Sequence[ChannelMessageDeleted] = ()
) -> Rejection | None:
    """[CHAN-10] Refuse what would take the execution's pending messages over a limit, naming size and limit.

    Deletions of the same response make room first [GEN-6].
    """
    freed = [message for deletion in deletions for message in _messages(run, deletion)]
    count = run.pending_count + len(values) - len(freed)
    size = run.pending_bytes + sum(map(value_bytes, values)) - sum(value_bytes(message.value) for message in freed)
    if count > PENDING_MESSAGES_MAX:
        return _overflow(run, "pending messages", count, PENDING_MESSAGES_MAX)
    if size > PENDING_BYTES_MAX:
        return _overflow(run, "bytes of pending messages", size, PENDING_BYTES_MAX)
    return None


def _overflow(run: RunState, what: str, size: int, limit: int) -> Rejection:
    return Rejection(
        Code.CHANNEL_FULL,
        f"Flow {run.flow_id!r} would have {size} {what}, the limit is {limit}",
        {"flow_id": run.flow_id, "what": what, "size": str(size), "limit": str(limit)},
    )


def position_of(queue: Sequence[Message], message_id: str) -> int | None:
    """Where the message stands in its queue, which is in the order of message IDs; None if it is not there."""
    position = bisect_left(queue, message_id, key=_message_id)
    return position if position < len(queue) and queue[position].message_id == message_id else None


def count_before(run: RunState, queue: Sequence[Message], version: int) -> int:
    """How many of a queue's messages came before the event of that version."""
    return bisect_left(queue, run.message_base + version, key=_version)


def _version(message: Message) -> int:
    return int(message.message_id.split("-")[1], 16)


def position_after(queue: Sequence[Message], message_id: str) -> int:
    """Where the messages begin that came after the one of that ID; it need not be there any more."""
    return bisect_right(queue, message_id, key=_message_id)


def decide_deletions(
    run: RunState, deletions: Iterable[tuple[str, str]], *, by: str
) -> tuple[list[ChannelMessageDeleted], list[tuple[str, str]]]:
    """Delete what a response names, each message once; also gives the pairs that name no pending message [CHAN-8]."""
    found: dict[str, list[MessageId]] = {}
    missing: list[tuple[str, str]] = []
    for channel, message_id in dict.fromkeys(deletions):
        if position_of(run.channels.get(channel, ()), message_id) is None:
            missing.append((channel, message_id))
        else:
            found.setdefault(channel, []).append(MessageId(message_id))
    return [ChannelMessageDeleted(channel, tuple(ids), by) for channel, ids in found.items()], missing


def refuse_missing(run: RunState, channel: str, message_id: str) -> Rejection:
    """The Channel has no such pending message."""
    return Rejection(
        Code.CHANNEL_MESSAGE_NOT_FOUND,
        f"Channel {channel!r} of Flow {run.flow_id!r} has no pending message {message_id!r}",
        {"flow_id": run.flow_id, "channel": channel, "message_id": message_id},
    )


def _messages(run: RunState, deletion: ChannelMessageDeleted) -> Iterable[Message]:
    queue = run.channels[deletion.channel]
    positions = [position_of(queue, message_id) for message_id in deletion.message_ids]
    return [queue[position] for position in positions if position is not None]
