"""How clients and workers prove who they are and whom they talk to [SEC-2, SEC-3]."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

_CHECK_INTERVAL_S = 1.0
"""A rotated file is noticed within it; each call would otherwise cost a stat [SEC-2]."""


@runtime_checkable
class Credential(Protocol):
    """Gives the bearer token of each call; asked before every call, from any thread."""

    def token(self) -> str:
        """Give the token that is valid now; an exception fails the call."""
        ...


class FileCredential:
    """A bearer token in a file, read again after the file changed."""

    def __init__(self, path: Path | str) -> None:
        """Take the file's path; it is read at the first call."""
        self._path = Path(path)
        self._token = ""
        self._fingerprint: tuple[int, int] | None = None
        self._checked_at = 0.0

    def token(self) -> str:
        """Give the file's content without surrounding white space.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is empty.
        """
        now = time.monotonic()
        if self._fingerprint is None or now - self._checked_at >= _CHECK_INTERVAL_S:
            self._refresh()
            self._checked_at = now
        return self._token

    def _refresh(self) -> None:
        status = self._path.stat()
        fingerprint = (status.st_mtime_ns, status.st_size)
        if fingerprint == self._fingerprint:
            return
        token = self._path.read_text(encoding="utf-8").strip()
        if not token:
            raise ValueError(f"credential file {self._path} is empty")
        self._token, self._fingerprint = token, fingerprint


@dataclass(frozen=True)
class TlsOptions:
    """TLS towards the server; with an own certificate it is mutual."""

    ca_file: Path | str | None = None
    """Certificates of the authorities to trust; None trusts the system's."""
    cert_file: Path | str | None = None
    key_file: Path | str | None = None

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file are given together or not at all")
