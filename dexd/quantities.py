"""Durations and sizes as people write them: ``250ms``, ``5s``, ``2m``, ``1h``, ``30d``; ``65536``, ``4 MiB``.

Inside the server a duration is always integer milliseconds and a size integer bytes; only configuration and its
messages use these texts.
"""

import re
from collections.abc import Mapping

_MS_BY_UNIT = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES_BY_UNIT = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_SIZE = re.compile(r"([0-9]{1,12}) ?(B|KiB|MiB|GiB)?")


def parse_duration_ms(text: str) -> int:
    """Read a whole number with its unit.

    Raises:
        ValueError: the text is not a duration. A number without a unit is refused, because nobody can see which it is.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("not a duration such as 250ms, 5s, 2m, 1h or 30d")
    return int(match[1]) * _MS_BY_UNIT[match[2]]


def format_duration(duration_ms: int) -> str:
    """The shortest exact text, in the largest unit that divides the duration."""
    if duration_ms == 0:
        return "0s"
    unit, unit_ms = _largest_divisor(duration_ms, _MS_BY_UNIT)
    return f"{duration_ms // unit_ms}{unit}"


def parse_size_bytes(text: str) -> int:
    """Read a whole number of bytes, with or without a binary unit.

    Raises:
        ValueError: the text is not a size.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError("not a size such as 65536, 64 KiB, 4 MiB or 1 GiB")
    return int(match[1]) * _BYTES_BY_UNIT[match[2] or "B"]


def format_size(size_bytes: int) -> str:
    """The shortest exact text, in the largest unit that divides the size."""
    unit, unit_bytes = _largest_divisor(size_bytes, _BYTES_BY_UNIT)
    return f"{size_bytes // unit_bytes} {unit}"


def _largest_divisor(number: int, units: Mapping[str, int]) -> tuple[str, int]:
    return max(((unit, factor) for unit, factor in units.items() if number % factor == 0), key=lambda item: item[1])
