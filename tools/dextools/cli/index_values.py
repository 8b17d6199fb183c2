"""What search finds an Attribute by that `dex` sets: nobody here has the Flow's code, but the Flow has its index."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from dexpb.v1 import flow_service_pb2 as pb
from dextools.cli.connection import Connection
from dextools.cli.errors import usage_error

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
    if value == b"null":
        return (pb.IndexWrite(key=key, type=indexed[key]),)
    is_instant = indexed[key] == _DATETIME
    return (pb.IndexWrite(key=key, type=indexed[key], value=_microseconds(value) if is_instant else value),)


def _microseconds(value: bytes) -> bytes:
    instant = msgspec.json.decode(value, type=datetime)
    return b"%d" % ((instant - _EPOCH) // timedelta(microseconds=1))
