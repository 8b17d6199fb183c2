"""Old versions of events, read as today's [ARCH-9]. The log is never rewritten; every reader goes through here."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from dexd.core.events import EVENT_TYPES
from dexd.core.streams import STREAM_EVENT_TYPES
from dexd.log.errors import LogDamagedError

Fields: TypeAlias = list[Any]
"""An event's fields in their order, as decoded from the log without knowledge of its type."""

Upcaster: TypeAlias = Callable[[Fields], tuple[str, Fields]]
"""From one version of a type to the next, or to another type at its first version."""


class UnknownEventError(LogDamagedError):
    """The log holds an event that this release cannot read: it was written by a newer one, or is damaged."""


class UpcastChain:
    """Leads every version of every type to the current one, one step at a time."""

    def __init__(self, current: Mapping[str, int], steps: Mapping[tuple[str, int], Upcaster]) -> None:
        """`current` is the version written today per type; `steps` leads on from a (type, version)."""
        self._current = current
        self._steps = steps

    def upcast(self, type_name: str, version: int, payload: bytes) -> tuple[str, bytes]:
        """Give type and payload in the current version.

        Raises:
            UnknownEventError: no chain of steps leads from that version to the current one.
        """
        if self._current.get(type_name) == version:
            return type_name, payload
        fields = msgspec.msgpack.decode(payload)
        while self._current.get(type_name) != version:
            step = self._steps.get((type_name, version))
            if step is None:
                raise UnknownEventError(f"event type {type_name!r} version {version} is unknown to this release")
            previous, (type_name, fields) = type_name, step(fields)
            version = version + 1 if type_name == previous else 1
        return type_name, msgspec.msgpack.encode(fields)


EVENT_VERSIONS: Mapping[str, int] = {event_type.__name__: 1 for event_type in (*EVENT_TYPES, *STREAM_EVENT_TYPES)}
"""Version written today, per event type."""

UPCASTERS: Mapping[tuple[str, int], Upcaster] = {}
"""Steps from older versions; empty until a released event changes."""

EVENT_CHAIN = UpcastChain(EVENT_VERSIONS, UPCASTERS)
