"""Bytes that a document may have, handed out to what is put into it."""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

import msgspec

from dexd.codec.json_parts import Json, show_value

Item = TypeVar("Item")

VALUE_BYTES_MAX = 64 * 1024
"""Larger values are left out wherever they stand: the call that reads the one value gives it."""

ENTRY_BYTES = 8
"""What an entry of a list takes beside its content."""

_encode = msgspec.json.Encoder().encode


def bounded_value(value: bytes) -> Json:
    """Show a user's value, or how many bytes it has if it is large."""
    return {"omitted_bytes": len(value)} if len(value) > VALUE_BYTES_MAX else show_value(value)


class Budget:
    """Counts down; what does not fit any more is left out."""

    __slots__ = ("_left", "omitted")

    def __init__(self, bytes_max: int) -> None:
        self._left = bytes_max
        self.omitted: dict[str, int] = {}
        """Entries that were left out, by list."""

    def charge(self, size: int) -> None:
        """Take bytes for what is there in any case."""
        self._left -= size

    def value(self, value: bytes) -> Json:
        """Show a user's value, or how many bytes were left out."""
        size = len(value)
        if size > self._left:
            return {"omitted_bytes": size}
        self._left -= size
        return bounded_value(value)

    def values(self, values: Sequence[bytes]) -> list[Json]:
        """Show the first of the values, as many as fit."""
        shown: list[Json] = []
        for value in values:
            self._left -= ENTRY_BYTES
            if self._left < 0:
                break
            shown.append(self.value(value))
        return shown

    def entries(self, name: str, items: Collection[Item], show: Callable[[Item], Json]) -> list[Json]:
        """Show the first of the items, as many as fit, and count the rest under the name."""
        shown: list[Json] = []
        for item in items:
            entry = _encode(show(item))
            if len(entry) + ENTRY_BYTES > self._left:
                self.omitted[name] = self.omitted.get(name, 0) + len(items) - len(shown)
                break
            self._left -= len(entry) + ENTRY_BYTES
            shown.append(msgspec.Raw(entry))
        return shown
