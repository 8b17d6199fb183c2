"""What running handlers fetch of their snapshot, piece by piece: large values and pending messages [ATTR-7, CHAN-8]."""

from itertools import islice

from dexd.core.commands import FetchPart
from dexd.core.config import FETCH_BYTES_MAX, FETCH_MESSAGES_MAX
from dexd.core.effects import DeliverPart
from dexd.core.flow.messages import count_before, position_after
from dexd.core.flow.withholding import lent_value
from dexd.core.matching.calls import Call
from dexd.core.values import Message


def part_for(call: Call | None, command: FetchPart) -> DeliverPart:
    """Answer one request of a handler whose delivery must be current."""
    if call is None:
        return DeliverPart(command.session, command.token, command.fetch, refusal="STALE")
    if command.is_channel:
        return _messages(call, command)
    value = _value(call, command.key)
    if value is None:
        return DeliverPart(command.session, command.token, command.fetch, refusal="NOT_WITHHELD")
    end = command.offset + FETCH_BYTES_MAX
    data = value[command.offset : end]
    return DeliverPart(command.session, command.token, command.fetch, data, has_more=end < len(value))


def _value(call: Call, key: str) -> bytes | None:
    if call.rpc is not None:
        return call.rpc.withheld.get(key)
    return None if call.step is None else lent_value(call.run, call.step, key)


def _messages(call: Call, command: FetchPart) -> DeliverPart:
    """Messages that were there at the hand-over and that nobody has consumed or deleted meanwhile."""
    run = call.run
    queue = run.channels.get(command.key, ())
    version = call.rpc.version if call.rpc is not None else 0 if call.step is None else call.step.dispatch_version
    last = count_before(run, queue, version)
    first = position_after(queue, command.after)
    chosen: list[Message] = []
    size = 0
    for message in islice(queue, first, min(last, first + FETCH_MESSAGES_MAX)):
        size += len(message.value)
        if chosen and size > FETCH_BYTES_MAX:
            break
        chosen.append(message)
    has_more = first + len(chosen) < last
    return DeliverPart(command.session, command.token, command.fetch, messages=tuple(chosen), has_more=has_more)
