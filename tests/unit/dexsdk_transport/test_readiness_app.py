"""The ASGI app for readiness probes, called as an ASGI server calls it [READY-8]."""

import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from dexpb.v1 import frames
from dexsdk import PullRegistrationState, readiness_app
from tests.unit.dexsdk_transport.session_script import FLOW_QUEUE, WORKER_QUEUE, SessionScript


class ScriptedWorker:
    """A worker whose server is played by the test."""

    def __init__(self) -> None:
        self.script = SessionScript()

    def pull_registration_state(self) -> PullRegistrationState:
        return self.script.readiness.state


class Answer:
    """What an app sent."""

    def __init__(self, messages: list[MutableMapping[str, Any]]) -> None:
        start, body = messages
        assert (start["type"], body["type"]) == ("http.response.start", "http.response.body")
        self.status = start["status"]
        self.headers = dict(start["headers"])
        self.body = body["body"]


async def probe(worker: ScriptedWorker, method: str = "GET") -> Answer:
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "asgi": {"version": "3.0"}, "method": method, "path": "/ready", "headers": []}
    await readiness_app(worker)(scope, receive, send)
    return Answer(sent)


async def test_worker_that_is_not_registered_yet_is_unavailable() -> None:
    """[READY-8]"""
    answer = await probe(ScriptedWorker())
    assert answer.status == 503
    assert json.loads(answer.body) == {
        "is_ready": False,
        "queues": [
            {"name": name, "has_registered_stream": False, "last_permanent_error": None}
            for name in (WORKER_QUEUE, FLOW_QUEUE)
        ],
    }


async def test_registered_worker_is_ready_also_while_it_reconnects() -> None:
    """[READY-5, READY-8]"""
    worker = ScriptedWorker()
    worker.script.connected()
    answer = await probe(worker)
    assert answer.status == 200
    assert answer.headers[b"content-type"] == b"application/json"
    assert int(answer.headers[b"content-length"]) == len(answer.body)
    assert [queue["has_registered_stream"] for queue in json.loads(answer.body)["queues"]] == [True, True]
    worker.script.session.disconnect()
    assert (await probe(worker)).status == 200


async def test_queue_that_was_refused_for_good_says_why() -> None:
    """[READY-4, READY-8]"""
    worker = ScriptedWorker()
    own, flow = worker.script.welcome().send
    worker.script.confirm([own])
    assert isinstance(flow, frames.OpenStream)
    worker.script.receive(
        frames.StreamRejected(flow.stream, "INVALID_ARGUMENT", "FLOW_TYPE_TOO_LONG", "limit 3", permanent=True)
    )
    answer = await probe(worker)
    assert answer.status == 503
    assert json.loads(answer.body)["queues"][1] == {
        "name": FLOW_QUEUE,
        "has_registered_stream": False,
        "last_permanent_error": {"code": "INVALID_ARGUMENT", "details": "limit 3"},
    }


async def test_head_gets_the_status_without_a_body() -> None:
    """[READY-8]"""
    answer = await probe(ScriptedWorker(), "HEAD")
    assert (answer.status, answer.body) == (503, b"")


async def test_other_scopes_are_refused_as_the_specification_of_asgi_asks() -> None:
    """[READY-8]: servers then go on without a lifespan."""

    async def unused(*_: object) -> Any:
        raise AssertionError("nothing is received or sent")

    with pytest.raises(ValueError, match="lifespan"):
        await readiness_app(ScriptedWorker())({"type": "lifespan"}, unused, unused)
