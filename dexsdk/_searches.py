"""Searches as they travel, and what they find [SEARCH-7, SEARCH-8]."""

from collections.abc import Iterable
from typing import Any

import msgspec

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames
from dexsdk._attribute_indexing import INDEX_TYPES, from_microseconds
from dexsdk._replies import flow_info_fields
from dexsdk.attribute_index import IndexType
from dexsdk.results import FlowCount, SearchFlowEntry, SearchFlowsPage

PAGE_SIZE_MAX = 1_000

_JSON = msgspec.json.Decoder()


def to_index_keys(keys: Iterable[frames.IndexKey]) -> list[pb.IndexKey]:
    """Give keys as a client names them."""
    return [pb.IndexKey(key=entry.key, type=entry.type) for entry in keys]


def to_index_writes(writes: Iterable[frames.IndexWrite]) -> list[pb.IndexWrite]:
    """Give index values as a client writes them."""
    return [
        pb.IndexWrite(
            key=entry.key, type=entry.type, value=None if entry.value is None else msgspec.json.encode(entry.value)
        )
        for entry in writes
    ]


def to_page(body: bytes) -> SearchFlowsPage:
    """Read a page."""
    reply = pb.SearchFlowsReply.FromString(body)
    flows = [
        SearchFlowEntry(
            **flow_info_fields(found.info), indexed_attributes={entry.key: _value(entry) for entry in found.indexed}
        )
        for found in reply.flows
    ]
    return SearchFlowsPage(flows, reply.next_page_token)


def to_count(body: bytes) -> FlowCount:
    """Read a count."""
    reply = pb.CountFlowsReply.FromString(body)
    return FlowCount(reply.total, {group.value: group.flows for group in reply.groups})


def _value(entry: pb.IndexWrite) -> Any:
    value = _JSON.decode(entry.value)
    match INDEX_TYPES.get(entry.type):
        case IndexType.DATETIME:
            return from_microseconds(value)
        case IndexType.DOUBLE:
            return float(value)
        case _:
            return value
