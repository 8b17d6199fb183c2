"""What the kernel may ask the shell to look up in the log before it decides about a command [ARCH-11]."""

from typing import TypeAlias

import msgspec

from dexd.core import commands as c
from dexd.core.ids import FlowId, RunId, StreamId
from dexd.core.jobs.commands import ReachTarget
from dexd.core.streams import StreamKind


class RunRef(msgspec.Struct, frozen=True):
    """Asks the shell for the newest run of a chain."""

    run_id: RunId
    """First run of the chain."""


class StreamRef(msgspec.Struct, frozen=True):
    """Asks the shell for the newest stream of a kind and name that is not a run's."""

    kind: StreamKind
    name: str


class RunRefs(msgspec.Struct, frozen=True):
    """Asks the shell for the newest runs of several chains."""

    run_ids: tuple[RunId, ...]


class FiresRef(msgspec.Struct, frozen=True):
    """Asks the shell for the next fires of a schedule, before anything else is decided about it."""

    stream_id: StreamId


WantedRuns: TypeAlias = FlowId | RunRef | RunRefs | c.StartFlow | c.ReachSubFlow
"""Runs that a command needs of the log."""

Wanted: TypeAlias = WantedRuns | StreamRef | FiresRef | ReachTarget
"""Anything that the shell may be asked for."""
