"""Values on the command line: JSON text in, the SDK's canonical JSON bytes out [VAL-2, VAL-3].

Equality of inputs is equality of bytes, so a value typed by a person must become the bytes that the SDK would send:
sorted keys, no spaces, ints exact, no number that JSON readers would round.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dexpb.v1.blobs import is_reference, read_reference
from dextools.cli.errors import CommandError, ExitCode, usage_error

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

_ENCODER = msgspec.json.Encoder(order="sorted")

MAP_KEY_SEPARATOR = "\0"


def read_value(text: str, what: str) -> bytes:
    """Read one value: JSON, `@file` or `-` for standard input.

    Raises:
        CommandError: the file cannot be read, or the text is not a JSON value that may travel.
    """
    if text == "-":
        return canonical(sys.stdin.buffer.read(), f"{what} (standard input)")
    if text.startswith("@"):
        return canonical(_file_content(Path(text[1:])), f"{what} ({text[1:]})")
    return canonical(text.encode("utf-8", "surrogateescape"), what)


def read_values(texts: Sequence[str]) -> list[bytes]:
    """Read the VALUE arguments of a verb, each as `read_value` does; a fault names the one that it is in."""
    return [read_value(text, f"VALUE {number}") for number, text in enumerate(texts, 1)]


def canonical(data: bytes, what: str) -> bytes:
    """Give the canonical bytes of a JSON text.

    Raises:
        CommandError: it is not JSON, or holds a number that not every reader keeps exact.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = " (a text needs its quotes: '\"text\"')" if len(data) <= 200 else ""
        raise usage_error(f"{what} is not JSON: {error}{hint}") from None
    _check_numbers(value, "$", what)
    return _ENCODER.encode(value)


def shown(data: bytes) -> msgspec.Raw:
    """Embed a stored value in JSON output byte for byte, so that no int64 passes through a double.

    What stands for a large value is shown as histories show it.
    """
    if is_reference(data):
        reference = read_reference(data)
        return msgspec.Raw(_ENCODER.encode({"$blob": {"sha256": reference.name, "size": reference.size}}))
    return msgspec.Raw(data or b"null")


def definition_key(name: str, instance: str | None) -> str:
    """The key of an Attribute or Channel, or of one instance of a map."""
    return name if instance is None else f"{name}{MAP_KEY_SEPARATOR}{instance}"


def _file_content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CommandError(f"{path}: no such file", ExitCode.NOT_FOUND) from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", ExitCode.FAILED) from None


def _check_numbers(value: Any, path: str, what: str) -> None:
    if isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
        raise usage_error(f"{what}: {path} is {value}, outside the range of int64")
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_numbers(item, f"{path}.{key}", what)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_numbers(item, f"{path}[{index}]", what)
