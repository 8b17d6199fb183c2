"""One bidirectional gRPC call: what is queued goes out in as few messages as possible, what comes in is iterated.

There is no timer and no wait to fill a message: the writer takes all that is queued whenever the transport is free, so
that messages grow with the load and a lone item goes out at once [WIRE-2].
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from queue import SimpleQueue
from typing import Generic, TypeAlias, TypeVar

from dexsdk._server_channel import ServerChannel

Item = TypeVar("Item")
Encode: TypeAlias = Callable[[list[Item]], Iterable[bytes]]
"""Turns queued items into messages, in order."""


class Connection(Generic[Item]):
    """One call of a bidirectional method, from its opening to its end.

    `send` and `finish` may be called from any thread and never block. One thread iterates `messages`. gRPC's own thread
    iterates the requests; it ends when the call ends.
    """

    def __init__(self, channel: ServerChannel, method: str, encode: Encode[Item]) -> None:
        """Open the call; nothing is sent before the first item.

        Raises:
            OSError, ValueError: the credential gives no token.
        """
        self._encode = encode
        # The standard library's C queue: an uncontended put costs less than a condition variable's notify.
        self._queue: SimpleQueue[Sequence[Item] | None] = SimpleQueue()
        open_call = channel.stream_stream(method)
        self._call = open_call(self._requests(), metadata=channel.metadata())

    def send(self, items: Sequence[Item]) -> None:
        """Queue items, which nobody may change any more; they are lost if the call ends before they are written."""
        if items:
            self._queue.put(items)

    def messages(self) -> Iterator[bytes]:
        """Give the peer's messages until it ends the call.

        Raises:
            grpc.RpcError: the call ended with another status than OK.
        """
        try:
            yield from self._call
        finally:
            self._queue.put(None)

    def finish(self) -> None:
        """Send what is queued and nothing after it; the peer then ends the call."""
        self._queue.put(None)

    def cancel(self) -> None:
        """End the call now."""
        self._call.cancel()

    def _requests(self) -> Iterator[bytes]:
        queue = self._queue
        while True:
            groups = [queue.get()]
            # This is the only consumer, so that everything counted now is there to be taken.
            groups += [queue.get() for _ in range(queue.qsize())]
            items = [item for group in groups if group is not None for item in group]
            if items:
                yield from self._encode(items)
            if None in groups:
                return
