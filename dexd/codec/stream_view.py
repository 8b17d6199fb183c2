"""Events of streams that are not runs' as people and programs read them: kind and a JSON object."""

import msgspec

from dexd.codec.json_parts import show_struct
from dexd.codec.views import HistoryEntry
from dexd.core.ids import RunId
from dexd.core.outcome import RecordedStreamEvent

_encoder = msgspec.json.Encoder()


def show_stream_event(recorded: RecordedStreamEvent) -> HistoryEntry:
    """Show one event; it belongs to no run."""
    event = recorded.event
    return HistoryEntry(
        recorded.version, RunId(""), recorded.at, type(event).__name__, _encoder.encode(show_struct(event))
    )
