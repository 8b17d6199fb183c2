"""What search finds an Attribute by that `dex` sets: nobody here has the Flow's code, but the Flow has its index."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from dexpb.v1 import flow_service_pb2 as pb
from dextools.cli.connection import Connection
from dextools.cli.errors import CommandError, usage_error

LOOKED_AT_MAX = 1_000
"""Flows of a query that are looked at for what they have indexed."""

_DATETIME = 7
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def index_writes(
    connection: Connection, flow_id: str, key: str, value: bytes, *, is_named: bool
) -> Sequence[pb.IndexWrite]:
    """The index value that goes with a JSON value; none if the Flow has nothing indexed under the key.

    Raises:
        CommandError: the caller named a key under which the Flow has nothing.
    """
    quoted = flow_id.replace("'", "''")
    reply = connection.call(connection.flows.SearchFlows, pb.SearchFlowsRequest(query=f"FlowId = '{quoted}'"))
    indexed = {entry.key: entry.type for found in reply.flows[:1] for entry in found.indexed}
    if key not in indexed:
        if is_named:
            known = ", ".join(sorted(indexed)) or "none"
            raise usage_error(f"Flow {flow_id!r} has nothing indexed under {key!r}; its keys are: {known}")
        return ()
    return (_write(key, indexed[key], value),)


def index_writes_of_query(
    connection: Connection, query: str, key: str, value: bytes, *, is_named: bool
) -> Sequence[pb.IndexWrite]:
    """The index value that goes with a JSON value for all Flows that a query finds.

    A key that the caller names is written in any case, with the type that it has on the server. Without a name, the
    key is written if one of the first `LOOKED_AT_MAX` Flows has something indexed under it, and none if not.

    Raises:
        CommandError: the caller named a key that no Flow has anything indexed under, or the query is not valid.
    """
    if is_named:
        types = _types_of_key(connection, key)
        if not types:
            raise usage_error(f"no Flow has anything indexed under {key!r}")
    else:
        request = pb.SearchFlowsRequest(query=query, page_size=LOOKED_AT_MAX)
        types = _types_in(connection.call(connection.flows.SearchFlows, request), key)
    return tuple(_write(key, type_, value) for type_ in types[:1])


def _types_of_key(connection: Connection, key: str) -> Sequence[int]:
    quoted = key.replace("`", "``")
    request = pb.SearchFlowsRequest(query=f"`{quoted}` IS NOT NULL", page_size=1)
    try:
        return _types_in(connection.call(connection.flows.SearchFlows, request), key)
    except CommandError as error:
        if error.code == "INVALID_QUERY":
            return ()
        raise


def _types_in(reply: pb.SearchFlowsReply, key: str) -> Sequence[int]:
    return [entry.type for found in reply.flows for entry in found.indexed if entry.key == key]


def _write(key: str, type_: int, value: bytes) -> pb.IndexWrite:
    if value == b"null":
        return pb.IndexWrite(key=key, type=type_)
    return pb.IndexWrite(key=key, type=type_, value=_microseconds(value) if type_ == _DATETIME else value)


def _microseconds(value: bytes) -> bytes:
    instant = msgspec.json.decode(value, type=datetime)
    return b"%d" % ((instant - _EPOCH) // timedelta(microseconds=1))
