"""Where clients and workers connect to, and how much a worker takes on."""

from dataclasses import dataclass
from typing import TypeVar

from dexsdk._durations import Duration, to_duration_ms
from dexsdk._names import check_name
from dexsdk.credentials import Credential, TlsOptions

DEFAULT_SERVER_ADDRESS = "localhost:8801"


@dataclass(frozen=True)
class ClientOptions:
    """How a client reaches the server."""

    server_address: str = DEFAULT_SERVER_ADDRESS
    credential: Credential | None = None
    tls: TlsOptions | None = None


@dataclass(frozen=True)
class PullWorkerOptions:
    """How much a worker takes on, and how it ends [CAP-1, RES-1, DRAIN-1]."""

    max_concurrent_tasks: int | None = None
    """Handlers running at once, Steps and RPCs together; None is the CPU count."""
    idle_streams_per_queue: int = 1
    """Waiting streams that each queue keeps."""
    reserved_rpc_tasks: int | None = None
    """Slots that Steps leave free; None is 1 when the task limit is at least 2, else 0."""
    stop_drain_timeout: Duration = 30.0
    """How long ``stop`` lets running handlers finish before it cancels them."""
    stop_on_permanent_stream_rejection: bool = False
    """Whether a queue rejected for good ends ``start`` [READY-7]."""
    app_worker_id: str | None = None
    """Identifies the process and changes when it restarts; None lets the SDK generate one [QUEUE-2]."""
    sessions: int = 1
    """Connections to the server [WIRE-3]."""

    def __post_init__(self) -> None:
        for name, minimum in (
            ("max_concurrent_tasks", 1),
            ("idle_streams_per_queue", 1),
            ("reserved_rpc_tasks", 0),
            ("sessions", 1),
        ):
            _check_count(getattr(self, name), name, minimum)
        to_duration_ms(self.stop_drain_timeout, "stop_drain_timeout")
        if self.app_worker_id is not None:
            check_name(self.app_worker_id, "app_worker_id")

    def resolved_capacity(self, cpu_count: int) -> tuple[int, int]:
        """Give the task limit and the RPC reserve [CAP-1, RES-1].

        Raises:
            ValueError: the reserve is not below the limit.
        """
        limit = self.max_concurrent_tasks if self.max_concurrent_tasks is not None else max(1, cpu_count)
        reserve = self.reserved_rpc_tasks if self.reserved_rpc_tasks is not None else int(limit >= 2)
        if reserve >= limit:
            raise ValueError(f"reserved_rpc_tasks is {reserve}, it must be below the task limit of {limit}")
        return limit, reserve


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker reaches the server and how much it takes on."""

    server_address: str = DEFAULT_SERVER_ADDRESS
    pull: PullWorkerOptions | None = None
    credential: Credential | None = None
    tls: TlsOptions | None = None


Options = TypeVar("Options", ClientOptions, WorkerOptions)


def resolve_options(kind: type[Options], blob_cache: object, options: Options | None) -> Options:
    """Give the options of a client or worker, or the default ones.

    Raises:
        TypeError: options stand where the blob cache belongs, or are of another kind; what they say would be ignored,
            and the server at the default address be taken.
    """
    if isinstance(blob_cache, ClientOptions | WorkerOptions | PullWorkerOptions):
        raise TypeError(f"the second argument is the blob cache; write options={type(blob_cache).__name__}(...)")
    if options is not None and not isinstance(options, kind):
        raise TypeError(f"options are {type(options).__name__}, {kind.__name__} are needed")
    return options or kind()


def _check_count(value: object, name: str, minimum: int) -> None:
    if value is None and name in {"max_concurrent_tasks", "reserved_rpc_tasks"}:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(f"{name} is {value!r}, an int of at least {minimum} is needed")
