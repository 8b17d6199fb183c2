"""Roll-over: long runs are continued by new ones, and nothing that is under way notices [ROLL-2..5]."""

from dexd.core.flow.decide_roll_over import decide_roll_over, is_long
from dexd.core.flow.state import RunState
from dexd.core.matching.dispatcher import Dispatcher
from dexd.core.matching.rpc_desk import RpcDesk
from dexd.core.starts import Starts
from dexd.core.turn import Turn
from dexd.core.values import RequestRecord


class RollOvers:
    """Puts a new run in the place of an old one, in a turn that has nothing else left to do."""

    __slots__ = ("_dispatcher", "_rpcs", "_starts")

    def __init__(self, starts: Starts, dispatcher: Dispatcher, rpcs: RpcDesk) -> None:
        self._starts = starts
        self._dispatcher = dispatcher
        self._rpcs = rpcs

    def settle(self, turn: Turn) -> None:
        """Continue the runs that reached their threshold in this turn, once each: a commit boundary [ROLL-2]."""
        threshold = self._dispatcher.config.rollover_events
        for run in turn.take_long():
            if is_long(run, threshold=threshold):
                self.roll_over(turn, run)

    def roll_over(self, turn: Turn, run: RunState, request: RequestRecord | None = None) -> RunState:
        """Continue an open run, long or not.

        Calls, deadlines, locks and SubFlows are known by the chain, so all that changes for them is which state they
        read and write [ROLL-4].
        """
        closed, started, continued = decide_roll_over(run, request=request)
        turn.record_silently(run, closed)
        following = self._starts.continue_(turn, started, continued)
        self._dispatcher.continued(following)
        self._rpcs.continued(run, following)
        return following
