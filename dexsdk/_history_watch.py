"""Following a history as it grows, over breaks of the connection [HIST-5].

The stream of one watch is a call of its own, not part of the client's session: it is read at its consumer's pace, and
gRPC's flow control holds the server back.
"""

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Iterator

import grpc

from dexpb.v1 import flow_service_pb2 as pb
from dexsdk._backoff import Backoff
from dexsdk._carriers import ByteStream, StreamSource
from dexsdk._conversation import BUDGET_S
from dexsdk._replies import to_history_events
from dexsdk._status import PERMANENT_CODES, RemoteStatus, status_of_call
from dexsdk.results import HistoryEvent

WATCH_PATH = "/dexpb.v1.FlowService/WatchHistory"

EVENTS_AHEAD_MAX = 1_000
"""Events read ahead of an async consumer."""

_FINAL_CODES = PERMANENT_CODES | {"NOT_FOUND"}


class HistoryWatch:
    """The events of one Flow from an event ID on, until the Flow is closed and all its events were given."""

    def __init__(self, channel: StreamSource, flow_id: str, from_event_id: int, *, follow_runs: bool) -> None:
        self._channel = channel
        self._flow_id = flow_id
        self._next_event_id = from_event_id
        self._run_id = ""
        """Of the last event; the latest run before the first one."""
        self._follow_runs = follow_runs
        self._lock = threading.Lock()
        self._call: ByteStream | None = None
        self._closed = threading.Event()

    def events(self) -> Iterator[HistoryEvent]:
        """Give each event once; a broken connection is opened again where it broke.

        Raises:
            DexServiceError: the server refused the watch, or was away for longer than a call is tried.
        """
        backoff = Backoff()
        answered_at = time.monotonic()
        try:
            while not self._closed.is_set():
                try:
                    for event in self._read():
                        answered_at = time.monotonic()
                        backoff.reset()
                        yield event
                except grpc.RpcError as error:
                    self._raise_if_final(status_of_call(error), time.monotonic() - answered_at)
                    self._closed.wait(backoff.next_delay_ms(random.random()) / 1000)
                else:
                    return
        finally:
            self.close()

    def close(self) -> None:
        """End the watch, from any thread; the iteration ends soon."""
        self._closed.set()
        with self._lock:
            if self._call is not None:
                self._call.cancel()

    def _read(self) -> Iterator[HistoryEvent]:
        request = pb.WatchHistoryRequest(
            flow_id=self._flow_id,
            run_id=self._run_id,
            from_event_id=self._next_event_id,
            follow_runs=self._follow_runs,
        )
        with self._lock:
            if self._closed.is_set():
                return
            call = self._call = self._channel.open_stream(WATCH_PATH, request.SerializeToString())
        for message in call:
            (event,) = to_history_events([pb.HistoryEvent.FromString(message)])
            self._run_id, self._next_event_id = event.run_id, event.event_id + 1
            yield event

    def _raise_if_final(self, status: RemoteStatus, silent_s: float) -> None:
        if self._closed.is_set():
            return
        if status.code in _FINAL_CODES or silent_s >= BUDGET_S:
            raise status.to_error("watch_history", self._flow_id)


async def iterate(watch: HistoryWatch) -> AsyncIterator[HistoryEvent]:
    """Give the events of a watch on the running loop; the watch is read in a thread of its own.

    The thread reads at most EVENTS_AHEAD_MAX events ahead.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[HistoryEvent | BaseException | None] = asyncio.Queue()
    room = threading.Semaphore(EVENTS_AHEAD_MAX)

    def read() -> None:
        last: BaseException | None = None
        try:
            for event in watch.events():
                room.acquire()
                loop.call_soon_threadsafe(arrived.put_nowait, event)
        except Exception as error:  # noqa: BLE001 -- raised again where the events are consumed
            last = error
        finally:
            if not loop.is_closed():
                loop.call_soon_threadsafe(arrived.put_nowait, last)

    threading.Thread(target=read, name="dexsdk-watch", daemon=True).start()
    try:
        while isinstance(entry := await arrived.get(), HistoryEvent):
            room.release()
            yield entry
        if entry is not None:
            raise entry
    finally:
        watch.close()
        # A reader that waits for room must see that the watch is over.
        room.release()
