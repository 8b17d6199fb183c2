"""Which open runs need no memory: those in which nothing is under way [ARCH-11].

Such a run is moved by a command that names it or by its next deadline, and by nothing else; until then its snapshot
and that deadline are all that is needed of it.
"""

from dexd.core.flow.state import BACKOFF, WAITING, RunState
from dexd.core.flow.wakeups import step_wakes_at

_AT_REST = (WAITING, BACKOFF)


def is_quiet(run: RunState) -> bool:
    """Whether every Step of an open run waits, for its Wait or for its next attempt, and the run owes nobody anything.

    A child that is not known to exist yet is owed [ARCH-14]; a lock may be asked for by an RPC at any time [LOCK-2].
    """
    if not run.is_open or run.unstarted or run.locks:
        return False
    return all(step.phase in _AT_REST for step in run.steps.values())


def sleeps_until(run: RunState, instant: int) -> bool:
    """Whether a quiet run does not wake up by itself before, or at, that instant."""
    if 0 < run.timeout_at <= instant:
        return False
    return all(not 0 < step_wakes_at(step) <= instant for step in run.steps.values())
