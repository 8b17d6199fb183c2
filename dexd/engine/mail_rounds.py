"""Rounds through the mailbox: what is due, then the commands that wait, in the order of their arrival [ARCH-3]."""

import sys
from typing import Final

from dexd.engine.commits import Commits
from dexd.engine.live_state import LiveState
from dexd.engine.mailbox import Mailbox

ROUND_COMMANDS_MAX: Final = 256
"""Commands decided before the loop may read sockets again; about ten milliseconds."""

SCHEDULES_MAX: Final = 16
"""Schedules whose fires are computed before other commands have their turn again; a few milliseconds each at most."""


class MailRounds:
    """Has live state decide about what waits, into the open batch."""

    __slots__ = ("_commits", "_events_max", "_mailbox")

    def __init__(self, mailbox: Mailbox, commits: Commits, *, events_max: int) -> None:
        """From `events_max` events in the open batch on, nothing more is decided before the running commit is over."""
        self._mailbox = mailbox
        self._commits = commits
        self._events_max = events_max

    def go(self, live: LiveState, *, now: int) -> bool:
        """Go one round; gives whether another one is wanted soon.

        None is when the open batch is so large that the commit under way must catch up: its end begins the next one.
        """
        batch = self._commits.open
        # Without a commit under way nothing would come to continue, so only behind one a full batch ends the round.
        events_max = self._events_max if self._commits.is_writing else sys.maxsize
        while live.is_parked_run_due(now):
            if len(batch.events) >= events_max:
                return False
            live.wake_parked(now=now)
        live.fire_due(now=now)
        if not self._decide(live, events_max, now=now):
            return False
        has_more = bool(live.kernel.schedules.clockwork.wanting) and self._provide_fires(live, now=now)
        return has_more or len(self._mailbox) > 0

    def _decide(self, live: LiveState, events_max: int, *, now: int) -> bool:
        """Decide about the oldest commands; False when the batch is full before."""
        batch = self._commits.open
        events, answers, decide = batch.events, batch.answers, live.decide
        was_serving = live.kernel.is_serving
        letters = self._mailbox.take(ROUND_COMMANDS_MAX)
        decided = 0
        try:
            live.expect(letters)
            for command, on_answer in letters:
                if len(events) >= events_max:
                    return False
                decided += 1
                reply = decide(command, now=now)
                if on_answer is not None:
                    answers.append((on_answer, reply))
                if not was_serving and live.kernel.is_serving:
                    break  # what became due in the meantime comes before everything else [TIMER-5]
        finally:
            self._mailbox.put_back(letters[decided:])
        return True

    def _provide_fires(self, live: LiveState, *, now: int) -> bool:
        """Let schedules know their next fires; gives whether some still want theirs.

        A server that starts with many takes its turns with other work.
        """
        wanting = live.kernel.schedules.clockwork.wanting
        for _ in range(SCHEDULES_MAX):
            if not wanting:
                return False
            live.provide_fires(next(iter(wanting)), now=now)
        return True
