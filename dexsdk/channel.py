"""Typed durable queues of one execution, and conditions on them [CHAN-1..7]."""

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from dexpb.v1 import frames
from dexsdk._call import Call
from dexsdk._durations import from_instant_ms
from dexsdk._instance_map import InstanceMap
from dexsdk._names import check_name
from dexsdk.condition import Condition
from dexsdk.context import Context
from dexsdk.errors import ValueTooLargeError
from dexsdk.results import PendingMessage

T = TypeVar("T")

PUBLICATIONS_MAX = 10_000
"""Publications in one response [LIM-2]."""

_BOUND_MAX = 2**63 - 1
"""Bounds travel as int64."""


class ChannelCondition(Condition):
    """Wants messages of one queue; made by the ``for_...`` methods and ``at_least``, ``at_most``."""

    def __init__(self, channel: "AnyChannel", frame: frames.Condition, condition_id: str | None) -> None:
        super().__init__(condition_id)
        self.channel = channel
        self._frame = frame

    def to_frame(self) -> frames.Condition:
        """Give the condition as it travels."""
        return self._frame


class Channel(Generic[T]):
    """A durable FIFO queue; a message goes to at most one wait."""

    def __init__(self, name: str, value_type: type[T]) -> None:
        """Define the queue; it is usable once it stands in the Flow's persistence schema [FLOW-4].

        Args:
            name: Unique among all definitions of the Flow.
            value_type: The only type its messages may have.
        """
        self.name = name
        self.value_type = value_type

    def publish(self, context: Context, value: T) -> None:
        """Append a message with the response, in call order [CHAN-2]."""
        _publish(context.open_call(), self, self.name, value)

    def size(self, context: Context) -> int:
        """Count the messages of the snapshot plus this call's publications minus its deletions [CHAN-7]."""
        return _size(context.open_call(), self, self.name)

    def pending(self, context: Context) -> list[PendingMessage[T]]:
        """List the messages that were there at hand-over and that nobody has consumed, oldest first [CHAN-8].

        Nothing is consumed. The first use in a call asks the server; what this call deleted is left out, and what it
        published has no ID yet.
        """
        return _pending(context.open_call(), self, self.name)

    def delete_message(self, context: Context, message_id: str) -> None:
        """Delete a pending message with the response [CHAN-8].

        An ID of no pending message changes nothing, except in a transactional RPC, where it refuses the whole call with
        ChannelMessageNotFoundError.
        """
        _delete(context.open_call(), self, self.name, message_id)

    def results(self, context: Context, condition_id: str | None = None) -> list[T]:
        """Give what this Step execution consumed, in queue order; of one condition if named [WAIT-11]."""
        return _results(context.open_call(), self, self.name, condition_id)

    def for_one(self, *, condition_id: str | None = None) -> ChannelCondition:
        """Need one message and take it."""
        return _condition(self, self.name, 1, 1, condition_id)

    def for_n(self, count: int, *, condition_id: str | None = None) -> ChannelCondition:
        """Need ``count`` messages, at least 1, and take as many."""
        return _condition(self, self.name, _count_of_n(count), count, condition_id)

    def at_least(self, count: int, *, condition_id: str | None = None) -> ChannelCondition:
        """Need ``count`` messages and take all."""
        return _condition(self, self.name, count, None, condition_id)

    def at_most(self, count: int, *, condition_id: str | None = None) -> ChannelCondition:
        """Need nothing and take up to ``count``: met at once, also by an empty queue."""
        return _condition(self, self.name, 0, count, condition_id)

    def for_range(
        self, *, at_least: int | None = None, at_most: int | None = None, condition_id: str | None = None
    ) -> ChannelCondition:
        """Need ``at_least`` (unset: nothing) and take up to ``at_most`` (unset: all); one must be given [CHAN-5]."""
        return _range_condition(self, self.name, at_least, at_most, condition_id)

    def key(self) -> str:
        """Give the key under which the queue travels."""
        return self.name


class ChannelMap(InstanceMap[T]):
    """One declared name with a queue per instance key; instances are independent [CHAN-6]."""

    def publish(self, context: Context, instance: str, value: T) -> None:
        """Append a message to an instance's queue with the response, in call order [CHAN-2]."""
        _publish(context.open_call(), self, self.key(instance), value)

    def size(self, context: Context, instance: str) -> int:
        """Count an instance's messages; see Channel [CHAN-7]."""
        return _size(context.open_call(), self, self.key(instance))

    def pending(self, context: Context, instance: str) -> list[PendingMessage[T]]:
        """List an instance's messages; see Channel [CHAN-8]."""
        return _pending(context.open_call(), self, self.key(instance))

    def delete_message(self, context: Context, instance: str, message_id: str) -> None:
        """Delete a pending message of an instance with the response; see Channel [CHAN-8]."""
        _delete(context.open_call(), self, self.key(instance), message_id)

    def results(self, context: Context, instance: str, condition_id: str | None = None) -> list[T]:
        """Give what this Step execution consumed from an instance, in queue order [WAIT-11]."""
        return _results(context.open_call(), self, self.key(instance), condition_id)

    def for_one(self, instance: str, *, condition_id: str | None = None) -> ChannelCondition:
        """Need one message and take it."""
        return _condition(self, self.key(instance), 1, 1, condition_id)

    def for_n(self, instance: str, count: int, *, condition_id: str | None = None) -> ChannelCondition:
        """Need ``count`` messages, at least 1, and take as many."""
        return _condition(self, self.key(instance), _count_of_n(count), count, condition_id)

    def at_least(self, instance: str, count: int, *, condition_id: str | None = None) -> ChannelCondition:
        """Need ``count`` messages and take all."""
        return _condition(self, self.key(instance), count, None, condition_id)

    def at_most(self, instance: str, count: int, *, condition_id: str | None = None) -> ChannelCondition:
        """Need nothing and take up to ``count``: met at once, also by an empty queue."""
        return _condition(self, self.key(instance), 0, count, condition_id)

    def for_range(
        self,
        instance: str,
        *,
        at_least: int | None = None,
        at_most: int | None = None,
        condition_id: str | None = None,
    ) -> ChannelCondition:
        """Need ``at_least`` (unset: nothing) and take up to ``at_most`` (unset: all); one must be given [CHAN-5]."""
        return _range_condition(self, self.key(instance), at_least, at_most, condition_id)

    def _keys(self, call: Call) -> Iterable[str]:
        keys = dict.fromkeys((*call.assign.channel_sizes, *(key for key, _ in call.publications)))
        return (key for key in keys if _length(call, key))


