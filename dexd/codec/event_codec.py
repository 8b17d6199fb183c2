"""Events to and from their stored form: type name, type version, msgpack payload [ARCH-9]."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from dexd.codec.upcast import EVENT_CHAIN, EVENT_VERSIONS, UnknownEventError
from dexd.core.events import EVENT_TYPES, Event
from dexd.core.ids import StreamId
from dexd.core.outcome import RecordedEvent, RecordedStreamEvent, StreamEvent
from dexd.core.streams import STREAM_EVENT_TYPES
from dexd.log.event_log import StoredEvent

Decoded = TypeVar("Decoded")

_encode = msgspec.msgpack.Encoder().encode
_NAMES: dict[type[Event | StreamEvent], tuple[str, int]] = {
    event_type: (event_type.__name__, EVENT_VERSIONS[event_type.__name__])
    for event_type in (*EVENT_TYPES, *STREAM_EVENT_TYPES)
}
_DECODERS: dict[str, msgspec.msgpack.Decoder[Event]] = {
    event_type.__name__: msgspec.msgpack.Decoder(event_type) for event_type in EVENT_TYPES
}
_STREAM_DECODERS: dict[str, msgspec.msgpack.Decoder[StreamEvent]] = {
    event_type.__name__: msgspec.msgpack.Decoder(event_type) for event_type in STREAM_EVENT_TYPES
}


def append_stored(rows: list[StoredEvent], events: Iterable[RecordedEvent | RecordedStreamEvent], last_seq: int) -> int:
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
    """Read a stored event of a run, of any version.

    Raises:
        UnknownEventError: the event was written by a newer release, or its payload is not of its type.
    """
    return RecordedEvent(StreamId(stored.stream_id), stored.version, stored.at, _decoded(stored, _DECODERS))


def stream_event_from_stored(stored: StoredEvent) -> RecordedStreamEvent:
    """Read a stored event of a stream that is not a run's, of any version. Raises as `from_stored`."""
    event = _decoded(stored, _STREAM_DECODERS)
    return RecordedStreamEvent(StreamId(stored.stream_id), stored.version, stored.at, event)


def is_of_run(stored: StoredEvent) -> bool:
    """Whether the event belongs to a run, whatever its version."""
    return stored.type not in _STREAM_DECODERS


def _decoded(stored: StoredEvent, decoders: Mapping[str, msgspec.msgpack.Decoder[Decoded]]) -> Decoded:
    name, payload = EVENT_CHAIN.upcast(stored.type, stored.type_version, stored.payload)
    decoder = decoders.get(name)
    if decoder is None:
        raise UnknownEventError(f"event {stored.seq} of type {stored.type!r} is in a stream of another kind")
    try:
        return decoder.decode(payload)
    except msgspec.DecodeError as error:
        raise UnknownEventError(f"event {stored.seq} of type {stored.type!r} cannot be read: {error}") from error
