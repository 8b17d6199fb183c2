"""Comparisons of Attribute values for clients that wait for one [WAITAPI-4].

Values stay bytes everywhere else; here those of waits are decoded, and compared by their exact value.
"""

import hashlib
import operator
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from dexd.core.blobs import DIGEST_BYTES, BlobReference, reference_of

IsText: TypeAlias = Callable[[BlobReference], bool]
"""Tells whether a large value is a JSON string."""
Matches: TypeAlias = Callable[[bytes | None], bool]

Scalar: TypeAlias = str | bool | int | float | datetime

OPERATORS: tuple[Callable[[Any, Any], bool], ...] = (
    operator.eq,
    operator.ne,
    operator.gt,
    operator.ge,
    operator.lt,
    operator.le,
)
"""By their numbers on the wire."""

ORDER_MIN = 2
"""Operators from this number on need an order."""


def to_match(number: int, operand: bytes, *, is_instant: bool, is_text: IsText) -> Matches:
    """Give the test of a value, which is None where the Attribute is not set.

    A missing value, and one of another kind than the operand, never matches, whatever the operator. Ints and floats are
    one kind and compared exactly; a boolean is no number. Of large values only strings can match, because no number and
    no instant is long; they are compared by their digests, and only `not equal` has to ask what kind they are.

    Raises:
        ValueError: the operator is unknown, the operand is no scalar, or has no order where the operator needs one.
    """
    if not 0 <= number < len(OPERATORS):
        raise ValueError(f"operator is {number}, allowed are 0 to {len(OPERATORS) - 1}")
    expected = _decode(operand, is_instant=is_instant)
    if expected is None:
        raise ValueError("operand is no JSON string, number or boolean" + (" with an instant" if is_instant else ""))
    kind = _kind_of(expected)
    if number >= ORDER_MIN and kind not in (float, datetime):
        raise ValueError(f"operator {number} needs a number or an instant")
    compare = OPERATORS[number]
    matches_large = _text_match(number, hashlib.sha256(operand).digest(), is_text) if kind is str else None

    def matches(value: bytes | None) -> bool:
        if value is None:
            return False
        if reference_of(value) is not None:
            return matches_large is not None and matches_large(value)
        found = _decode(value, is_instant=is_instant)
        return found is not None and _kind_of(found) is kind and compare(found, expected)

    return matches


def to_large_match(number: int, digest: bytes, *, is_text: IsText) -> Matches:
    """Give the test for an operand that is a large string, of which the caller knows the SHA-256 of its JSON.

    Raises:
        ValueError: the operator needs an order, or the digest is none.
    """
    if not 0 <= number < ORDER_MIN:
        raise ValueError(f"operator is {number}, allowed for a string are 0 to {ORDER_MIN - 1}")
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"operand_digest has {len(digest)} bytes, a SHA-256 has {DIGEST_BYTES}")
    return _text_match(number, digest, is_text)


def _text_match(number: int, digest: bytes, is_text: IsText) -> Matches:
    compare = OPERATORS[number]
    is_equal = compare is operator.eq

    def matches(value: bytes | None) -> bool:
        if value is None:
            return False
        reference = reference_of(value)
        if reference is None:
            return compare(hashlib.sha256(value).digest(), digest) and isinstance(_decode(value, is_instant=False), str)
        # What has the digest of a string is one.
        return compare(reference.digest, digest) and (is_equal or is_text(reference))

    return matches


def _decode(value: bytes, *, is_instant: bool) -> Scalar | None:
    """Read a scalar; None if it is anything else."""
    try:
        decoded: object = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if is_instant:
        return _instant(decoded)
    return decoded if isinstance(decoded, str | bool | int | float) else None


def _instant(decoded: object) -> datetime | None:
    try:
        instant = datetime.fromisoformat(decoded) if isinstance(decoded, str) else None
    except ValueError:
        return None
    return instant if instant is not None and instant.tzinfo is not None else None


def _kind_of(scalar: Scalar) -> type:
    """What values are compared with each other; numbers are one kind."""
    if isinstance(scalar, bool):
        return bool
    return float if isinstance(scalar, int | float) else type(scalar)