AnyChannel: TypeAlias = Channel[Any] | ChannelMap[Any]


def channel_key(channel: AnyChannel, *instance: str) -> str:
    """Give the key of a plain Channel, or of one instance of a map.

    Raises:
        ValueError: an instance key is missing, or given for a plain Channel.
    """
    if isinstance(channel, ChannelMap):
        if len(instance) != 1:
            raise ValueError(f"ChannelMap {channel.name!r} needs exactly one instance key")
        return channel.key(instance[0])
    if instance:
        raise ValueError(f"Channel {channel.name!r} is no map and takes no instance key")
    return channel.key()


def split_messages(channel: AnyChannel, arguments: Sequence[Any]) -> tuple[str, list[Any]]:
    """Split ``[instance], *values`` into the queue's key and at least one message [CHAN-2].

    Raises:
        ValueError: no message, or no instance key for a map.
    """
    if isinstance(channel, ChannelMap):
        if not arguments:
            raise ValueError(f"ChannelMap {channel.name!r} needs an instance key")
        key, values = channel.key(arguments[0]), arguments[1:]
    else:
        key, values = channel.key(), arguments
    if not values:
        raise ValueError(f"Channel {channel.name!r}: publish needs at least one value")
    return key, list(values)


def _publish(call: Call, channel: AnyChannel, key: str, value: Any) -> None:
    codec = call.scope.codec_of(channel)
    if len(call.publications) == PUBLICATIONS_MAX:
        raise ValueTooLargeError.of("publications", call.place, PUBLICATIONS_MAX + 1, PUBLICATIONS_MAX)
    call.publications.append((key, call.encode(codec, value, "Channel", channel.name)))


def _size(call: Call, channel: AnyChannel, key: str) -> int:
    call.scope.codec_of(channel)
    return _length(call, key)


def _length(call: Call, key: str) -> int:
    published = sum(1 for target, _ in call.publications if target == key)
    deleted = sum(1 for target, _ in call.deletions if target == key)
    return max(0, call.assign.channel_sizes.get(key, 0) - deleted) + published


def _pending(call: Call, channel: AnyChannel, key: str) -> list[PendingMessage[Any]]:
    codec = call.scope.codec_of(channel)
    return [
        PendingMessage(message_id, call.decode(codec, data, "Channel", channel.name), from_instant_ms(published_at))
        for message_id, data, published_at in call.pending(key)
    ]


def _delete(call: Call, channel: AnyChannel, key: str, message_id: str) -> None:
    call.scope.codec_of(channel)
    call.deletions[key, check_name(message_id, "message ID")] = None


def _results(call: Call, channel: AnyChannel, key: str, condition_id: str | None) -> list[Any]:
    codec = call.scope.codec_of(channel)
    consumed = [result for result in call.assign.results if result.channel == key and result.values]
    if condition_id is not None:
        consumed = [result for result in consumed if result.condition_id == condition_id]
    # Consumption went over the queue twice: every condition's minimum first, then the extras [WAIT-8].
    minimums = [data for result in consumed for data in result.values[: result.minimum]]
    extras = [data for result in consumed for data in result.values[result.minimum :]]
    return [call.decode(codec, data, "Channel", channel.name) for data in (*minimums, *extras)]


def _condition(
    channel: AnyChannel, key: str, at_least: int, at_most: int | None, condition_id: str | None
) -> ChannelCondition:
    _check_bound(channel, "lower", at_least)
    if at_most is not None:
        _check_bound(channel, "upper", at_most)
        if at_most < at_least:
            raise ValueError(f"Channel {channel.name!r}: at_most of {at_most} is below at_least of {at_least}")
    frame = frames.Condition(
        frames.CONDITION_CHANNEL, condition_id or "", channel=key, at_least=at_least, at_most=at_most
    )
    return ChannelCondition(channel, frame, condition_id)


def _range_condition(
    channel: AnyChannel, key: str, at_least: int | None, at_most: int | None, condition_id: str | None
) -> ChannelCondition:
    if at_least is None and at_most is None:
        raise ValueError(f"Channel {channel.name!r}: for_range needs at_least or at_most")
    return _condition(channel, key, 0 if at_least is None else at_least, at_most, condition_id)


def _count_of_n(count: int) -> int:
    if count == 0:
        raise ValueError("for_n needs a count of at least 1")
    return count


def _check_bound(channel: AnyChannel, which: str, bound: object) -> None:
    if isinstance(bound, bool) or not isinstance(bound, int) or not 0 <= bound <= _BOUND_MAX:
        raise ValueError(f"Channel {channel.name!r}: {which} bound is {bound!r}, an int of at least 0 is needed")
