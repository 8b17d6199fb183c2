"""The values inside a handler's result, for whoever moves the large ones out of it [BLOB-2]."""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from dexpb.v1 import frames

Change = Callable[[bytes], bytes]


def values_of(output: frames.Output) -> list[bytes]:
    """All values of a result, in one order."""
    values: list[bytes] = []

    def note(value: bytes) -> bytes:
        values.append(value)
        return value

    changed(output, note)
    return values


def with_values(output: frames.Output, values: Iterable[bytes]) -> frames.Output:
    """The same result with other values in the order of `values_of`."""
    following = iter(values)
    return changed(output, lambda _: next(following))


def changed(output: frames.Output, change: Change) -> frames.Output:
    """The same result with every value changed."""
    return replace(
        output,
        wait=None if output.wait is None else _wait(output.wait, change),
        decision=None if output.decision is None else _decision(output.decision, change),
        writes=tuple((key, None if value is None else change(value)) for key, value in output.writes),
        publications=_pairs(output.publications, change),
        locals=_pairs(output.locals, change),
        recorded=_pairs(output.recorded, change),
        output=change(output.output),
        next_steps=_movements(output.next_steps, change),
    )


def _pairs(pairs: tuple[tuple[str, bytes], ...], change: Change) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, change(value)) for name, value in pairs)


def _movements(movements: tuple[frames.Movement, ...], change: Change) -> tuple[frames.Movement, ...]:
    return tuple(replace(movement, input=change(movement.input)) for movement in movements)


def _wait(wait: frames.Wait, change: Change) -> frames.Wait:
    if not wait.sub_flows:
        return wait
    children = tuple(
        replace(
            child,
            start_step=_movements((child.start_step,), change)[0],
            attributes=_pairs(child.attributes, change),
        )
        for child in wait.sub_flows
    )
    return replace(wait, sub_flows=children)


def _decision(decision: frames.Decision, change: Change) -> frames.Decision:
    return replace(decision, movements=_movements(decision.movements, change), output=change(decision.output))
