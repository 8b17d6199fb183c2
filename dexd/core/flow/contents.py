"""What a run holds, as the fold changes it: Attributes, queued messages, who watches them, remembered requests.

Part of the fold: called by `evolve` only, and as silent and total as it is.
"""

from collections.abc import Iterable
from itertools import islice

from dexd.core.config import REQUESTS_REMEMBERED_MAX, REQUESTS_REMEMBERED_MS
from dexd.core.flow.state import RememberedRequest, RunState, StepExecution
from dexd.core.ids import MessageId, StepExecutionId
from dexd.core.values import Condition, ConditionKind, Message, RequestRecord


def write(state: RunState, writes: Iterable[tuple[str, bytes | None]]) -> None:
    """Set or delete Attributes, in order."""
    for key, value in writes:
        if value is None:
            state.attributes.pop(key, None)
        else:
            state.attributes[key] = value


def enqueue(state: RunState, channel: str, message: Message) -> None:
    """Append a message to a queue."""
    state.channels.setdefault(channel, []).append(message)
    state.pending_count += 1
    state.pending_bytes += len(message.value)


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
            state.pending_bytes -= len(message.value)
        if count == len(queue):
            del state.channels[channel]
        else:
            del queue[:count]
    return {index: tuple(taken[message_id] for message_id in message_ids) for index, message_ids in consumed}


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
    requests[record.request_id] = RememberedRequest(record, at)
    # Two per insertion keeps up with any rate: the oldest leave first, and one enters at a time.
    for request_id in list(islice(requests, 2)):
        if len(requests) > REQUESTS_REMEMBERED_MAX or requests[request_id].at < at - REQUESTS_REMEMBERED_MS:
            del requests[request_id]


def forget_skips(state: RunState, step_execution_id: StepExecutionId) -> None:
    """Nothing of the Step execution is to be skipped any more: it waits now, or never will."""
    state.skips.pop(step_execution_id, None)
