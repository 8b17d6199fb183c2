"""The fence of the log: a batch is appended only where its author believed the log to end [ARCH-15]."""

from operator import attrgetter

from dexd.log.errors import SequenceConflictError
from dexd.log.event_log import Batch

_SEQ_OF = attrgetter("seq")


def check_continuity(batch: Batch, last_seq: int) -> None:
    """Refuse a batch that does not continue the log without a gap.

    Raises:
        SequenceConflictError: another writer has appended, or the events are not numbered from there.
    """
    if batch.expected_seq != last_seq:
        raise SequenceConflictError(f"the batch follows event {batch.expected_seq}, the log ends at {last_seq}")
    if list(map(_SEQ_OF, batch.events)) == list(range(last_seq + 1, last_seq + 1 + len(batch.events))):
        return
    for seq, event in enumerate(batch.events, last_seq + 1):
        if event.seq != seq:
            raise SequenceConflictError(f"event {event.version} of stream {event.stream_id} has {event.seq}, not {seq}")
