"""Folded state of a run as a snapshot, and back [ARCH-11].

A snapshot only saves folding: one that this release cannot read is ignored and the run folded from its events, so the
encoding may change freely as long as STATE_VERSION changes with it.
"""

import msgspec

from dexd.core.flow.state import RunState
from dexd.log.event_log import Snapshot

STATE_VERSION = 6
"""Raised with every change of RunState or of what it holds; a test compares the layout with the one it knows."""

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(RunState)


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
