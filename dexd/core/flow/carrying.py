"""What a run takes over from another one: everything but its own name and the numbering of its events [ROLL-3].

The whole state travels, so nothing can be forgotten: Step executions in every phase with attempts, deadlines, locals,
Waits and what is known of their SubFlows; counters, locks, skips, Channels, Attributes, outputs, remembered requests
and results, the mark of completion, the Flow's time. It goes into an event as MessagePack of the state; a state is an
array, so what older releases wrote lacks later fields at its end, and they get their defaults.
"""

import msgspec

from dexd.core.flow.state import RunState

_OWN = frozenset(("run_id", "stream_id", "version", "chain_id"))
"""What the new run has already: it is another run, and its events are numbered from 1."""

_TAKEN = tuple(field for field in RunState.__struct_fields__ if field not in _OWN)

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(RunState)


def to_carried(run: RunState) -> bytes:
    """Encode all that the run has now."""
    return _encode(run)


def from_carried(carried: bytes) -> RunState:
    """Decode the state that another run had; nothing of it is shared with anybody.

    Raises:
        TypeError: the bytes are no state.
    """
    try:
        return _decoder.decode(carried)
    except msgspec.DecodeError as error:
        raise TypeError(f"what the run before carried on cannot be read: {error}") from error


def take_over(run: RunState, carried: RunState) -> None:
    """Part of the fold: make the state of an earlier run that of this one, which has just begun.

    Versions count events of a run. What was numbered by those of the earlier run gets numbers before the first event of
    this one, in the same order: the age of Waits and requests [WAIT-10, LOCK-3] and the versions of snapshots. Message
    IDs count on over all of them [ID-13].
    """
    begun = carried.version
    for field in _TAKEN:
        setattr(run, field, getattr(carried, field))
    run.first_run_id = carried.execution_id
    run.message_base += begun
    for step in run.steps.values():
        step.wait_version -= begun
        step.ready_version -= begun
        step.dispatch_version -= begun
