"""What a client needs of whatever carries its calls: a connection to a server, or a server in the same process."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol, TypeVar

from dexsdk._conversation import Conversation, Given, Turn

Result = TypeVar("Result")


class BlockingCarrier(Protocol):
    """Carries conversations on the calling thread."""

    def carry(self, conversation: Conversation[Result]) -> Result:
        """Carry it to its end."""

    def close(self) -> None:
        """End what is open."""


class AsyncCarrier(Protocol):
    """Carries conversations on the running event loop."""

    async def carry(self, conversation: Conversation[Result]) -> Result:
        """Carry it to its end."""

    async def close(self) -> None:
        """End what is open."""


async def converse(conversation: Conversation[Result], answer: Callable[[Turn], Awaitable[Given]]) -> Result:
    """Carry a conversation to its end on the running event loop; `answer` gives what each of its turns gets."""
    given: Given = None
    while True:
        try:
            turn = conversation.send(given)
        except StopIteration as end:
            result: Result = end.value
            return result
        given = await answer(turn)


class ByteStream(Protocol):
    """The messages of one call that streams its answer; blocks the thread that iterates it."""

    def __iter__(self) -> Iterator[bytes]:
        """Give the messages.

        Raises:
            grpc.RpcError: the call ended with another status than OK.
        """

    def cancel(self) -> object:
        """End the call, from any thread."""


class StreamSource(Protocol):
    """Opens calls that stream their answers."""

    def open_stream(self, method: str, body: bytes) -> ByteStream:
        """Call a method.

        Raises:
            OSError, ValueError: the credential gives no token.
        """
