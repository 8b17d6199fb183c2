"""One wait for a value of an Attribute, as many polls as it takes [WAITAPI-4, WAITAPI-5]."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1.blobs import THRESHOLD_BYTES
from dexsdk._conversation import Conversation, Request, poll
from dexsdk.attribute import AnyAttribute, AttributeMap

Option = TypeVar("Option")


@dataclass(frozen=True)
class WaitForAttribute:
    """What is asked of the server with every poll."""

    verb: str
    flow_id: str
    key: str
    operator: int
    operand: bytes
    is_instant: bool

    def conversation(self, timeout_s: float | None) -> Conversation[bytes | None]:
        """Poll until a value matches, and give it."""
        reply = yield from poll(self._request, lambda reply: reply.HasField("value"), timeout_s)
        return reply.value

    def _request(self, hold_ms: int, budget_s: float) -> Request[pb.WaitForAttributeReply]:
        # Only strings can be large, and those are compared by content.
        is_large = len(self.operand) > THRESHOLD_BYTES
        message = pb.WaitForAttributeRequest(
            flow_id=self.flow_id,
            key=self.key,
            operator=self.operator,
            operand=b"" if is_large else self.operand,
            operand_digest=hashlib.sha256(self.operand).digest() if is_large else b"",
            is_instant=self.is_instant,
            wait_ms=hold_ms,
        )
        read = pb.WaitForAttributeReply.FromString
        body = message.SerializeToString()
        return Request(self.verb, "WaitForAttribute", body, read, self.flow_id, budget_s=budget_s)


def discard(asked: Conversation[Any]) -> Conversation[None]:
    """The same conversation, for a caller who knows what comes of it."""
    yield from asked


def split_arguments(
    attribute: AnyAttribute, arguments: Sequence[Any], option: Option
) -> tuple[Sequence[str], Any, Option]:
    """Tell apart the instance key of a map, the value, and what may follow it by position or else came by keyword.

    Raises:
        ValueError: there is one too many, or one is missing.
    """
    before = 1 if isinstance(attribute, AttributeMap) else 0
    if not before < len(arguments) <= before + 2:
        expected = "an instance key, a value" if before else "a value"
        raise ValueError(f"{attribute.name!r} takes {expected} and at most one option, {len(arguments)} were given")
    following = arguments[before + 1 :]
    return arguments[:before], arguments[before], following[0] if following else option
