"""A Flow whose values are too large to travel inline, and how its workers move them [BLOB-1, BLOB-2].

What is large here are a few hundred bytes: the rules do not care.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from dexd.blobs.memory_store import MemoryBlobStore
from dexpb.v1 import frames
from dexpb.v1.blobs import is_reference, make_reference, read_reference
from dexsdk._blob_frames import values_of, with_values
from tests.simulation.answers import QUICK, Result, complete, decide, go_to, value, wait_for_channel

FLOW_TYPE = "Document"
THRESHOLD_BYTES = 64

FLOWS = (
    frames.FlowDescriptor(
        FLOW_TYPE, frames.StepDescriptor("Open", has_wait_for=False, options=QUICK), ("Open", "Collect")
    ),
)


def loaded(assign: frames.Assign, store: MemoryBlobStore) -> frames.Assign:
    """The call with its values themselves; whatever was handed out must be there [BLOB-4]."""

    def load(data: bytes) -> bytes:
        return fetch(data, store)

    return replace(
        assign,
        input=load(assign.input),
        attributes={key: load(data) for key, data in assign.attributes.items()},
        results=tuple(replace(result, values=tuple(map(load, result.values))) for result in assign.results),
    )


def fetch(data: bytes, store: MemoryBlobStore) -> bytes:
    """The value that the bytes stand for."""
    if not is_reference(data):
        return data
    reference = read_reference(data)
    found = store.read(reference.digest, 0, reference.size + 1)
    assert hashlib.sha256(found).digest() == reference.digest, f"{reference.name} has other bytes [BLOB-1]"
    return found


def offloaded(result: Result) -> tuple[Result, dict[bytes, bytes]]:
    """The result with references, and the values that they stand for, by reference."""
    if not isinstance(result, frames.Output):
        return result, {}
    values = values_of(result)
    large = {make_reference(data): data for data in values if len(data) > THRESHOLD_BYTES}
    by_value = {data: reference for reference, data in large.items()}
    return with_values(result, [by_value.get(data, data) for data in values]), large


def _open(assign: frames.Assign, _: Any) -> Result:
    """What came with the call goes into an Attribute."""
    return decide(assign, go_to(_collect_next()), writes=(("text", assign.input),))


def _collect_wait(assign: frames.Assign, _: Any) -> Result:
    return wait_for_channel(assign, "pages")


def _collect(assign: frames.Assign, _: Any) -> Result:
    page = json.loads(assign.results[0].values[0])
    text = json.loads(assign.attributes["text"])
    if page == "end":
        return decide(assign, complete(text))
    return decide(assign, go_to(_collect_next()), writes=(("text", value(text + page)),))


def _collect_next() -> frames.Movement:
    return frames.Movement("Collect", value(None), has_wait_for=True, options=QUICK)


HANDLERS: Mapping[tuple[str, str, int], Callable[[frames.Assign, Any], Result]] = {
    (FLOW_TYPE, "Open", frames.METHOD_EXECUTE): _open,
    (FLOW_TYPE, "Collect", frames.METHOD_WAIT_FOR): _collect_wait,
    (FLOW_TYPE, "Collect", frames.METHOD_EXECUTE): _collect,
}
