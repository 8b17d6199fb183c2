"""Tokens of result pages: where the next page begins, signed together with the query [SEARCH-8].

A token of another server, of another query, or altered in any bit is told from a good one.
"""

import base64
import hashlib
import hmac

import msgspec

from dexd.search.evaluation import Position

_MAC_BYTES = 16
_decoder: msgspec.msgpack.Decoder[Position] = msgspec.msgpack.Decoder(tuple[str | int | float | bool | None, ...])


def page_token(secret: bytes, query: str, position: Position) -> str:
    """Make the token of the page behind a row."""
    content = msgspec.msgpack.encode(position)
    return base64.urlsafe_b64encode(_mac(secret, query, content) + content).decode()


def position_of_token(secret: bytes, query: str, token: str) -> Position | None:
    """Read a token; None if it is not one that this server made for this query."""
    try:
        data = base64.b64decode(token.encode(), altchars=b"-_", validate=True)
        if not hmac.compare_digest(_mac(secret, query, data[_MAC_BYTES:]), data[:_MAC_BYTES]):
            return None
        return _decoder.decode(data[_MAC_BYTES:])
    except (ValueError, msgspec.DecodeError):
        return None


def _mac(secret: bytes, query: str, content: bytes) -> bytes:
    digest = hashlib.blake2b(key=secret[:64], digest_size=_MAC_BYTES)
    text = query.encode()
    digest.update(len(text).to_bytes(8, "big"))
    digest.update(text)
    digest.update(content)
    return digest.digest()
