"""What workers command through their sessions, and operators about workers.

Commands of a session that has ended are dropped.
"""

from collections.abc import Callable
from typing import Any

from dexd.core import commands as c
from dexd.core.matching.deliveries import Deliveries
from dexd.core.matching.sessions import Session
from dexd.core.matching.workforce import Workforce
from dexd.core.runs import Runs
from dexd.core.turn import Answer, Route, Turn


class WorkerCommands:
    """Sessions, logical streams and the outcomes of calls."""

    def __init__(self, runs: Runs, deliveries: Deliveries, workforce: Workforce) -> None:
        self._runs = runs
        self._deliveries = deliveries
        self._workforce = workforce
        self._sessions = workforce.sessions

    def routes(self) -> dict[type[c.Command], Route]:
        """The method for each command."""
        workforce = self._workforce
        return {
            c.OpenSession: self.open_session,
            c.LoseSession: self._of_live_session(
                lambda turn, session, command: workforce.lose_session(turn, session, command.reason)
            ),
            c.DrainSession: self._of_live_session(
                lambda turn, session, _command: workforce.drain_session(turn, session)
            ),
            c.OpenStream: self._of_live_session(workforce.open_stream),
            c.CloseStream: self._of_live_session(workforce.close_stream),
            c.AnswerPing: self._of_live_session(workforce.answer_ping),
            c.AcceptCall: self.accept_call,
            c.Heartbeat: self.heartbeat,
            c.FetchPart: self._of_live_session(self._deliveries.fetch),
            c.DeclineCall: self._of_live_session(self._deliveries.decline),
            c.CompleteCall: self.complete_call,
            c.FailCall: self.fail_call,
            c.DrainWorker: workforce.drain_worker,
        }

    def open_session(self, turn: Turn, command: c.OpenSession) -> Answer:
        """A worker says Hello."""
        self._workforce.open_session(turn, command, self._runs.by_chain)
        self._deliveries.worker_came(turn)
        return None

    def accept_call(self, _turn: Turn, command: c.AcceptCall) -> Answer:
        """The handler of a call runs now."""
        self._deliveries.accept(command)
        return None

    def heartbeat(self, turn: Turn, command: c.Heartbeat) -> Answer:
        """The handler of a call shows that it lives."""
        session = self._sessions.get(command.session)
        if session is not None and command.token not in session.orphans:
            self._deliveries.heartbeat(turn, command)
        return None

    def complete_call(self, turn: Turn, command: c.CompleteCall) -> Answer:
        """A handler has returned."""
        session = self._sessions.get(command.session)
        if session is not None:
            self._deliveries.complete(turn, session, command, self._runs.by_chain.get(command.token.run_id))
        return None

    def fail_call(self, turn: Turn, command: c.FailCall) -> Answer:
        """A handler has raised."""
        session = self._sessions.get(command.session)
        if session is not None:
            self._deliveries.fail(turn, session, command, self._runs.by_chain.get(command.token.run_id))
        return None

    def _of_live_session(self, act: Callable[[Turn, Session, Any], None]) -> Route:
        sessions = self._sessions

        def route(turn: Turn, command: Any) -> Answer:
            session = sessions.get(command.session)
            if session is not None:
                act(turn, session, command)
            return None

        return route
