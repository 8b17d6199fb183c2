"""How a worker ends: finish, then cancel, then give up; pure, `now` is an argument [DRAIN-1]."""

from enum import Enum, auto


class DrainStage(Enum):
    """What the worker does about its running handlers."""

    SERVING = auto()
    """Not asked to stop."""
    FINISHING = auto()
    """Handlers run to their end, results are acknowledged."""
    CANCELING = auto()
    """Handlers were asked to stop."""
    OVER = auto()
    """Nothing is waited for any more."""


class Drain:
    """The two periods of a stop."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._deadline = 0
        self.stage = DrainStage.SERVING

    def begin(self, now: int) -> None:
        """Let handlers finish for one period. Later calls change nothing, so that stop is idempotent."""
        if self.stage is DrainStage.SERVING:
            self.stage = DrainStage.FINISHING
            self._deadline = now + self._timeout_ms

    def hurry(self, now: int) -> None:
        """Cancel handlers at once, because nobody waits for their results or the program must end."""
        if self.stage in {DrainStage.SERVING, DrainStage.FINISHING}:
            self.stage = DrainStage.CANCELING
            self._deadline = now + self._timeout_ms

    def advance(self, now: int, *, is_running: bool, is_dismissed: bool) -> DrainStage:
        """Move on as far as time and the handlers allow.

        Args:
            now: Milliseconds of the clock of `begin`.
            is_running: Whether some handler has not returned.
            is_dismissed: Whether none has, no result waits for its acknowledgement, and no call may still come.
        """
        if self.stage is DrainStage.FINISHING:
            if is_dismissed:
                self.stage = DrainStage.OVER
            elif now >= self._deadline:
                # Without a running handler only a server that is away is waited for, which was long enough.
                self.stage = DrainStage.CANCELING if is_running else DrainStage.OVER
                self._deadline = now + self._timeout_ms
        elif self.stage is DrainStage.CANCELING and (not is_running or now >= self._deadline):
            self.stage = DrainStage.OVER
        return self.stage
