"""Kinds of settings: how one configuration value is read, checked against its range, and written back.

`dexd.config` attaches a kind to every field of its sections; nothing else reads raw configuration.
"""

import ipaddress
from pathlib import Path
from typing import Protocol

import msgspec

from dexd.quantities import format_duration, format_size, parse_duration_ms, parse_size_bytes


class ListenAddress(msgspec.Struct, frozen=True):
    """Where a server listens."""

    host: str
    port: int
    """0 lets the operating system choose."""
    may_move: bool = False
    """Nobody asked for just this port: if it is taken, the next free one will do [SURF-11]."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect [SEC-1]."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class SettingKind(Protocol):
    """Reads one value. `parse` accepts what TOML gives and what a shell gives, which is always text."""

    @property
    def expected(self) -> str:
        """The allowed range, to end the sentence "must be ..."."""
        ...

    def parse(self, raw: object) -> object:
        """Give the typed value.

        Raises:
            ValueError: the value has another type or is outside its range.
        """
        ...

    def render(self, value: object) -> str:
        """The value as it stands in a TOML file."""
        ...


class Duration(msgspec.Struct, frozen=True):
    """Integer milliseconds from text with a unit."""

    least: str
    most: str

    @property
    def expected(self) -> str:
        return f"a duration from {self.least} to {self.most}"

    def parse(self, raw: object) -> int:
        if not isinstance(raw, str):
            raise ValueError(self.expected)
        duration_ms = parse_duration_ms(raw)
        return _within(duration_ms, parse_duration_ms(self.least), parse_duration_ms(self.most))

    def render(self, value: object) -> str:
        assert isinstance(value, int)
        return _quoted(format_duration(value))


class Size(msgspec.Struct, frozen=True):
    """Integer bytes from a number or text with a binary unit."""

    least: str
    most: str

    @property
    def expected(self) -> str:
        return f"a size from {self.least} to {self.most}"

    def parse(self, raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int | str):
            raise ValueError(self.expected)
        return _within(parse_size_bytes(str(raw)), parse_size_bytes(self.least), parse_size_bytes(self.most))

    def render(self, value: object) -> str:
        assert isinstance(value, int)
        return _quoted(format_size(value))


class Count(msgspec.Struct, frozen=True):
    """A whole number."""

    least: int
    most: int

    @property
    def expected(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def parse(self, raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int | str):
            raise ValueError(self.expected)
        # int() alone would also take "1_000", " 7 " and digits of other scripts.
        if isinstance(raw, str) and not (raw.isascii() and raw.isdigit() and len(raw) <= 18):
            raise ValueError(self.expected)
        return _within(int(raw), self.least, self.most)

    def render(self, value: object) -> str:
        return str(value)


class Choice(msgspec.Struct, frozen=True):
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        return "one of " + ", ".join(self.words)

    def parse(self, raw: object) -> str:
        if raw not in self.words:
            raise ValueError(self.expected)
        return str(raw)

    def render(self, value: object) -> str:
        return _quoted(str(value))


class Address(msgspec.Struct, frozen=True):
    """HOST:PORT; an IPv6 host stands in brackets."""

    @property
    def expected(self) -> str:
        return "HOST:PORT with a port from 0 to 65535"

    def parse(self, raw: object) -> ListenAddress:
        host, separator, port = str(raw).rpartition(":")
        if not separator or not host or not (port.isascii() and port.isdigit()) or int(port[:6]) > 65_535:
            raise ValueError(self.expected)
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError(self.expected)
        return ListenAddress(host, int(port))

    def render(self, value: object) -> str:
        return _quoted(str(value))


class OptionalAddress(msgspec.Struct, frozen=True):
    """HOST:PORT, or the empty text for not listening at all."""

    @property
    def expected(self) -> str:
        return f'{Address().expected}, or "" for off'

    def parse(self, raw: object) -> ListenAddress | None:
        return None if raw == "" else Address().parse(raw)

    def render(self, value: object) -> str:
        return _quoted("" if value is None else str(value))


class Directory(msgspec.Struct, frozen=True):
    """A directory, made when it is missing."""

    @property
    def expected(self) -> str:
        return "a directory path"

    def parse(self, raw: object) -> Path:
        if not isinstance(raw, str) or not raw or "\0" in raw:
            raise ValueError(self.expected)
        return Path(raw)

    def render(self, value: object) -> str:
        return _quoted(str(value))


class OptionalDirectory(msgspec.Struct, frozen=True):
    """A directory, or the empty text for none."""

    @property
    def expected(self) -> str:
        return f'{Directory().expected}, or "" for none'

    def parse(self, raw: object) -> Path | None:
        return None if raw == "" else Directory().parse(raw)

    def render(self, value: object) -> str:
        return _quoted("" if value is None else str(value))


def _within(number: int, least: int, most: int) -> int:
    if not least <= number <= most:
        raise ValueError("out of range")
    return number


def _quoted(text: str) -> str:
    """A TOML basic string."""
    return msgspec.json.encode(text).decode()
