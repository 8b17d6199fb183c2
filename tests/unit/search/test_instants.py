"""RFC 3339 instants [SEARCH-2]."""

import pytest

from dexd.search.instants import parse_instant


@pytest.mark.parametrize(
    ("text", "digits", "expected"),
    [
        ("1970-01-01T00:00:00Z", 3, (0, True)),
        ("1970-01-01t00:00:00.5z", 3, (500, True)),
        ("1970-01-01T00:00:00.0009Z", 3, (0, False)),
        ("1969-12-31T23:59:59.9999Z", 3, (-1, False)),
        ("1970-01-01T01:00:00+01:00", 3, (0, True)),
        ("1969-12-31T18:30:00-05:30", 3, (0, True)),
        ("2026-03-01T12:00:00.123456Z", 6, (1_772_366_400_123_456, True)),
        ("2026-03-01T12:00:00.1234560000Z", 6, (1_772_366_400_123_456, True)),
        ("0001-01-01T00:00:00Z", 6, (-62_135_596_800_000_000, True)),
        ("9999-12-31T23:59:59.999999999Z", 6, (253_402_300_799_999_999, False)),
    ],
)
def test_instants_are_exact(text: str, digits: int, expected: tuple[int, bool]) -> None:
    assert parse_instant(text, digits) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-03-01",
        "2026-03-01T12:00:00",
        "2026-03-01 12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-02-29T12:00:00Z",
        "2026-03-01T24:00:00Z",
        "2026-03-01T12:60:00Z",
        "2026-03-01T12:00:60Z",
        "2026-03-01T12:00:00+24:00",
        "2026-03-01T12:00:00+01:60",
        "2026-03-01T12:00:00.Z",
        "\u0662026-03-01T12:00:00Z",
        "0000-01-01T00:00:00Z",
    ],
)
def test_everything_else_is_none(text: str) -> None:
    assert parse_instant(text, 3) is None
