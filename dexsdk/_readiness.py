"""Whether every queue of a worker is registered, as far as the server has said; pure [READY-1..5]."""

from dataclasses import dataclass

from dexsdk.errors import PullRegistrationError


@dataclass(frozen=True, slots=True)
class PullQueueState:
    """How one queue of the worker stands [READY-4]."""

    name: str
    has_registered_stream: bool
    last_permanent_error: PullRegistrationError | None
    """The newest permanent rejection; cleared by the next successful registration [READY-5]."""


@dataclass(frozen=True, slots=True)
class PullRegistrationState:
    """What `pull_registration_state()` returns [READY-4]; says nothing about spare capacity [READY-6]."""

    is_ready: bool
    queues: tuple[PullQueueState, ...]


class Readiness:
    """Counts registered streams per queue and remembers permanent rejections."""

    def __init__(self, queues: tuple[str, ...]) -> None:
        self._stream_counts = dict.fromkeys(queues, 0)
        self._errors: dict[str, PullRegistrationError] = {}
        self._unregistered = set(queues)
        self.was_ready = False
        """Every queue has been registered at the same time or one after the other; stays true for ever [READY-2]."""

    @property
    def is_ready(self) -> bool:
        """True once all queues registered, except while one has neither a stream nor hope [READY-5]."""
        return self.was_ready and self.failure is None

    @property
    def unregistered(self) -> tuple[str, ...]:
        """The queues that have never been registered, in order."""
        return tuple(queue for queue in self._stream_counts if queue in self._unregistered)

    @property
    def failure(self) -> PullRegistrationError | None:
        """The error of the first queue that has a permanent error and no registered stream [READY-3]."""
        for queue, error in self._errors.items():
            if not self._stream_counts[queue]:
                return error
        return None

    @property
    def state(self) -> PullRegistrationState:
        """A snapshot for users."""
        queues = tuple(
            PullQueueState(name, count > 0, self._errors.get(name)) for name, count in self._stream_counts.items()
        )
        return PullRegistrationState(self.is_ready, queues)

    def add_stream(self, queue: str) -> None:
        """A stream of the queue is registered."""
        self._stream_counts[queue] += 1
        self._errors.pop(queue, None)
        if self._unregistered:
            self._unregistered.discard(queue)
            self.was_ready = not self._unregistered

    def remove_stream(self, queue: str) -> None:
        """A registered stream of the queue is gone; that alone changes nothing for users [READY-5]."""
        self._stream_counts[queue] -= 1

    def reject(self, queue: str, code: str, details: str) -> None:
        """Record a permanent rejection; with another stream registered it is a record and nothing more [READY-3]."""
        self._errors[queue] = PullRegistrationError(queue, code, details)

    def reject_all(self, code: str, details: str) -> None:
        """Record that the server refused the whole session for good."""
        for queue in self._stream_counts:
            self.reject(queue, code, details)
