"""Sizes of the values inside a handler's result: what is above 64 KiB is to be uploaded, not sent along [LIM-1]."""

from collections.abc import Iterator

from dexd.core.commands import CompleteCall
from dexd.core.config import INLINE_VALUE_BYTES_MAX
from dexd.core.values import StepPlan


def oversized_value(command: CompleteCall) -> tuple[str, int] | None:
    """What a result sends along although it is too large for that, and its size."""
    return next(((what, size) for what, size in _sizes(command) if size > INLINE_VALUE_BYTES_MAX), None)


def _sizes(command: CompleteCall) -> Iterator[tuple[str, int]]:
    response = command.response
    yield "output", len(response.output)
    yield from ((f"Attribute {key!r}", len(value)) for key, value in response.writes if value is not None)
    yield from ((f"message of Channel {key!r}", len(value)) for key, value in response.publications)
    yield from ((f"local {name!r}", len(value)) for name, value in response.locals)
    yield from ((f"recorded event {name!r}", len(value)) for name, value in response.recorded)
    yield from map(_input_size, response.next_steps)
    if response.decision is not None:
        yield "output", len(response.decision.output)
        yield from map(_input_size, response.decision.movements)
    for child in command.sub_flows:
        yield _input_size(child.start_step)
        yield from ((f"Attribute {key!r} of a SubFlow", len(value)) for key, value in child.attributes)


def _input_size(plan: StepPlan) -> tuple[str, int]:
    return f"input of {plan.step_type!r}", len(plan.input)
