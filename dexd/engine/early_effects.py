"""Effects that may leave before their commit: those that follow an ASYNC result [DUR-2].

Only workers see them, never clients or other runs [DUR-3]. A crash between the effect and the commit repeats the work
that it followed; the worker's call of the lost past is told from that of the new one when its session comes back (see
`Session.orphans`).
"""

from collections.abc import Sequence

from dexd.core.effects import AcknowledgeResult, AssignCall, CancelCall, Effect
from dexd.core.ids import RunId, SessionId
from dexd.core.outcome import Outcome
from dexd.engine.commits import Commits

COMMIT_MS_MAX = 50
"""A commit that takes longer holds everything back until it is over, so that a crash costs little [DUR-2]."""

LOOK_BACK_MAX = 256
"""Events and effects of open commits that are looked at; behind more of them an effect waits as under SYNC."""


class EarlyEffects:
    """Decides what of an outcome may leave now. Without ASYNC results it is never asked."""

    __slots__ = ("_commits", "_ready", "_tails")

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._ready: list[Effect] = []
        self._tails: dict[int, int] = {}
        """By stream, the version up to which everything is committed or follows ASYNC results only."""

    def sort(self, outcome: Outcome, run_id: RunId) -> Sequence[Effect]:
        """Take what may leave now, and give what waits for the commit; before the outcome joins the open batch.

        1. Only effects of the run whose ASYNC result it was, and only if nothing that the run decided before awaits its
           commit, except what followed ASYNC results itself [DUR-1].
        2. To a session for which something is held back nothing leaves early: it gets everything in order.
        3. Nothing leaves early while a commit takes too long.
        """
        if self._commits.is_late(COMMIT_MS_MAX) or not self._follows_durable_past(outcome):
            return outcome.effects
        held: list[Effect] = []
        blocked: dict[SessionId, bool] = {}
        for effect in outcome.effects:
            if not isinstance(effect, AssignCall | AcknowledgeResult | CancelCall):
                held.append(effect)
                continue
            session = effect.session
            if session not in blocked:
                blocked[session] = self._commits.holds_effects_for(session, LOOK_BACK_MAX)
            if blocked[session] or _run_of(effect) != run_id:
                blocked[session] = True
                held.append(effect)
            else:
                self._ready.append(effect)
        return held

    def _follows_durable_past(self, outcome: Outcome) -> bool:
        first = outcome.events[0]
        stream_id = first.stream_id
        is_durable = self._tails.get(stream_id) == first.version - 1 or not self._commits.holds_events_of(
            stream_id, LOOK_BACK_MAX
        )
        if is_durable:
            of_stream = [recorded.version for recorded in outcome.events if recorded.stream_id == stream_id]
            self._tails[stream_id] = of_stream[-1]
        return is_durable

    def take_ready(self) -> Sequence[Effect]:
        """What may leave now, in order; empty in most cases."""
        if not self._ready:
            return ()
        ready, self._ready = self._ready, []
        return ready

    def forget(self, stream_id: int) -> None:
        """The run has ended."""
        self._tails.pop(stream_id, None)

    def discard(self) -> None:
        """What was decided is lost."""
        self._ready = []
        self._tails = {}


def _run_of(effect: AssignCall | AcknowledgeResult | CancelCall) -> RunId:
    return effect.call.token.run_id if isinstance(effect, AssignCall) else effect.token.run_id
