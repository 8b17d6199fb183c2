"""Deletions of pending messages, as commands and as events; see `builders`."""

from dexd.core import commands as c
from dexd.core import events as e
from dexd.core.ids import FlowId, MessageId, RequestId, RunId
from tests.support.builders import FLOW, digest, record


def delete_message(
    message_id: str,
    channel_name: str = "c",
    *,
    flow_id: str = FLOW,
    run_id: str | None = None,
    request_id: str = "r",
) -> c.DeleteMessage:
    run = None if run_id is None else RunId(run_id)
    request = RequestId(request_id)
    return c.DeleteMessage(FlowId(flow_id), run, channel_name, MessageId(message_id), request, digest(request_id))


def deleted(*ids: str, channel_name: str = "c", by: str = "", request_id: str | None = None) -> e.ChannelMessageDeleted:
    request = None if request_id is None else record(request_id)
    return e.ChannelMessageDeleted(channel_name, tuple(map(MessageId, ids)), by, request)
