"""Who a worker is to the server [QUEUE-1, QUEUE-2, WIRE-4]."""

import os
import secrets
import socket
from base64 import b32encode
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Self

from dexpb.v1 import frames


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """Who the worker is and what it can serve; the same in every Hello of one process."""

    worker_id: str
    """The app worker ID, which is also the name of the worker's own queue [QUEUE-1, QUEUE-2]."""
    incarnation: str
    sdk_version: str
    flows: tuple[frames.FlowDescriptor, ...]
    index_keys: tuple[frames.IndexKey, ...] = ()
    """Index keys of its Flows [ATTR-10]."""

    @classmethod
    def of_process(
        cls,
        app_worker_id: str | None,
        flows: tuple[frames.FlowDescriptor, ...],
        index_keys: tuple[frames.IndexKey, ...] = (),
    ) -> Self:
        """Give this process an identity of its own; the ID is minted unless the user chose one."""
        return cls(app_worker_id or mint_worker_id(), secrets.token_hex(8), sdk_version(), flows, index_keys)

    @property
    def queues(self) -> tuple[str, ...]:
        """The worker queue and one queue per Flow type [QUEUE-1]."""
        return (self.worker_id, *(flow.flow_type for flow in self.flows))


def mint_worker_id() -> str:
    """Give an app worker ID that no other process has: host, pid and 8 random base32 characters [QUEUE-2]."""
    random_part = b32encode(secrets.token_bytes(5)).decode().lower()
    return f"{socket.gethostname()}-{os.getpid()}-{random_part}"


def sdk_version() -> str:
    """Give the installed version, for the server's records."""
    try:
        return version("dexd")
    except PackageNotFoundError:
        return "unknown"
