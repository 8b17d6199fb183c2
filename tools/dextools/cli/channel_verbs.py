"""Verbs of `dex flow channel`: list the messages that wait in a Channel, delete one of them [CHAN-9]."""

from typing import Annotated

import typer

from dexpb.v1 import flow_service_pb2 as pb
from dextools.cli.connection import Connection
from dextools.cli.flow_reads import PAGE_SIZE, FlowId, RunId
from dextools.cli.flow_writes import Instance, RequestId
from dextools.cli.invocation import Invocation, verb
from dextools.cli.output import text_of
from dextools.cli.values import definition_key, shown
from dextools.terminal_text import instant_text, table

ChannelName = Annotated[str, typer.Argument(metavar="CHANNEL", help="Channel name.", show_default=False)]


def add_channel_verbs(app: typer.Typer) -> None:
    """Register the verbs."""
    verb(app, "list")(list_messages)
    verb(app, "delete")(delete_message)


def list_messages(
    call: Invocation,
    flow_id: FlowId,
    channel: ChannelName,
    instance: Instance = None,
    run_id: RunId = "",
    limit: Annotated[int, typer.Option(help="Messages at most.", min=1)] = 100,
) -> None:
    """List the messages that nobody has consumed, oldest first."""
    request = pb.ListChannelMessagesRequest(flow_id=flow_id, run_id=run_id, channel=definition_key(channel, instance))
    with call.connection() as connection:
        messages, has_more = _read(connection, request, limit)
    rows = [
        {"message_id": message.message_id, "published_at": message.published_at, "value": shown(message.value)}
        for message in messages
    ]
    document = {"flow_id": flow_id, "messages": rows, "more": has_more}
    human = (
        (message.message_id, instant_text(message.published_at), text_of(bytes(shown(message.value)).decode()))
        for message in messages
    )
    call.output.answer(document, table("message_id", "published_at", "value", rows=human))


def delete_message(
    call: Invocation,
    flow_id: FlowId,
    channel: ChannelName,
    message_id: Annotated[
        str, typer.Argument(metavar="MESSAGE", help="Message ID, as `list` shows it.", show_default=False)
    ],
    instance: Instance = None,
    run_id: RunId = "",
    request_id: RequestId = "",
) -> None:
    """Delete one message that nobody has consumed."""
    request = pb.DeleteChannelMessageRequest(
        flow_id=flow_id,
        run_id=run_id,
        channel=definition_key(channel, instance),
        message_id=message_id,
        request_id=request_id,
    )
    with call.connection() as connection:
        connection.call(connection.flows.DeleteChannelMessage, request)
    call.output.fields({"deleted": message_id})


def _read(
    connection: Connection, request: pb.ListChannelMessagesRequest, limit: int
) -> tuple[list[pb.PendingMessage], bool]:
    messages: list[pb.PendingMessage] = []
    while True:
        request.page_size = min(PAGE_SIZE, limit - len(messages))
        page = connection.call(connection.flows.ListChannelMessages, request)
        messages.extend(page.messages)
        if not page.has_more or len(messages) == limit:
            return messages, page.has_more
        request.after_message_id = messages[-1].message_id
