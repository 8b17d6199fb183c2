"""Folded state of a run as a snapshot, and back [ARCH-11].

A snapshot only saves folding: one that this release cannot read is ignored and the run folded from its events, so the
encoding may change freely as long as STATE_VERSION changes with it.
"""

import msgspec

from dexd.core.flow.state import RunState
from dexd.core.streams import STREAM_STATE_TYPES, StreamKind, StreamState, summary_of
from dexd.log.event_log import Snapshot

STATE_VERSION = 8
"""Raised with every change of RunState or of what it holds; a test compares the layout with the one it knows."""

STREAM_STATE_VERSIONS: dict[StreamKind, int] = {StreamKind.SCHEDULE: 3, StreamKind.JOB: 1}
"""The same for states of streams that are not runs'."""

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(RunState)
_stream_decoders: dict[StreamKind, msgspec.msgpack.Decoder[StreamState]] = {
    kind: msgspec.msgpack.Decoder(state_type) for kind, state_type in STREAM_STATE_TYPES.items()
}


def to_snapshot(run: RunState) -> Snapshot:
    """Encode the state as it is now."""
    return Snapshot(run.stream_id, run.version, STATE_VERSION, _encode(run))


def from_snapshot(snapshot: Snapshot) -> RunState | None:
    """Decode a snapshot; None if this release cannot."""
    if snapshot.state_version != STATE_VERSION:
        return None
    try:
        return _decoder.decode(snapshot.payload)
    except msgspec.DecodeError:
        return None


def to_stream_snapshot(state: StreamState) -> Snapshot:
    """Encode the state of a stream that is not a run's, as it is now."""
    return Snapshot(state.stream_id, state.version, STREAM_STATE_VERSIONS[summary_of(state).kind], _encode(state))


def stream_from_snapshot(kind: StreamKind, snapshot: Snapshot) -> StreamState | None:
    """Decode a snapshot of a stream that is not a run's; None if this release cannot."""
    if snapshot.state_version != STREAM_STATE_VERSIONS[kind]:
        return None
    try:
        return _stream_decoders[kind].decode(snapshot.payload)
    except msgspec.DecodeError:
        return None
