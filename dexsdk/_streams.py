"""The logical streams of one session: which queue each serves, and how many a queue keeps waiting [WIRE-2, CAP-1..5].

Pure bookkeeping: it says which OpenStream and CloseStream frames are due and never sends one. A stream is opening, then
idle or busy, then closing:

    OpenStream -> opening -StreamOpened-> idle <-> busy
                     |                      |
                 rejected                CloseStream -> closing -StreamClosed-> gone
"""

from bisect import bisect_right

from dexpb.v1 import frames
from dexsdk._backoff import BACKOFF_MS_MAX, BACKOFF_MS_MIN
from dexsdk._readiness import Readiness

SURPLUS_MS = 1_000
"""An idle stream is closed only after it was surplus for this long, so that streams do not churn under load [CAP-3]."""

RESERVE_EXTRA_MS = 30_000
"""How long a queue keeps one more idle stream after it declined a Step for the RPC reserve [RES-5]."""


class QueueStreams:
    """The streams of one queue."""

    __slots__ = (
        "_idle_max",
        "_surplus_since",
        "idle",
        "name",
        "opening",
        "reserve_until",
        "retry_at",
        "retry_delay_ms",
        "taken",
    )

    def __init__(self, name: str, idle_max: int) -> None:
        self.name = name
        self._idle_max = idle_max
        self.reserve_until = 0
        """Until when one more idle stream is kept [RES-5]."""
        self.retry_delay_ms = BACKOFF_MS_MIN
        self.clear()

    def clear(self) -> None:
        """Forget all streams; the session that had them is gone."""
        self.idle: dict[int, None] = {}
        self.taken = 0
        """Streams that got a call since streams were opened last."""
        self.opening = 0
        self.retry_at = 0
        # Entry i is the instant since which more than `idle_max + i` streams have been idle without a break, so the
        # list is sorted and its length is the surplus. This makes "surplus for 1 s" exact at O(1) per call.
        self._surplus_since: list[int] = []

    def missing(self, now: int, spare: int) -> int:
        """How many streams should be opened; 0 while a rejection backs off [QUEUE-4].

        When a burst took every idle stream, as many more are opened as it took, within the `spare` task slots: with a
        fixed number per round trip a worker with many slots would stay half idle for seconds. What turns out to be too
        many is surplus and goes by itself [CAP-3, CAP-4].
        """
        if now < self.retry_at:
            return 0
        wanted = self._idle_max + (now < self.reserve_until)
        if not self.idle and not self.opening:
            wanted = max(wanted, min(self.taken, spare))
        return wanted - len(self.idle) - self.opening

    def put_idle(self, stream: int, now: int) -> None:
        """The stream waits for a call."""
        self.idle[stream] = None
        if len(self.idle) > self._idle_max:
            self._surplus_since.append(now)

    def take_idle(self, stream: int) -> None:
        """The stream got a call or is gone."""
        del self.idle[stream]
        if self._surplus_since:
            self._surplus_since.pop()

    def closable(self, now: int) -> int:
        """How many idle streams have been surplus for long enough [CAP-3]."""
        extra = 1 if now < self.reserve_until + SURPLUS_MS else 0
        return max(0, bisect_right(self._surplus_since, now - SURPLUS_MS) - extra)

    def back_off(self, now: int) -> None:
        """A registration was rejected: wait before the next try [QUEUE-4]."""
        self.retry_at = now + self.retry_delay_ms
        self.retry_delay_ms = min(self.retry_delay_ms * 2, BACKOFF_MS_MAX)


