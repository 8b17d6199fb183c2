"""Messages on their way into Channels: IDs and limits [ID-13, CHAN-10]."""

from collections.abc import Sequence

from dexd.core.config import PENDING_BYTES_MAX, PENDING_MESSAGES_MAX
from dexd.core.flow.state import RunState
from dexd.core.ids import MessageId
from dexd.core.rejections import Code, Rejection


def message_ids(run: RunState, count: int, *, now: int) -> list[MessageId]:
    """IDs for messages of the run's next event: unique in the run, and in text order of time.

    The instant leads for the eye; version and index make them unique, and order those of one instant.
    """
    version = run.message_base + run.version + 1
    return [MessageId(f"{now:011x}-{version:08x}-{index:05x}") for index in range(count)]


def refuse_overflow(run: RunState, values: Sequence[bytes]) -> Rejection | None:
    """[CHAN-10] Refuse what would take the execution's pending messages over a limit, naming size and limit."""
    count = run.pending_count + len(values)
    size = run.pending_bytes + sum(map(len, values))
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
