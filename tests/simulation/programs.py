"""The Flows of the simulated workload: what their handlers answer, as wire results.

Handlers are pure functions of the call, so a redelivery gives the same answer; failures are drawn by the caller.
Every Flow ends by itself once faults stop, which is what the liveness check relies on.
"""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from dexpb.v1 import frames
from tests.simulation import document_programs, family_programs, vault_programs
from tests.simulation.answers import (
    DEAD_END,
    QUICK,
    Result,
    complete,
    decide,
    fail,
    force_fail,
    go_to,
    value,
    wait_for_channel,
)

RUSH = frames.StepOptions(
    execute_timeout_ms=60_000,
    execute_retry=frames.RetryPolicy(initial_interval_ms=200, maximum_interval_ms=5_000, jitter=0.2),
    execute_durability=frames.DURABILITY_ASYNC,
)
"""What follows may be ahead of the log, so a crash takes it back [DUR-2]."""
GIVES_UP = frames.StepOptions(
    execute_retry=frames.RetryPolicy(initial_interval_ms=100, maximum_attempts=3),
    recovery=frames.RecoveryStep("Mend", False, QUICK),
)

LOCKED = msgspec.structs.replace(QUICK, execute_locks=("count",))

FLOWS = (
    frames.FlowDescriptor("Chain", frames.StepDescriptor("Hop", False, QUICK), ("Hop",)),
    frames.FlowDescriptor("Gate", frames.StepDescriptor("Gate", True, QUICK), ("Gate",)),
    frames.FlowDescriptor("Fan", frames.StepDescriptor("Split", False, QUICK), ("Split", "Leaf", "Join")),
    frames.FlowDescriptor("Doomed", frames.StepDescriptor("Doomed", False, GIVES_UP), ("Doomed", "Mend")),
    frames.FlowDescriptor("Race", frames.StepDescriptor("Line", False, QUICK), ("Line", "Runner", "Bystander")),
    frames.FlowDescriptor("Drain", frames.StepDescriptor("Drain", True, QUICK), ("Drain",)),
    frames.FlowDescriptor(
        "Late", frames.StepDescriptor("Never", True, QUICK), ("Never", "Amend", frames.TIMEOUT_HANDLER)
    ),
    frames.FlowDescriptor("Again", frames.StepDescriptor("Try", False, QUICK), ("Try",)),
    frames.FlowDescriptor(
        "Ledger",
        frames.StepDescriptor("Open", False, QUICK),
        ("Open", "Add", "Close"),
        ("increment",),
        (frames.RpcDescriptor("increment", ("count",)),),
    ),
    frames.FlowDescriptor("Inbox", frames.StepDescriptor("Read", True, QUICK), ("Read",), ("append", "peek")),
    *family_programs.FLOWS,
    *vault_programs.FLOWS,
    *document_programs.FLOWS,
)
START_STEPS = {flow.flow_type: flow.start_step for flow in FLOWS}


def run(assign: frames.Assign) -> Result:
    """Answer a call."""
    handler = _HANDLERS[assign.flow_type, assign.name, assign.token.method]
    return handler(assign, json.loads(assign.input) if assign.input else None)


def _hop(assign: frames.Assign, left: Any) -> Result:
    if left == 0:
        return decide(assign, complete("done"))
    options = RUSH if assign.flow_id[-1] in "02468" else QUICK
    return decide(assign, go_to(frames.Movement("Hop", value(left - 1), False, options)))


def _gate_wait(assign: frames.Assign, duration_ms: Any) -> Result:
    conditions = (
        frames.Condition(frames.CONDITION_TIMER, "late", duration_ms=duration_ms),
        frames.Condition(frames.CONDITION_CHANNEL, "go", channel="go", at_least=2, at_most=2),
    )
    return frames.Output(assign.stream, assign.token, wait=frames.Wait(frames.WAIT_ANY_OF, conditions))


def _gate(assign: frames.Assign, _: Any) -> Result:
    late, go = assign.results
    return decide(assign, complete({"late": late.met, "messages": len(go.values)}))


