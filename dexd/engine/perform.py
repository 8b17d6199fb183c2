"""Carries out effects once they are committed: one delivery per session and batch [ARCH-3]."""

from collections.abc import Callable, Iterable

from dexd.core.commands import RunCommand
from dexd.core.effects import AnswerRpc, Effect, EndSession, SessionEffect, SubmitCommand, TravelTarget
from dexd.core.ids import CallerId, SessionId
from dexd.core.jobs.commands import ReachTarget
from dexd.core.rejections import Rejection
from dexd.engine.ports import OnAnswer, SessionSink


class Performer:
    """Knows where sessions and waiting callers are."""

    __slots__ = ("_callers", "_last_caller", "_last_session", "_sinks", "_submit", "_travel")

    def __init__(self, submit: Callable[[RunCommand], None], travel: Callable[[ReachTarget], None]) -> None:
        """`submit` hands a command to the engine, `travel` takes a Flow back in time."""
        self._submit = submit
        self._travel = travel
        self._sinks: dict[SessionId, SessionSink] = {}
        self._callers: dict[CallerId, OnAnswer[bytes]] = {}
        self._last_session = 0
        self._last_caller = 0

    # ---- sessions ----

    def open_session(self, sink: SessionSink) -> SessionId:
        """Number a session; numbers are never used again in this process."""
        self._last_session += 1
        session = SessionId(self._last_session)
        self._sinks[session] = sink
        return session

    def close_session(self, session: SessionId) -> bool:
        """Forget a session; False if it is forgotten already."""
        return self._sinks.pop(session, None) is not None

    def end_session(self, session: SessionId, rejection: Rejection) -> None:
        """End a session with a refusal and forget it, if it is not forgotten already."""
        sink = self._sinks.pop(session, None)
        if sink is not None:
            sink.deliver([EndSession(session, rejection)])

    def end_all_sessions(self, rejection: Rejection) -> None:
        """End every session with the same refusal and forget it."""
        for session in list(self._sinks):
            self.end_session(session, rejection)

    # ---- callers of RPCs ----

    def expect_rpc(self, on_answer: OnAnswer[bytes]) -> CallerId:
        """Number a caller that waits for an RPC."""
        self._last_caller += 1
        caller = CallerId(self._last_caller)
        self._callers[caller] = on_answer
        return caller

    def abandon_rpc(self, caller: CallerId) -> bool:
        """Forget a caller; False if it was answered already."""
        return self._callers.pop(caller, None) is not None

    def answer_rpc(self, caller: CallerId, answer: bytes | Rejection) -> None:
        """Answer a caller, if it still waits."""
        on_answer = self._callers.pop(caller, None)
        if on_answer is not None:
            on_answer(answer)

    def refuse_all_rpcs(self, rejection: Rejection) -> None:
        """Refuse every caller that waits."""
        callers, self._callers = self._callers, {}
        for on_answer in callers.values():
            on_answer(rejection)

    # ---- effects ----

    def perform(self, effects: Iterable[Effect]) -> None:
        """Carry out effects in order; what belongs to one session goes out in one piece."""
        by_session: dict[SessionId, list[SessionEffect]] = {}
        for effect in effects:
            if type(effect) is AnswerRpc:
                self.answer_rpc(effect.caller, effect.answer)
            elif type(effect) is SubmitCommand:
                self._submit(effect.command)
            elif type(effect) is TravelTarget:
                self._travel(effect.reach)
            else:
                session = effect.session
                if session in by_session:
                    by_session[session].append(effect)
                else:
                    by_session[session] = [effect]
        for session, of_session in by_session.items():
            sink = self._sinks.get(session)
            if sink is not None:
                sink.deliver(of_session)
