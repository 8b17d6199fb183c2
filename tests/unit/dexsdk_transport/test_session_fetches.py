"""Questions of running handlers and their answers, over reconnects and cancellations [ATTR-7]."""

from collections.abc import Sequence

from dexpb.v1 import frames
from dexsdk._delivery import Delivery, Ended
from tests.unit.dexsdk_transport.session_script import SessionScript


class Outlet:
    """Takes what handlers send while they run."""

    def __init__(self) -> None:
        self.asked: list[frames.Fetch] = []

    def fetch(self, delivery: Delivery, question: frames.Fetch) -> None:
        self.asked.append(question)

    def finish(self, ended: "Sequence[Ended]") -> None:
        raise AssertionError(ended)

    def heartbeat(self, delivery: Delivery) -> None:
        raise AssertionError(delivery)

    def skip(self, delivery: Delivery) -> None:
        raise AssertionError(delivery)

    def decline(self, delivery: Delivery, reason: str) -> None:
        raise AssertionError(reason)


def asking(script: SessionScript) -> tuple[Delivery, frames.Fetch, Outlet]:
    delivery, outlet = script.run(), Outlet()
    delivery.sink = outlet
    return delivery, frames.Fetch(5, delivery.assign.token, "large"), outlet


def test_attr_7_an_answer_reaches_the_handler_that_asked() -> None:
    script = SessionScript().connected()
    delivery, question, outlet = asking(script)
    answer = delivery.fetch(question)
    assert outlet.asked == [question]
    script.receive(frames.Fetched(6, delivery.assign.token, b"other"))
    assert not answer.done()
    script.receive(frames.Fetched(5, delivery.assign.token, b"data"))
    assert answer.result(0).data == b"data"
    script.receive(frames.Fetched(5, delivery.assign.token, b"again"))
    assert not delivery.questions


def test_attr_7_a_question_is_asked_again_after_a_reconnect() -> None:
    """[WIRE-10]"""
    script = SessionScript().connected()
    delivery, question, _ = asking(script)
    answer = delivery.fetch(question)
    script.session.disconnect()
    assert question in script.welcome().send
    script.receive(frames.Fetched(5, delivery.assign.token, b"data"))
    assert answer.result(0).data == b"data"


def test_attr_7_a_canceled_handler_is_not_left_waiting() -> None:
    """[STOP-5] Neither with a question that is under way, nor with one that it asks then."""
    script = SessionScript().connected()
    delivery, question, outlet = asking(script)
    answer = delivery.fetch(question)
    script.receive(frames.Cancel(delivery.stream, delivery.assign.token, frames.CANCEL_STEP_CANCELED))
    assert answer.result(0).refusal == "CANCELED"
    assert delivery.fetch(question).result(0).refusal == "CANCELED"
    assert outlet.asked == [question]


def test_attr_7_an_answer_for_a_call_that_has_gone_is_ignored() -> None:
    script = SessionScript().connected()
    delivery, question, _ = asking(script)
    delivery.fetch(question)
    script.finish(delivery)
    script.receive(frames.Fetched(5, delivery.assign.token, b"data"))
    assert list(delivery.questions) == [question]
