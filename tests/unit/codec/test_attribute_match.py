"""Comparisons of Attribute values for clients that wait for one [WAITAPI-4]."""

import pytest

from dexd.codec.attribute_match import to_match

EQ, NE, GT, GE, LT, LE = range(6)


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
    assert to_match(number, operand, is_instant=False)(value) is expected


@pytest.mark.parametrize("number", [EQ, NE])
@pytest.mark.parametrize("value", [None, b"true", b'"1"', b"null", b"[1]", b'{"a":1}', b"not json", b'"\xff"'])
def test_waitapi_4_missing_and_other_kinds_never_match(number: int, value: bytes | None) -> None:
    """A bool is no number, and what is not equal because it is of another kind is no match either."""
    assert to_match(number, b"1", is_instant=False)(value) is False


def test_waitapi_4_instants_compare_as_such() -> None:
    noon = b'"2026-01-01T12:00:00Z"'
    same_elsewhere = b'"2026-01-01T13:00:00+01:00"'
    later = b'"2026-01-01T12:00:00.000001Z"'
    assert to_match(EQ, noon, is_instant=True)(same_elsewhere)
    assert to_match(LT, later, is_instant=True)(noon)
    assert not to_match(EQ, noon, is_instant=True)(b'"2026-01-01T12:00:00"')
    assert not to_match(EQ, noon, is_instant=True)(b'"noon"')
    assert not to_match(EQ, noon, is_instant=True)(b"7")


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
        to_match(number, operand, is_instant=is_instant)
