"""Comparisons of Attribute values for clients that wait for one [WAITAPI-4]."""

import hashlib
from collections.abc import Callable

import pytest

from dexd.codec.attribute_match import Matches, to_large_match, to_match
from dexd.core.blobs import BlobReference
from dexpb.v1.blobs import make_reference

EQ, NE, GT, GE, LT, LE = range(6)

SAME, OTHER, NO_TEXT = b'"same"', b'"other"', b"[1]"
"""Values that may lie in the store as well."""


def is_text(reference: BlobReference) -> bool:
    """What the first byte of a stored value tells."""
    return reference.digest != hashlib.sha256(NO_TEXT).digest()


def match(number: int, operand: bytes, *, is_instant: bool = False) -> Matches:
    return to_match(number, operand, is_instant=is_instant, is_text=is_text)


@pytest.mark.parametrize(
    ("number", "operand", "value", "expected"),
    [
        (EQ, b'"a"', b'"a"', True),
        (EQ, b'"a"', b'"A"', False),
        (NE, b'"a"', b'"b"', True),
        (EQ, b"true", b"true", True),
        (EQ, b"1", b"1.0", True),
        (EQ, b"9007199254740993", b"9007199254740993", True),
        (EQ, b"9007199254740993", b"9007199254740992.0", False),
        (GT, b"9007199254740992.0", b"9007199254740993", True),
        (GE, b"2", b"2", True),
        (LT, b"2", b"1.5", True),
        (LE, b"2", b"2.5", False),
    ],
)
def test_waitapi_4_values_of_one_kind_compare_exactly(
    number: int, operand: bytes, value: bytes, expected: bool
) -> None:
    assert match(number, operand)(value) is expected


@pytest.mark.parametrize("number", [EQ, NE])
@pytest.mark.parametrize("value", [None, b"true", b'"1"', b"null", b"[1]", b'{"a":1}', b"not json", b'"\xff"'])
def test_waitapi_4_missing_and_other_kinds_never_match(number: int, value: bytes | None) -> None:
    """A bool is no number, and what is not equal because it is of another kind is no match either."""
    assert match(number, b"1")(value) is False


def test_waitapi_4_instants_compare_as_such() -> None:
    noon = b'"2026-01-01T12:00:00Z"'
    same_elsewhere = b'"2026-01-01T13:00:00+01:00"'
    later = b'"2026-01-01T12:00:00.000001Z"'
    assert match(EQ, noon, is_instant=True)(same_elsewhere)
    assert match(LT, later, is_instant=True)(noon)
    assert not match(EQ, noon, is_instant=True)(b'"2026-01-01T12:00:00"')
    assert not match(EQ, noon, is_instant=True)(b'"noon"')
    assert not match(EQ, noon, is_instant=True)(b"7")


@pytest.mark.parametrize(
    ("number", "operand", "is_instant", "problem"),
    [
        (6, b"1", False, "operator is 6"),
        (-1, b"1", False, "operator is -1"),
        (EQ, b"[]", False, "no JSON string"),
        (EQ, b"", False, "no JSON string"),
        (EQ, b'"noon"', True, "instant"),
        (GT, b'"a"', False, "needs a number or an instant"),
        (LE, b"false", False, "needs a number or an instant"),
    ],
)
def test_operands_without_meaning_are_refused(number: int, operand: bytes, is_instant: bool, problem: str) -> None:
    """[GEN-2]"""
    with pytest.raises(ValueError, match=problem):
        match(number, operand, is_instant=is_instant)


@pytest.mark.parametrize("is_large_operand", [False, True])
@pytest.mark.parametrize("make_value", [bytes, make_reference])
@pytest.mark.parametrize(
    ("number", "value", "expected"),
    [(EQ, SAME, True), (EQ, OTHER, False), (NE, SAME, False), (NE, OTHER, True), (NE, NO_TEXT, False)],
)
def test_waitapi_4_strings_compare_wherever_value_and_operand_lie(
    number: int, value: bytes, make_value: Callable[[bytes], bytes], is_large_operand: bool, expected: bool
) -> None:
    """[WAITAPI-4, BLOB-1] A large one by its digest; a large value that is no string is of another kind."""
    digest = hashlib.sha256(SAME).digest()
    tested = to_large_match(number, digest, is_text=is_text) if is_large_operand else match(number, SAME)
    assert tested(make_value(value)) is expected
    assert tested(None) is False


@pytest.mark.parametrize("number", range(6))
def test_waitapi_4_no_large_value_is_a_number(number: int) -> None:
    """[WAITAPI-4, BLOB-1]"""
    assert match(number, b"1")(make_reference(SAME)) is False
    assert match(number, b'"2026-01-01T12:00:00Z"', is_instant=True)(make_reference(SAME)) is False


@pytest.mark.parametrize(("number", "digest", "problem"), [(GT, bytes(32), "operator is 2"), (EQ, b"1", "has 1 bytes")])
def test_digests_without_meaning_are_refused(number: int, digest: bytes, problem: str) -> None:
    """[GEN-2]"""
    with pytest.raises(ValueError, match=problem):
        to_large_match(number, digest, is_text=is_text)
