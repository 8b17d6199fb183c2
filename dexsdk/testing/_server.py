"""The server of a test environment as the SDK sees it; which one it is, the entry point says [TEST-1]."""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Protocol, TypeAlias

ENTRY_POINT_GROUP = "dexsdk.test_server"

OnAnswer: TypeAlias = Callable[[bytes, int, bytes], None]
"""Takes body, gRPC status code and google.rpc.Status; code 0 says that the body is the answer."""


class ServerSession(Protocol):
    """A worker's session."""

    def receive(self, message: bytes) -> None:
        """Take a SessionBatch of the worker; the first one begins with Hello."""

    def break_off(self, reason: str) -> None:
        """The worker is gone without a Goodbye."""


class InProcessServer(Protocol):
    """A server on the running event loop, with a clock that stands until it is turned; instants are in ms."""

    failure: BaseException | None
    """Why it ended by itself: a bug of the server."""

    @property
    def is_up(self) -> bool:
        """Whether it serves."""

    @property
    def next_deadline(self) -> int | None:
        """When something is due next, if anything is."""

    def now(self) -> int:
        """Server time."""

    def turn_to(self, at: int) -> None:
        """Turn the clock forward."""

    async def settled(self) -> None:
        """Return when everything submitted so far is decided, committed and let out."""

    def settle_now(self) -> None:
        """Do what `settled` waits for, while the loop stands still because a handler on it blocks."""

    def crash(self) -> None:
        """End at once; what is committed is left."""

    def recover(self) -> None:
        """Serve again."""

    def begin(self, method: str, body: bytes, on_answer: OnAnswer) -> Callable[[], None]:
        """Begin a unary call of FlowService; gives what withdraws it."""

    def watch(self, body: bytes, on_item: OnAnswer) -> Callable[[], None]:
        """Follow a history; an item with a code is the last one, code 0 with an empty body ends it well."""

    async def check_health(self) -> bytes | None:
        """Answer AdminService.CheckHealth; None while it is down."""

    @property
    def blob_threshold_bytes(self) -> int:
        """Values of more bytes are uploaded."""

    @property
    def blob_bytes_max(self) -> int:
        """Largest value that is taken."""

    def upload(self, data: bytes, *, is_worker: bool) -> None:
        """Keep a large value; on the server's loop, whether it is up or not."""

    def download(self, digest: bytes) -> bytes | None:
        """Give a large value, from any thread; None if there is none of that SHA-256."""

    def open_session(self, deliver: Callable[[bytes], None], on_ended: Callable[[str], None]) -> ServerSession | None:
        """Connect a worker; None while it is down."""


class ServerFactory(Protocol):
    """What the entry point names."""

    def __call__(self, start_at: int, seed: int) -> InProcessServer:
        """Start a server on the running event loop."""


def find_server(group: str = ENTRY_POINT_GROUP) -> ServerFactory:
    """Load the one test server that is installed.

    Raises:
        RuntimeError: none is, or several are.
    """
    found = tuple(entry_points(group=group))
    if len(found) != 1:
        names = ", ".join(sorted(point.value for point in found)) or "none"
        raise RuntimeError(f"start_env needs exactly one installed {group}, found {names}; install dexd")
    factory: ServerFactory = found[0].load()
    return factory
