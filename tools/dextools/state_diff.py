"""What differs between two states, as a list of places with what was there and what is [SURF-23]."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

import msgspec

_order = msgspec.json.Encoder(order="deterministic").encode


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """One difference; a value that is not given was, or is, not there."""

    path: str
    """JSON pointer. Elements of lists that came are counted in the list after, others in the one before."""
    before: Any = msgspec.UNSET
    after: Any = msgspec.UNSET


def changes(before: Any, after: Any, path: str = "") -> Iterator[Change]:
    """Compare two JSON documents; gives the smallest parts that differ, in the order of the documents."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            place = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
            yield from _member(before.get(key, msgspec.UNSET), after.get(key, msgspec.UNSET), place)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _elements(before, after, path)
    elif type(before) is not type(after) or before != after:
        yield Change(path, before, after)


def _member(before: Any, after: Any, path: str) -> Iterator[Change]:
    if before is msgspec.UNSET or after is msgspec.UNSET:
        yield Change(path, before, after)
    else:
        yield from changes(before, after, path)


def _elements(before: list[Any], after: list[Any], path: str) -> Iterator[Change]:
    """Lists are queues mostly, so what left at the front does not make all that follows different."""
    old, new = [_order(part) for part in before], [_order(part) for part in after]
    for tag, begin, end, new_begin, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        pairs = min(end - begin, new_end - new_begin)
        for offset in range(pairs):
            yield from changes(before[begin + offset], after[new_begin + offset], f"{path}/{begin + offset}")
        for index in range(begin + pairs, end):
            yield Change(f"{path}/{index}", before[index])
        for index in range(new_begin + pairs, new_end):
            yield Change(f"{path}/{index}", after=after[index])
