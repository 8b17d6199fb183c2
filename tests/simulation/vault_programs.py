"""A Flow whose RPC takes named messages out of a Channel, all of them or none [RPC-5, CHAN-8]."""

from collections.abc import Callable, Mapping
from typing import Any

from dexpb.v1 import frames
from tests.simulation.answers import QUICK, Result, complete, decide, value, wait_for_channel

LOCKS = ("door",)

FLOWS = (
    frames.FlowDescriptor(
        "Vault",
        frames.StepDescriptor("Keep", True, QUICK),
        ("Keep",),
        ("take",),
        (frames.RpcDescriptor("take", LOCKS, True),),
    ),
)


def _keep_wait(assign: frames.Assign, _: Any) -> Result:
    return wait_for_channel(assign, "close")


def _keep(assign: frames.Assign, _: Any) -> Result:
    return decide(assign, complete("closed"))


def _take(assign: frames.Assign, taking: Any) -> Result:
    """A write, a message and the deletions belong together."""
    return frames.Output(
        assign.stream,
        assign.token,
        writes=((f"taken {taking['by']}", value(taking["ids"])),),
        publications=(("taken", value(taking["by"])),),
        deletions=tuple(("kept", message_id) for message_id in taking["ids"]),
        output=value(taking["by"]),
    )


HANDLERS: Mapping[tuple[str, str, int], Callable[[frames.Assign, Any], Result]] = {
    ("Vault", "Keep", frames.METHOD_WAIT_FOR): _keep_wait,
    ("Vault", "Keep", frames.METHOD_EXECUTE): _keep,
    ("Vault", "take", frames.METHOD_RPC): _take,
}
