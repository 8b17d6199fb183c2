"""References to large values inside what is encoded [BLOB-1]."""

import msgspec

from dexd.core.blobs import (
    REFERENCE_BYTES,
    REFERENCE_MARK,
    BlobReference,
    reference_of,
    references_in,
    value_bytes,
)
from dexd.core.values import Message
from dexpb.v1 import blobs

FIRST = BlobReference(bytes(range(32)), 3_000_000)
SECOND = BlobReference(b"\xc1" * 32, 2**40)


def test_blob_1_a_reference_is_what_peers_know_by_the_same_form() -> None:
    """Server and SDK meet in `dexpb`; the core, which imports nothing, repeats it."""
    value = FIRST.to_value()
    assert (len(value), REFERENCE_MARK) == (blobs.REFERENCE_BYTES, blobs.REFERENCE_MARK)
    assert blobs.is_reference(value)
    assert blobs.read_reference(value) == (FIRST.digest, FIRST.size)
    made = reference_of(blobs.make_reference(b"data"))
    assert made is not None
    assert made.size == 4


def test_blob_1_a_value_that_is_there_itself_is_no_reference() -> None:
    for value in (b"", b'"text"', REFERENCE_MARK, FIRST.to_value() + b"x", b'"' + FIRST.to_value()[1:]):
        assert reference_of(value) is None
        assert value_bytes(value) == len(value)
    assert reference_of(SECOND.to_value()) == SECOND


def test_blob_1_size_of_a_reference_is_that_of_its_value() -> None:
    assert value_bytes(FIRST.to_value()) == 3_000_000


def test_blob_4_references_are_found_inside_whatever_holds_them() -> None:
    message = Message("m", FIRST.to_value(), 7)
    encoded = msgspec.msgpack.encode([message, {"a": SECOND.to_value()}, msgspec.msgpack.encode(message)])
    assert references_in(encoded) == [FIRST, SECOND]
    assert references_in(msgspec.msgpack.encode([b"x" * REFERENCE_BYTES, "text"])) == []


def test_blob_4_what_only_begins_like_a_reference_is_none() -> None:
    assert references_in(REFERENCE_MARK) == []
    assert references_in(b"x" + FIRST.to_value()[:-1]) == []
    assert references_in(FIRST.to_value() + REFERENCE_MARK) == [FIRST]
