"""What a log consists of: events by type, and the runs that take most of it [SURF-23]."""

from collections.abc import Callable

import msgspec

from dexd.codec.event_codec import from_stored
from dexd.core.events import FlowStarted
from dexd.log.event_log import EventLog
from dextools.log_inspection import PAGE_EVENTS


class TypeShare(msgspec.Struct):
    """All events of one type."""

    type: str
    events: int = 0
    bytes: int = 0
    """Of their payloads."""


class StreamShare(msgspec.Struct):
    """All events of one run."""

    flow_id: str = ""
    """Empty if the stream is not a run's."""
    run_id: str = ""
    stream_id: int = 0
    events: int = 0
    bytes: int = 0


class LogStatistics(msgspec.Struct, frozen=True):
    """The whole log."""

    events: int
    bytes: int
    streams: int
    first_at: int
    """0 for an empty log."""
    last_at: int
    types: list[TypeShare]
    """The one with most bytes first."""
    largest: list[StreamShare]
    """The one with most bytes first."""


def log_statistics(log: EventLog, largest: int, advance: Callable[[int], None]) -> LogStatistics:
    """Read every event once; `advance` is told now and then how many more were read."""
    types: dict[str, TypeShare] = {}
    streams: dict[int, StreamShare] = {}
    first_at, seq = 0, 1
    while page := log.read_all(seq, PAGE_EVENTS):
        first_at = first_at or page[0].at
        for stored in page:
            stream = streams.get(stored.stream_id)
            if stream is None:
                stream = streams[stored.stream_id] = StreamShare(stream_id=stored.stream_id)
            kind = types.setdefault(stored.type, TypeShare(stored.type))
            for share in (stream, kind):
                share.events += 1
                share.bytes += len(stored.payload)
        seq = page[-1].seq + 1
        advance(len(page))
    top = sorted(streams.values(), key=_bytes, reverse=True)[:largest]
    for share in top:
        _name(log, share)
    kinds = sorted(types.values(), key=_bytes, reverse=True)
    count, size = sum(kind.events for kind in kinds), sum(kind.bytes for kind in kinds)
    return LogStatistics(count, size, len(streams), first_at, log.last_at, kinds, top)


def _bytes(share: TypeShare | StreamShare) -> int:
    return share.bytes


def _name(log: EventLog, share: StreamShare) -> None:
    """Say whose the stream is."""
    for stored in log.read_stream(share.stream_id, 1, 1, (FlowStarted.__name__,)):
        started = from_stored(stored).event
        assert isinstance(started, FlowStarted)
        share.flow_id, share.run_id = started.flow_id, started.run_id
