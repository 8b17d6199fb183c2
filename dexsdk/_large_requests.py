"""Requests that carry values: large ones are uploaded first, and loaded where answers refer to them [BLOB-2]."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1.blobs import THRESHOLD_BYTES_MIN, is_reference
from dexsdk._codec import Codec, decode_value
from dexsdk._conversation import Conversation, Load, Offload, Request, ask
from dexsdk.errors import DexServiceError

Reply = TypeVar("Reply")

Carrying: TypeAlias = pb.StartFlowRequest | pb.InvokeRpcRequest | pb.SetAttributeRequest | pb.PublishRequest

BLOB_NOT_UPLOADED = "BLOB_NOT_UPLOADED"
"""The server knows nothing of an upload any more, e.g. because the request lay around for a day."""


def ask_carrying(message: Carrying, make_request: Callable[[bytes], Request[Reply]]) -> Conversation[Reply]:
    """Ask with a message that carries values; `make_request` takes the message's bytes."""
    body = message.SerializeToString()
    # Most messages are small as a whole, which is seen without a look at their values.
    if len(body) <= THRESHOLD_BYTES_MIN:
        return ask(make_request(body))
    values = _values_of(message)
    if not any(len(value) > THRESHOLD_BYTES_MIN for value in values):
        return ask(make_request(body))
    return _ask_offloaded(message, values, make_request)


def load(value: bytes) -> Conversation[bytes]:
    """Give the value that the bytes of an answer stand for."""
    if is_reference(value):
        loaded = yield Load(value)
        assert isinstance(loaded, bytes), "a Load is answered"
        return loaded
    return value


def _ask_offloaded(
    message: Carrying, values: Sequence[bytes], make_request: Callable[[bytes], Request[Reply]]
) -> Conversation[Reply]:
    is_repeated = False
    while True:
        offloaded = yield Offload(values)
        assert isinstance(offloaded, list), "an Offload is answered"
        _put_values(message, offloaded)
        try:
            return (yield from ask(make_request(message.SerializeToString())))
        except DexServiceError as error:
            if is_repeated or error.sub_status != BLOB_NOT_UPLOADED:
                raise
        is_repeated = True


def _values_of(message: Carrying) -> Sequence[bytes]:
    match message:
        case pb.StartFlowRequest():
            return [message.input, *(attribute.value for attribute in message.attributes)]
        case pb.PublishRequest():
            return message.values
        case pb.SetAttributeRequest():
            return [message.value]
        case _:
            return [message.input]


def _put_values(message: Carrying, values: list[bytes]) -> None:
    match message:
        case pb.StartFlowRequest():
            message.input = values[0]
            for attribute, value in zip(message.attributes, values[1:], strict=True):
                attribute.value = value
        case pb.PublishRequest():
            message.values[:] = values
        case pb.SetAttributeRequest():
            if message.HasField("value"):
                message.value = values[0]
        case _:
            message.input = values[0]


def decoded(asked: Conversation[bytes | None], codec: Codec[Any], place: str) -> Conversation[Any]:
    """Ask, and give the answer as the value that it is; None for no answer."""
    value = yield from asked
    return None if value is None else decode_value(codec, (yield from load(value)), place)