def _split(assign: frames.Assign, leaves: Any) -> Result:
    movements = [frames.Movement("Leaf", value(number), False, QUICK) for number in range(leaves)]
    return decide(assign, go_to(frames.Movement("Join", value(leaves), True, QUICK), *movements))


def _leaf(assign: frames.Assign, number: Any) -> Result:
    return decide(assign, DEAD_END, publications=(("leaves", value(number)),))


def _join_wait(assign: frames.Assign, leaves: Any) -> Result:
    return wait_for_channel(assign, "leaves", at_least=leaves, at_most=leaves)


def _join(assign: frames.Assign, _: Any) -> Result:
    return decide(assign, complete(sorted(json.loads(v) for v in assign.results[0].values)))


def _doomed(assign: frames.Assign, _: Any) -> Result:
    return fail(assign, "always")


def _mend(assign: frames.Assign, _: Any) -> Result:
    error = assign.recovery_error
    return decide(assign, complete(None if error is None else error.error_type))


def _read_wait(assign: frames.Assign, _: Any) -> Result:
    return wait_for_channel(assign, "inbox", at_most=5)


def _read(assign: frames.Assign, _: Any) -> Result:
    """Append what was consumed to an Attribute; the message "end" closes the Flow."""
    read = [json.loads(v) for v in assign.results[0].values]
    seen = json.loads(assign.attributes.get("seen", b"[]")) + read
    decision = complete("read") if "end" in read else go_to(frames.Movement("Read", b"", True, QUICK))
    indexed = (frames.IndexWrite("read", frames.INDEX_INT, len(seen)),)
    return decide(assign, decision, writes=(("seen", value(seen)), ("read", value(len(seen)))), indexed=indexed)


def _line(assign: frames.Assign, runners: Any) -> Result:
    movements = [frames.Movement("Runner", value(number), number % 2 == 1, QUICK) for number in range(runners)]
    return decide(assign, go_to(frames.Movement("Bystander", b"", False, QUICK), *movements))


def _run_wait(assign: frames.Assign, number: Any) -> Result:
    condition = frames.Condition(frames.CONDITION_TIMER, duration_ms=number * 100)
    return frames.Output(assign.stream, assign.token, wait=frames.Wait(frames.WAIT_ALL_OF, (condition,)))


def _win(assign: frames.Assign, number: Any) -> Result:
    """The first one cancels the others, wherever they are: running, waiting or backing off."""
    siblings = frames.Canceling(sibling_types=("Runner",))
    return decide(assign, msgspec.structs.replace(complete(number), canceling=siblings))


def _look_on(assign: frames.Assign, _: Any) -> Result:
    return decide(assign, DEAD_END, writes=(("seen", value("race")),))


def _drain_wait(assign: frames.Assign, _: Any) -> Result:
    return wait_for_channel(assign, "work", at_most=3)


def _drain(assign: frames.Assign, _: Any) -> Result:
    """Take what is there; close when nothing is left, in one step with looking."""
    seen = json.loads(assign.attributes.get("seen", b"[]")) + [json.loads(v) for v in assign.results[0].values]
    again = frames.Movement("Drain", b"", True, QUICK)
    decision = frames.Decision(
        frames.DECISION_FORCE_COMPLETE_IF_CHANNELS_EMPTY, (again,), value("drained"), channels=("work",)
    )
    return decide(assign, decision, writes=(("seen", value(seen)),))


def _never(assign: frames.Assign, _: Any) -> Result:
    return wait_for_channel(assign, "never")


def _handle_timeout(assign: frames.Assign, _: Any) -> Result:
    amend = go_to(frames.Movement("Amend", b"", False, QUICK))
    return decide(assign, msgspec.structs.replace(amend, canceling=frames.Canceling(("Never",))))


def _amend(assign: frames.Assign, _: Any) -> Result:
    return decide(assign, complete("amended"))


def _try(assign: frames.Assign, _: Any) -> Result:
    return decide(assign, force_fail("never works"))


