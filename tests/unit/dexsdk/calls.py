"""Calls as a server would assign them, valid by default, and the frames that answer them."""

from typing import Any

from dexpb.v1 import frames
from dexsdk import Flow, Registry
from dexsdk._invoker import Invoker, PreparedCall

FLOW_ID = "flow-1"


def assign(flow: Flow[Any], name: str, method: int = frames.METHOD_EXECUTE, **fields: Any) -> frames.Assign:
    """Build an Assign for a Step or RPC of a Flow."""
    call = f"sys:rpc-{fields.pop('request_id', 'req-1')}" if method == frames.METHOD_RPC else f"{name}-1"
    token = frames.Token(
        run_id="run-1",
        call=fields.pop("call", call),
        method=method,
        attempt=fields.pop("attempt", 1),
        delivery=fields.pop("delivery", 1),
    )
    defaults: dict[str, Any] = {
        "stream": 7,
        "token": token,
        "flow_id": FLOW_ID,
        "flow_type": flow.get_flow_type(),
        "name": name,
        "input": b"null",
        "ordinal": 1,
        "flow_started_at": 1_000,
        "first_attempt_at": 2_000,
        "deadline": 9_000,
    }
    return frames.Assign(**(defaults | fields))


def prepare(flow: Flow[Any], call: frames.Assign, **invoker_options: Any) -> PreparedCall:
    """Prepare a call that is expected to have a handler."""
    prepared = Invoker(Registry([flow]), **invoker_options).prepare(call)
    assert isinstance(prepared, PreparedCall), prepared
    return prepared


def run(flow: Flow[Any], name: str, method: int = frames.METHOD_EXECUTE, **fields: Any) -> frames.Output:
    """Run a sync handler that is expected to succeed."""
    response = prepare(flow, assign(flow, name, method, **fields)).run()
    assert isinstance(response, frames.Output), response
    return response


def run_to_failure(flow: Flow[Any], name: str, method: int = frames.METHOD_EXECUTE, **fields: Any) -> frames.Failure:
    """Run a sync handler that is expected to fail."""
    response = prepare(flow, assign(flow, name, method, **fields)).run()
    assert isinstance(response, frames.Failed), response
    return response.failure
