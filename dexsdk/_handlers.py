"""The handlers of a registry, by what a call names them by; looked up with every call."""

from collections.abc import Mapping
from typing import TypeAlias

from dexpb.v1 import frames
from dexsdk._registered import Handler, RegisteredFlow
from dexsdk._registry import Registry

HandlerKey: TypeAlias = tuple[str, str, int]
"""Flow type, Step type or RPC name, method."""


def key_of(assign: frames.Assign) -> HandlerKey:
    """Name the handler that a call is for."""
    return assign.flow_type, assign.name, assign.token.method


def find_handlers(registry: Registry) -> Mapping[HandlerKey, tuple[RegisteredFlow, Handler]]:
    """Give all handlers, each with its Flow."""
    found: dict[HandlerKey, tuple[RegisteredFlow, Handler]] = {}
    for flow in registry.flows:
        if flow.timeout_handler is not None:
            found[flow.flow_type, frames.TIMEOUT_HANDLER, frames.METHOD_EXECUTE] = flow, flow.timeout_handler
        for name, step in flow.steps.items():
            found[flow.flow_type, name, frames.METHOD_WAIT_FOR] = flow, step.wait_for
            found[flow.flow_type, name, frames.METHOD_EXECUTE] = flow, step.execute
        for name, rpc in flow.rpcs.items():
            found[flow.flow_type, name, frames.METHOD_RPC] = flow, rpc
    return found


def find_async_handlers(registry: Registry) -> frozenset[HandlerKey]:
    """Name all coroutine handlers; which runner a call needs is known before user code touches its input."""
    return frozenset(key for key, (_, handler) in find_handlers(registry).items() if handler.is_async)
