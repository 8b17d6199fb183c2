"""Which texts may be names, IDs and keys [ID-1..3]."""

import unicodedata

NAME_LENGTH_MAX = 255
"""Code points in a name or ID [ID-1]."""

RESERVED_PREFIX = "sys:"
"""Names made by the server begin with it; callers' may not [ID-3]."""

_CONTROL_OR_SURROGATE = frozenset({"Cc", "Cs"})


def name_fault(text: object, what: str) -> str | None:
    """Say what is wrong with a name, or None; text is taken code point by code point, never normalised [ID-2]."""
    if not isinstance(text, str):
        return f"{what} must be a str, not {type(text).__name__}"
    if not 1 <= len(text) <= NAME_LENGTH_MAX:
        return f"{what} has {len(text)} characters, allowed are 1 to {NAME_LENGTH_MAX}"
    if _is_plain(text):
        return None
    for position, character in enumerate(text):
        if unicodedata.category(character) in _CONTROL_OR_SURROGATE:
            return f"{what} has the control or surrogate character U+{ord(character):04X} at position {position}"
    return None


def owned_name_fault(text: object, what: str) -> str | None:
    """The same for names that callers choose and that may not look like the server's own [ID-3]."""
    fault = name_fault(text, what)
    if fault is None and isinstance(text, str) and text.startswith(RESERVED_PREFIX):
        return f"{what} {text!r} begins with the reserved prefix {RESERVED_PREFIX!r}"
    return fault


def check_name(text: str, what: str) -> str:
    """Return the name.

    Raises:
        ValueError: it is not a legal name [ID-1].
    """
    if _is_plain(text):
        return text
    fault = name_fault(text, what)
    if fault is not None:
        raise ValueError(fault)
    return text


def check_owned_name(text: str, what: str) -> str:
    """Return the name.

    Raises:
        ValueError: it is not a legal name, or is reserved [ID-1, ID-3].
    """
    if _is_plain(text) and not text.startswith(RESERVED_PREFIX):
        return text
    fault = owned_name_fault(text, what)
    if fault is not None:
        raise ValueError(fault)
    return text


def _is_plain(text: object) -> bool:
    """Whether a text is a legal name at first sight, as nearly all are."""
    return isinstance(text, str) and text.isascii() and text.isprintable() and 1 <= len(text) <= NAME_LENGTH_MAX
