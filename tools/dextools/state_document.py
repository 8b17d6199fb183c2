"""The state of a run as JSON for people: `dex log replay`."""

from enum import Enum
from typing import Any

import msgspec

from dexd.core.flow.state import RunState

_HIDDEN = frozenset({"start_digest", "seed", "watchers", "accepted", "requests", "pending_bytes"})
"""Fields that are hashes, draws or indexes: true, but of no use to a reader."""


def state_document(state: RunState) -> dict[str, Any]:
    """Every field with its value; stored values are embedded as the JSON they are."""
    document = {name: _shown(getattr(state, name)) for name in state.__struct_fields__ if name not in _HIDDEN}
    return document | {"remembered_requests": list(state.requests)}


def _shown(part: Any) -> Any:
    match part:
        case bytes():
            return msgspec.Raw(part) if part else None
        case Enum():
            return part.name
        case msgspec.Struct():
            return {name: _shown(getattr(part, name)) for name in part.__struct_fields__}
        case dict():
            return {key: _shown(value) for key, value in part.items()}
        case list() | tuple():
            return [_shown(element) for element in part]
        case _:
            return part
