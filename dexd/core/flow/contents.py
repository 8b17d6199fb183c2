"""What a run holds, as the fold changes it: Attributes, queued messages, who watches them, remembered requests.

Part of the fold: called by `evolve` only, and as silent and total as it is.
"""

from collections.abc import Iterable
from itertools import islice

from dexd.core.blobs import value_bytes
from dexd.core.config import REQUESTS_REMEMBERED_MAX, REQUESTS_REMEMBERED_MS
from dexd.core.flow.messages import position_of
from dexd.core.flow.state import RememberedRequest, RunState, StepExecution
from dexd.core.flow.withholding import keep_for_readers, take_back
from dexd.core.ids import MessageId, StepExecutionId
from dexd.core.index_values import IndexWrite
from dexd.core.values import Condition, ConditionKind, Message, RequestRecord


def write(state: RunState, writes: Iterable[tuple[str, bytes | None]], indexed: tuple[IndexWrite, ...]) -> None:
    """Set or delete Attributes and their index values, in order."""
    if indexed:
        index(state, indexed)
    attributes = state.attributes
    for key, value in writes:
        old = attributes.get(key)
        if old is not None:
            state.attribute_bytes -= len(old)
            if state.lending:
                keep_for_readers(state, key, old)
        if value is not None:
            attributes[key] = value
            state.attribute_bytes += len(value)
        elif old is not None:
            del attributes[key]


def index(state: RunState, indexed: Iterable[IndexWrite]) -> None:
    """Set or delete index values; of several writes to one key the last one counts [ATTR-9]."""
    for entry in indexed:
        if entry.value is None:
            state.indexed.pop(entry.key, None)
        else:
            state.indexed[entry.key] = entry


def enqueue(state: RunState, channel: str, message: Message) -> None:
    """Append a message to a queue."""
    state.channels.setdefault(channel, []).append(message)
    state.pending_count += 1
    state.pending_bytes += value_bytes(message.value)


def dequeue(
    state: RunState, conditions: tuple[Condition, ...], consumed: Iterable[tuple[int, tuple[MessageId, ...]]]
) -> dict[int, tuple[bytes, ...]]:
    """Take the consumed messages, which are the oldest of each queue, and give each condition its share."""
    wanted: dict[str, int] = {}
    for index, message_ids in consumed:
        channel = conditions[index].channel
        wanted[channel] = wanted.get(channel, 0) + len(message_ids)
    taken: dict[str, bytes] = {}
    for channel, count in wanted.items():
        queue = state.channels[channel]
        for message in queue[:count]:
            taken[message.message_id] = message.value
            state.pending_count -= 1
            state.pending_bytes -= value_bytes(message.value)
        if count == len(queue):
            del state.channels[channel]
        else:
            del queue[:count]
    return {index: tuple(taken[message_id] for message_id in message_ids) for index, message_ids in consumed}


def delete_message(state: RunState, channel: str, message_id: MessageId) -> None:
    """Take one message out of its queue, wherever it stands."""
    queue = state.channels[channel]
    position = position_of(queue, message_id)
    assert position is not None, "only pending messages are deleted"
    message = queue.pop(position)
    state.pending_count -= 1
    state.pending_bytes -= value_bytes(message.value)
    if not queue:
        del state.channels[channel]


def watched_channels(conditions: Iterable[Condition]) -> Iterable[str]:
    """Channels that conditions wait for, each once."""
    return dict.fromkeys(c.channel for c in conditions if c.kind is ConditionKind.CHANNEL)


def unwatch(state: RunState, step: StepExecution) -> None:
    """The Step execution waits no more."""
    if step.wait is None:
        return
    for channel in watched_channels(step.wait.conditions):
        waiting = state.watchers[channel]
        del waiting[step.step_execution_id]
        if not waiting:
            del state.watchers[channel]


def remember(state: RunState, record: RequestRecord, at: int) -> None:
    """Keep a request's answer, and forget what is too old or too many [RPC-12]."""
    requests = state.requests
    requests.pop(record.request_id, None)  # applied again after a time travel, it is the newest one [TT-5]
    requests[record.request_id] = RememberedRequest(record, at)
    # Two per insertion keeps up with any rate: the oldest leave first, and one enters at a time.
    for request_id in list(islice(requests, 2)):
        if len(requests) > REQUESTS_REMEMBERED_MAX or requests[request_id].at < at - REQUESTS_REMEMBERED_MS:
            del requests[request_id]


def forget_skips(state: RunState, step_execution_id: StepExecutionId) -> None:
    """Nothing of the Step execution is to be skipped any more: it waits now, or never will."""
    state.skips.pop(step_execution_id, None)


def lock(state: RunState, step: StepExecution) -> None:
    """The Step execution's method has all its locks from now on [LOCK-2]."""
    for key in step.lock_keys():
        state.locks[key] = step.step_execution_id


def unlock(state: RunState, step: StepExecution) -> None:
    """The Step execution's method has none of its locks any more [LOCK-2]."""
    for key in step.lock_keys():
        if state.locks.get(key) == step.step_execution_id:
            del state.locks[key]


def let_go(state: RunState, step: StepExecution) -> None:
    """The Step execution's method has ended: it locks nothing and reads nothing any more."""
    unlock(state, step)
    take_back(state, step)