class StreamTable:
    """All streams of one session, by number. Numbers are never used twice in a worker's life."""

    def __init__(self, queues: tuple[str, ...], idle_max: int, readiness: Readiness) -> None:
        self._queues = {name: QueueStreams(name, idle_max) for name in queues}
        self._readiness = readiness
        self._next_number = 1
        self._opening: dict[int, QueueStreams] = {}
        self._registered: dict[int, QueueStreams] = {}
        """Idle and busy ones."""
        self._closing: set[int] = set()
        self._short: dict[QueueStreams, None] = {}
        """Queues that may have fewer idle streams than they should."""
        self.count_max = 0
        """Streams the server allows; 0 while no session is open [QUEUE-3]."""

    def __len__(self) -> int:
        return len(self._opening) + len(self._registered) + len(self._closing)

    def next_number(self) -> int:
        """Mint a stream number."""
        number = self._next_number
        self._next_number += 1
        return number

    def begin(self, count_max: int, presented: dict[int, str]) -> None:
        """A session is open; the streams presented in its Hello are registered and busy [WIRE-10]."""
        self.count_max = count_max
        for stream, queue in presented.items():
            self._register(stream, self._queues[queue])
        self._short.update(dict.fromkeys(self._queues.values()))

    def end(self) -> None:
        """The session is gone and all its streams with it."""
        for queue in self._registered.values():
            self._readiness.remove_stream(queue.name)
        self._opening.clear()
        self._registered.clear()
        self._closing.clear()
        for queue in self._queues.values():
            queue.clear()
        self.count_max = 0

    def is_idle(self, stream: int) -> bool:
        """Whether the stream may get a call now."""
        queue = self._registered.get(stream)
        return queue is not None and stream in queue.idle

    def occupy(self, stream: int) -> str | None:
        """A stream got a call; returns its queue, or None if it was not idle."""
        queue = self._registered.get(stream)
        if queue is None or stream not in queue.idle:
            return None
        queue.take_idle(stream)
        queue.taken += 1
        self._short[queue] = None
        return queue.name

    def vacate(self, stream: int, now: int) -> None:
        """A busy stream answered its call and waits for the next one, unless the server took it meanwhile."""
        queue = self._registered.get(stream)
        if queue is not None:
            queue.put_idle(stream, now)

    def keep_reserve(self, stream: int, now: int) -> None:
        """The stream's queue declined a Step for the RPC reserve [RES-5]."""
        queue = self._registered[stream]
        queue.reserve_until = now + RESERVE_EXTRA_MS
        self._short[queue] = None

    def open_missing(self, now: int, spare: int) -> list[frames.WorkerFrame]:
        """Give the OpenStream frames that are due; `spare` is the number of free task slots.

        What may not be opened yet, because of a rejection or the server's cap, is tried again at the next call.
        """
        due: list[frames.WorkerFrame] = []
        for queue in tuple(self._short):
            for _ in range(min(queue.missing(now, spare), self.count_max - len(self))):
                stream = self.next_number()
                self._opening[stream] = queue
                queue.opening += 1
                due.append(frames.OpenStream(stream, queue.name))
            queue.taken = 0
            if now >= queue.retry_at and queue.missing(now, spare) <= 0:
                del self._short[queue]
        return due

    def close_surplus(self, now: int) -> list[frames.WorkerFrame]:
        """Give the CloseStream frames that are due [CAP-3]."""
        due: list[frames.WorkerFrame] = []
        for queue in self._queues.values():
            for _ in range(queue.closable(now)):
                stream = next(reversed(queue.idle))
                queue.take_idle(stream)
                self._closing.add(stream)
                self._drop(stream, queue)
                due.append(frames.CloseStream(stream))
        return due

    def on_opened(self, stream: int, now: int) -> None:
        """The server registered the stream."""
        queue = self._opening.pop(stream, None)
        if queue is not None:
            queue.opening -= 1
            queue.retry_delay_ms = BACKOFF_MS_MIN
            self._register(stream, queue)
            queue.put_idle(stream, now)

    def on_rejected(self, frame: frames.StreamRejected, now: int) -> None:
        """The server refused the stream; it is tried again after a while [QUEUE-4]."""
        queue = self._opening.pop(frame.stream, None)
        if queue is not None:
            queue.opening -= 1
            queue.back_off(now)
            self._short[queue] = None
            if frame.permanent:
                self._readiness.reject(queue.name, frame.code, frame.message)

    def on_closed(self, stream: int) -> None:
        """The stream is gone, because we asked for it or because the server took it."""
        self._closing.discard(stream)
        queue = self._registered.get(stream)
        if queue is not None:
            if stream in queue.idle:
                queue.take_idle(stream)
            self._drop(stream, queue)
            self._short[queue] = None

    def _register(self, stream: int, queue: QueueStreams) -> None:
        self._registered[stream] = queue
        self._readiness.add_stream(queue.name)

    def _drop(self, stream: int, queue: QueueStreams) -> None:
        del self._registered[stream]
        self._readiness.remove_stream(queue.name)
