"""Texts of durations and sizes [SURF-13]."""

import pytest

from dexd.quantities import format_duration, format_size, parse_duration_ms, parse_size_bytes


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("250ms", 250), ("5s", 5_000), ("2m", 120_000), ("1h", 3_600_000), ("30d", 2_592_000_000), ("0s", 0)],
)
def test_duration_is_read_and_written_in_its_largest_unit(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms
    assert format_duration(duration_ms) == text


@pytest.mark.parametrize(
    "text", ["", "5", "s", "-5s", "1.5s", "5 s", "5S", "5sec", "\N{ARABIC-INDIC DIGIT FIVE}s", "5s\n", "1e3s", "inf"]
)
def test_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("1 B", 1), ("64 KiB", 65_536), ("4 MiB", 4_194_304), ("1 GiB", 1_073_741_824)]
)
def test_size_is_read_and_written_in_its_largest_unit(text: str, size_bytes: int) -> None:
    assert parse_size_bytes(text) == size_bytes
    assert format_size(size_bytes) == text


def test_size_without_unit_is_bytes() -> None:
    assert parse_size_bytes("65536") == 65_536


@pytest.mark.parametrize("text", ["", "MiB", "4 MB", "4  MiB", "-1", "1.5 MiB", "4 mib"])
def test_text_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size_bytes(text)
