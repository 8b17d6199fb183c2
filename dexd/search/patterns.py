r"""Patterns of LIKE: `%` is any run of characters, `\%` and `\\` are literal, and so is everything else [SEARCH-5]."""

from collections.abc import Sequence

ANY = "%"


def literal_parts(pattern: str) -> tuple[str, ...]:
    """The literal texts between the `%` of a pattern, first and last included, empty where there is none."""
    parts: list[str] = []
    part: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == ANY:
            parts.append("".join(part))
            part = []
        elif character == "\\":
            following = next(characters, "")
            part.append(following if following in (ANY, "\\") and following else "\\" + following)
        else:
            part.append(character)
    # A backslash before anything else is a character like others, and a `%` after it has been looked at already.
    parts.append("".join(part))
    return tuple(parts)


def is_like(text: str, parts: Sequence[str]) -> bool:
    """Whether a text matches; case counts."""
    if len(parts) == 1:
        return text == parts[0]
    first, *middle, last = parts
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    position, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True