def _open(assign: frames.Assign, adds: Any) -> Result:
    movements = [frames.Movement("Add", b"", False, LOCKED) for _ in range(adds)]
    return decide(assign, go_to(frames.Movement("Close", b"", True, QUICK), *movements))


def _add(assign: frames.Assign, _: Any) -> Result:
    """Read and write: without the lock, one of two at once would be lost."""
    return decide(assign, DEAD_END, writes=(("count", _counted(assign)),))


def _increment(assign: frames.Assign, _: Any) -> Result:
    """The same in an RPC, which is refused while a Step has the lock [LOCK-4]."""
    count = _counted(assign)
    return frames.Output(assign.stream, assign.token, writes=(("count", count),), output=count)


def _counted(assign: frames.Assign) -> bytes:
    return value(json.loads(assign.attributes.get("count", b"0")) + 1)


def _close_wait(assign: frames.Assign, _: Any) -> Result:
    return wait_for_channel(assign, "close")


def _close(assign: frames.Assign, _: Any) -> Result:
    return decide(assign, complete("closed"))


def _append(assign: frames.Assign, item: Any) -> Result:
    return frames.Output(assign.stream, assign.token, publications=(("inbox", value(item)),), output=value(item))


def _peek(assign: frames.Assign, _: Any) -> Result:
    return frames.Output(assign.stream, assign.token, output=assign.attributes.get("seen", b"[]"))


_HANDLERS: dict[tuple[str, str, int], Callable[[frames.Assign, Any], Result]] = {
    ("Chain", "Hop", frames.METHOD_EXECUTE): _hop,
    ("Gate", "Gate", frames.METHOD_WAIT_FOR): _gate_wait,
    ("Gate", "Gate", frames.METHOD_EXECUTE): _gate,
    ("Fan", "Split", frames.METHOD_EXECUTE): _split,
    ("Fan", "Leaf", frames.METHOD_EXECUTE): _leaf,
    ("Fan", "Join", frames.METHOD_WAIT_FOR): _join_wait,
    ("Fan", "Join", frames.METHOD_EXECUTE): _join,
    ("Doomed", "Doomed", frames.METHOD_EXECUTE): _doomed,
    ("Doomed", "Mend", frames.METHOD_EXECUTE): _mend,
    ("Race", "Line", frames.METHOD_EXECUTE): _line,
    ("Race", "Runner", frames.METHOD_WAIT_FOR): _run_wait,
    ("Race", "Runner", frames.METHOD_EXECUTE): _win,
    ("Race", "Bystander", frames.METHOD_EXECUTE): _look_on,
    ("Drain", "Drain", frames.METHOD_WAIT_FOR): _drain_wait,
    ("Drain", "Drain", frames.METHOD_EXECUTE): _drain,
    ("Late", "Never", frames.METHOD_WAIT_FOR): _never,
    ("Late", "Amend", frames.METHOD_EXECUTE): _amend,
    ("Late", frames.TIMEOUT_HANDLER, frames.METHOD_EXECUTE): _handle_timeout,
    ("Again", "Try", frames.METHOD_EXECUTE): _try,
    ("Ledger", "Open", frames.METHOD_EXECUTE): _open,
    ("Ledger", "Add", frames.METHOD_EXECUTE): _add,
    ("Ledger", "Close", frames.METHOD_WAIT_FOR): _close_wait,
    ("Ledger", "Close", frames.METHOD_EXECUTE): _close,
    ("Ledger", "increment", frames.METHOD_RPC): _increment,
    ("Inbox", "Read", frames.METHOD_WAIT_FOR): _read_wait,
    ("Inbox", "Read", frames.METHOD_EXECUTE): _read,
    ("Inbox", "append", frames.METHOD_RPC): _append,
    ("Inbox", "peek", frames.METHOD_RPC): _peek,
    **family_programs.HANDLERS,
    **vault_programs.HANDLERS,
    **document_programs.HANDLERS,
}
