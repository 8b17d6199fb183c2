"""Values and messages that a call only refers to, fetched from the server piece by piece [ATTR-7, CHAN-8].

The handler's thread waits; the worker's own threads carry question and answer. A question stays with its delivery until
it is answered, so that it is asked again on the next connection.
"""

from concurrent.futures import Future
from itertools import count
from typing import Protocol

from dexpb.v1 import frames
from dexsdk.errors import DexServiceError

_numbers = count(1)


class FetchSource(Protocol):
    """Asks the server on behalf of one running call, from any thread."""

    def fetch(self, question: frames.Fetch) -> "Future[frames.Fetched]":
        """Ask; the answer may take as long as there is no connection."""
        ...


def fetch_value(source: FetchSource, token: frames.Token, key: str, place: str) -> bytes:
    """Give the value of an Attribute as of the snapshot.

    Raises:
        DexServiceError: the call is not current any more; its result would be refused anyway.
    """
    pieces: list[bytes] = []
    size = 0
    while True:
        part = _ask(source, frames.Fetch(next(_numbers), token, key, offset=size), place)
        pieces.append(part.data)
        size += len(part.data)
        if not part.has_more:
            return b"".join(pieces)


def fetch_messages(source: FetchSource, token: frames.Token, key: str, place: str) -> list[tuple[str, bytes, int]]:
    """Give ID, value and instant of the messages of a Channel that were there at the hand-over and still are."""
    messages: list[tuple[str, bytes, int]] = []
    while True:
        after = messages[-1][0] if messages else ""
        part = _ask(source, frames.Fetch(next(_numbers), token, key, is_channel=True, after=after), place)
        messages += part.messages
        if not part.has_more:
            return messages


def _ask(source: FetchSource, question: frames.Fetch, place: str) -> frames.Fetched:
    part = source.fetch(question).result()
    if part.refusal:
        detail = f"{place}: {question.key!r} cannot be read any more, the call is not wanted"
        raise DexServiceError(detail, code="ABORTED", sub_status=part.refusal, operation="fetch")
    return part
