"""Values of the core as people and programs read them: plain JSON, in which users' values stay what they are [VAL-3].

Histories, live state and whatever else is shown as JSON agree in these shapes.
"""

import base64
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from dexd.core.blobs import reference_of
from dexd.core.index_values import IndexWrite
from dexd.core.values import ConditionResult, RequestRecord

Json: TypeAlias = Any
"""Something msgspec encodes as JSON; user values are msgspec.Raw and are copied as they are [VAL-3]."""

_json_checker = msgspec.json.Decoder(msgspec.Raw)


def show_field(name: str, part: Any) -> Json:
    """Show one field; tuples whose elements have names get them from `_SHAPES`."""
    shape = _SHAPES.get(name)
    if shape is not None and isinstance(part, tuple):
        return [shape(element) for element in part]
    return show_part(part)


def show_part(part: Any) -> Json:
    """Show a value of any kind; enums by name, bytes as the user's JSON."""
    match part:
        case RequestRecord():
            return {"request_id": part.request_id}
        case msgspec.Struct():
            return show_struct(part)
        case bytes():
            return show_value(part)
        case tuple() | list():
            return [show_part(element) for element in part]
        case _ if hasattr(part, "name"):
            return part.name
        case _:
            return part


def show_struct(struct: msgspec.Struct) -> dict[str, Json]:
    """Show all fields."""
    return {name: show_field(name, getattr(struct, name)) for name in struct.__struct_fields__}


def show_result(result: ConditionResult) -> dict[str, Json]:
    """Show how a condition ended; only SubFlows have a child."""
    shown = show_struct(result)
    if result.sub_flow is None:
        del shown["sub_flow"]
    return shown


def show_value(value: bytes | None) -> Json:
    """Splice a user's value in as the JSON it is; no value at all is null."""
    if not value:
        return None
    reference = reference_of(value)
    if reference is not None:
        # As every reader of histories knows large values; `dex ... --full` puts the value itself in its place.
        return {"$blob": {"sha256": reference.digest.hex(), "size": reference.size}}
    try:
        value.decode()
        return _json_checker.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Only a foreign client can have stored this; it must not break the page that shows it.
        return {"invalid_json_base64": base64.b64encode(value).decode()}


def _named(*names: str) -> Callable[[Iterable[Any]], dict[str, Json]]:
    return lambda parts: {name: show_part(part) for name, part in zip(names, parts, strict=True)}


def _key_and_value(pair: tuple[str, bytes | None]) -> dict[str, Json]:
    return {"key": pair[0], "value": show_value(pair[1])}


def _index_write(write: IndexWrite) -> dict[str, Json]:
    return {"key": write.key, "type": write.type.name, "value": show_part(write.value)}


def _message(parts: tuple[Any, ...]) -> dict[str, Json]:
    if isinstance(parts[1], tuple):
        return {"channel": parts[0], "messages": [_named("message_id", "value", "published_at")(m) for m in parts[1]]}
    names = ("message_id", "channel", "value") if len(parts) == 3 else ("message_id", "value")
    return _named(*names)(parts)


_SHAPES: dict[str, Callable[[Any], Json]] = {
    "attributes": _key_and_value,
    "writes": _key_and_value,
    "recorded": _named("name", "value"),
    "messages": _message,
    "requests": _named("request", "at"),
    "indexed": _index_write,
    "consumed": _named("condition_index", "message_ids"),
}
