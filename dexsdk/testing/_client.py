"""The clients of a test environment: Client and AsyncClient, whose calls go straight into the server."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from dexsdk._batch_verbs import BatchVerbs
from dexsdk._blobs import Blobs
from dexsdk._call import current_call
from dexsdk._carriers import AsyncCarrier, BlockingCarrier, StreamSource, converse
from dexsdk._conversation import Answer, Ask, AskOnce, Conversation, Given, Load, Offload, Pause, Turn
from dexsdk._registry import Registry
from dexsdk._status import RemoteStatus, status_of_reply
from dexsdk._verbs import HEALTH_PATH, Verbs
from dexsdk.async_client import AsyncClient
from dexsdk.batch import AsyncBatch, Batch
from dexsdk.client import Client
from dexsdk.errors import DexServiceError
from dexsdk.testing._activity import Activity
from dexsdk.testing._blobs import InProcessTransfer
from dexsdk.testing._clockwork import Clockwork
from dexsdk.testing._server import InProcessServer
from dexsdk.testing._worker import InProcessWorker

Result = TypeVar("Result")

REQUEST_ID_PREFIX = "test"
"""Request IDs stand in histories, which are to be equal from test to test [TEST-3]."""


class InProcessAsyncClient(AsyncClient):
    """An AsyncClient without a connection."""

    def __init__(self, registry: Registry, carrier: AsyncCarrier, streams: StreamSource) -> None:
        """Take what a connection would be made into."""
        self.blob_cache = None
        self._channel = streams
        self._caller = carrier
        self._verbs = Verbs(registry, REQUEST_ID_PREFIX)
        self.batch = AsyncBatch(carrier, BatchVerbs(self._verbs))


class InProcessClient(Client):
    """A Client without a connection."""

    def __init__(self, registry: Registry, carrier: BlockingCarrier, streams: StreamSource, blobs: Blobs) -> None:
        """Take what a connection would be made into."""
        self.blob_cache = None
        self._channel = streams
        self._caller = carrier
        self._verbs = Verbs(registry, REQUEST_ID_PREFIX, blobs.load)
        self.batch = Batch(carrier, BatchVerbs(self._verbs))


class InProcessCarrier:
    """Carries conversations on the environment's loop. Their deadlines are real time, as everywhere [TEST-2].

    A call ends when what it set off has settled, so that the test's next call finds the same state every time. A call
    of a handler ends with its answer: nothing settles before the handler has ended.
    """

    def __init__(
        self,
        server: InProcessServer,
        activity: Activity,
        clockwork: Clockwork,
        worker: Callable[[], InProcessWorker],
    ) -> None:
        self._server = server
        self._activity = activity
        self._clockwork = clockwork
        self._worker = worker
        self.blobs = Blobs(InProcessTransfer(server, is_worker=False), None)
        """Large values of clients."""

    async def carry(self, conversation: Conversation[Result]) -> Result:
        """See AsyncCarrier."""
        call = current_call.get()
        if call is not None:
            with self._worker().calling(call):
                return await converse(conversation, self._answer)
        try:
            result = await converse(conversation, self._answer)
        except DexServiceError:
            await self._clockwork.settled()
            raise
        await self._clockwork.settled()
        return result

    async def close(self) -> None:
        """See AsyncCarrier; the environment ends what is open."""

    async def _answer(self, turn: Turn) -> Given:
        match turn:
            case Offload(values=values):
                return self.blobs.offload(values)
            case Load(value=value):
                return self.blobs.load(value)
            case Ask() if current_call.get() is not None:
                return await self._ask(turn)
            case Ask():
                # A handler that waits is no reason for the clock to jump; only the test is.
                with self._activity.waiting():
                    return await self._ask(turn)
            case AskOnce():
                if turn.path != HEALTH_PATH:
                    return RemoteStatus("UNIMPLEMENTED", f"the test environment has no {turn.path}")
                return await self._server.check_health() or RemoteStatus("UNAVAILABLE", "the server is down")
            case Pause():
                await asyncio.sleep(turn.seconds)
                return None

    async def _ask(self, request: Ask) -> Answer:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        withdraw = self._server.begin(request.method, request.body, partial(_settle, answered))
        try:
            with self._clockwork.asking(answered):
                async with asyncio.timeout(request.timeout_s):
                    return await answered
        except TimeoutError:
            return RemoteStatus("UNAVAILABLE", f"the server did not answer within {request.timeout_s:.1f} s")
        finally:
            self._activity.note()
            withdraw()


class BlockingInProcessCarrier:
    """Carries conversations on the environment's loop while the calling thread waits."""

    def __init__(self, carrier: InProcessCarrier, loop: asyncio.AbstractEventLoop) -> None:
        self._carrier = carrier
        self._loop = loop

    def carry(self, conversation: Conversation[Result]) -> Result:
        """See BlockingCarrier."""
        return wait_for(asyncio.run_coroutine_threadsafe(self._carrier.carry(conversation), self._loop))

    def close(self) -> None:
        """See BlockingCarrier; the environment ends what is open."""


def wait_for(running: "Future[Result]") -> Result:
    """Block for what runs on the environment's loop; an interrupt of this thread ends it."""
    try:
        return running.result()
    except BaseException:
        running.cancel()
        raise


def _settle(answered: "asyncio.Future[Answer]", body: bytes, code: int, status: bytes) -> None:
    # Already done when the test gave up.
    if not answered.done():
        answered.set_result(status_of_reply(code, status) if code else body)
