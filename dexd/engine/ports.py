"""What the engine needs from its surroundings, given to it by the composition root."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from dexd.core.effects import SessionEffect
from dexd.core.outcome import Reply
from dexd.core.rejections import Rejection
from dexd.log.errors import LogError
from dexd.log.event_log import Batch

OnReply: TypeAlias = Callable[[Reply | Rejection], None]
"""Takes a reply once it is committed; called on the loop, must not raise and must not block."""

BEFORE_APPEND = "before_append"
AFTER_COMMIT_BEFORE_EFFECTS = "after_commit_before_effects"
AFTER_SEND = "after_send"

Failpoint: TypeAlias = Callable[[str], None]
"""Called with the name of each point that a batch passes; a test installs one that kills the process there."""


class SessionSink(Protocol):
    """The way to one worker."""

    def deliver(self, effects: list[SessionEffect]) -> None:
        """Take all effects of one committed batch for this session, in order; must neither block nor raise."""
        ...


class BatchWriter(Protocol):
    """Appends batches one after the other on a thread of its own."""

    def submit(self, batch: Batch, on_done: Callable[[LogError | None], None]) -> None:
        """Append the batch; `on_done` is called on the loop with None or the reason why nothing was written."""
        ...


class Clock(Protocol):
    """Server time [TIMER-6]."""

    def now(self) -> int:
        """Milliseconds since the epoch in UTC; never smaller than the answer before."""
        ...


class Mint(Protocol):
    """Source of everything that must be unique or unpredictable."""

    def run_id(self) -> str: ...

    def seed(self) -> int: ...

    def request_id(self) -> str: ...
