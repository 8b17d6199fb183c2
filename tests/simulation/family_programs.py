"""Flows whose Waits are for other Flows: what parents ask for, and children for every way to end [SUB-1, SUB-5]."""

from collections.abc import Callable, Mapping
from typing import Any

from dexd.core.terms import FlowTimeoutPolicy
from dexpb.v1 import frames
from tests.simulation.answers import QUICK, Result, complete, decide, fail, force_fail, go_to, value, wait_for_channel

HOPELESS = frames.StepOptions(execute_retry=frames.RetryPolicy(initial_interval_ms=100, maximum_attempts=2))
TWICE = frames.RetryPolicy(initial_interval_ms=300, maximum_attempts=2)

FLOWS = (
    frames.FlowDescriptor("Parent", frames.StepDescriptor("Raise", True, QUICK), ("Raise",)),
    frames.FlowDescriptor("Child", frames.StepDescriptor("Grow", False, QUICK), ("Grow", "Err", "Linger")),
)
"""A parent's input: `any` or `all`, the kinds of its children, how reuse policies are dealt, whether it fails then."""


def _grows(years: int) -> frames.SubFlow:
    return frames.SubFlow("Child", frames.Movement("Grow", value(years), False, QUICK))


def _gives_up() -> frames.SubFlow:
    return frames.SubFlow("Child", frames.Movement("Grow", value(-1), False, QUICK))


def _errs() -> frames.SubFlow:
    return frames.SubFlow("Child", frames.Movement("Err", value(None), False, HOPELESS))


def _tries_twice() -> frames.SubFlow:
    return frames.SubFlow("Child", frames.Movement("Grow", value(-1), False, QUICK), retry=TWICE)


def _times_out(policy: FlowTimeoutPolicy) -> frames.SubFlow:
    linger = frames.Movement("Linger", value(None), True, QUICK)
    return frames.SubFlow("Child", linger, timeout_ms=3_000, timeout_policy=policy)


def _lingers() -> frames.SubFlow:
    return frames.SubFlow("Child", frames.Movement("Linger", value(None), True, QUICK))


def _raises() -> frames.SubFlow:
    own = {"any": True, "children": ["grows", "gives up"], "reuse": 0, "fails": False}
    return frames.SubFlow("Parent", frames.Movement("Raise", value(own), True, QUICK), start_delay_ms=200)


CHILDREN: Mapping[str, tuple[Callable[[], frames.SubFlow], str]] = {
    "done at once": (lambda: _grows(0), "COMPLETED"),
    "grows": (lambda: _grows(4), "COMPLETED"),
    "gives up": (_gives_up, "FAILED"),
    "errs": (_errs, "FAILED"),
    "tries twice": (_tries_twice, "FAILED"),
    "times out": (lambda: _times_out(FlowTimeoutPolicy.FAIL), "FAILED"),
    "is canceled": (lambda: _times_out(FlowTimeoutPolicy.CANCEL), "CANCELED"),
    "raises": (_raises, "COMPLETED"),
    "lingers": (_lingers, ""),
}
"""Kind to the child and how it ends; `lingers` needs a client to stop it."""


def _raise_wait(assign: frames.Assign, plan: Any) -> Result:
    children = []
    for number, kind in enumerate(plan["children"]):
        make, _ = CHILDREN[kind]
        child = make()
        children.append(
            frames.SubFlow(
                child.flow_type,
                child.start_step,
                timeout_ms=child.timeout_ms,
                timeout_policy=child.timeout_policy,
                start_delay_ms=child.start_delay_ms,
                retry=child.retry,
                reuse_policy=(plan["reuse"] + number) % 3,
            )
        )
    conditions = tuple(frames.Condition(frames.CONDITION_SUB_FLOW) for _ in children)
    kind = frames.WAIT_ANY_OF if plan["any"] else frames.WAIT_ALL_OF
    return frames.Output(assign.stream, assign.token, wait=frames.Wait(kind, conditions, (), tuple(children)))


def _raise(assign: frames.Assign, plan: Any) -> Result:
    """Keep what the handler sees of its children."""
    seen = [None if result.sub_flow is None else result.sub_flow.status for result in assign.results]
    decision = force_fail("once more") if plan["fails"] else complete("raised")
    return decide(assign, decision, writes=(("children", value(seen)),))


def _grow(assign: frames.Assign, years: Any) -> Result:
    if years < 0:
        return decide(assign, force_fail("too hard"))
    if years == 0:
        return decide(assign, complete("grown"))
    return decide(assign, go_to(frames.Movement("Grow", value(years - 1), False, QUICK)))


def _err(assign: frames.Assign, _: Any) -> Result:
    return fail(assign, "always")


def _linger(assign: frames.Assign, _: Any) -> Result:
    return wait_for_channel(assign, "never")


HANDLERS: Mapping[tuple[str, str, int], Callable[[frames.Assign, Any], Result]] = {
    ("Parent", "Raise", frames.METHOD_WAIT_FOR): _raise_wait,
    ("Parent", "Raise", frames.METHOD_EXECUTE): _raise,
    ("Child", "Grow", frames.METHOD_EXECUTE): _grow,
    ("Child", "Err", frames.METHOD_EXECUTE): _err,
    ("Child", "Linger", frames.METHOD_WAIT_FOR): _linger,
}
