"""Events to and from their stored form: type name, type version, msgpack payload [ARCH-9]."""

from collections.abc import Iterable

import msgspec

from dexd.codec.upcast import EVENT_CHAIN, EVENT_VERSIONS, UnknownEventError
from dexd.core.events import EVENT_TYPES, Event
from dexd.core.ids import StreamId
from dexd.core.outcome import RecordedEvent
from dexd.log.event_log import StoredEvent

_encode = msgspec.msgpack.Encoder().encode
_NAMES: dict[type[Event], tuple[str, int]] = {
    event_type: (event_type.__name__, EVENT_VERSIONS[event_type.__name__]) for event_type in EVENT_TYPES
}
_DECODERS: dict[str, msgspec.msgpack.Decoder[Event]] = {
    event_type.__name__: msgspec.msgpack.Decoder(event_type) for event_type in EVENT_TYPES
}


def append_stored(rows: list[StoredEvent], events: Iterable[RecordedEvent], last_seq: int) -> int:
    """Append events to `rows` in their stored form, numbered from after `last_seq` on; gives the last number."""
    for recorded in events:
        last_seq += 1
        event = recorded.event
        name, version = _NAMES[type(event)]
        rows.append(
            StoredEvent(last_seq, recorded.stream_id, recorded.version, recorded.at, name, version, _encode(event))
        )
    return last_seq


def from_stored(stored: StoredEvent) -> RecordedEvent:
    """Read a stored event of any version.

    Raises:
        UnknownEventError: the event was written by a newer release, or its payload is not of its type.
    """
    name, payload = EVENT_CHAIN.upcast(stored.type, stored.type_version, stored.payload)
    try:
        event = _DECODERS[name].decode(payload)
    except msgspec.DecodeError as error:
        raise UnknownEventError(f"event {stored.seq} of type {stored.type!r} cannot be read: {error}") from error
    return RecordedEvent(StreamId(stored.stream_id), stored.version, stored.at, event)
