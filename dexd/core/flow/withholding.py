"""Values that are too large to travel with every call: handlers get references and fetch them at first read [ATTR-7].

A reference means the value as of the hand-over. The run keeps one value for all; only when somebody overwrites it while
a call may still read it, the old one is kept beside that call. So it costs nothing as long as nothing is large, and
survives a restart like everything that is folded.
"""

from collections.abc import Iterator, Mapping

from dexd.core.config import INLINE_MAP_VALUES_BYTES_MAX, INLINE_VALUE_BYTES_MAX, MAP_KEY_SEPARATOR
from dexd.core.flow.state import RunState, StepExecution


def withheld_keys(attributes: Mapping[str, bytes]) -> Iterator[str]:
    """Values above 64 KiB, and map values beyond the first 1 MiB, in the order in which they were first written."""
    room = INLINE_MAP_VALUES_BYTES_MAX
    for key, value in attributes.items():
        size = len(value)
        if size > INLINE_VALUE_BYTES_MAX:
            yield key
        elif MAP_KEY_SEPARATOR in key:
            room -= size
            if room < 0:
                yield key


def lend(run: RunState, step: StepExecution) -> None:
    """Part of the fold: the Step execution was handed over, with references to what is large."""
    step.withheld = {}
    if run.attribute_bytes > INLINE_VALUE_BYTES_MAX:
        step.withheld = dict.fromkeys(withheld_keys(run.attributes))
    if step.withheld:
        run.lending[step.step_execution_id] = None
    else:
        run.lending.pop(step.step_execution_id, None)


def take_back(run: RunState, step: StepExecution) -> None:
    """Part of the fold: its handler reads nothing any more."""
    step.withheld = {}
    run.lending.pop(step.step_execution_id, None)


def keep_for_readers(run: RunState, key: str, value: bytes) -> None:
    """Part of the fold: the value is about to be overwritten or deleted; calls that refer to it keep it."""
    for step_execution_id in run.lending:
        withheld = run.steps[step_execution_id].withheld
        if key in withheld and withheld[key] is None:
            withheld[key] = value


def lent_value(run: RunState, step: StepExecution, key: str) -> bytes | None:
    """The value as of the hand-over; None if it was not withheld from that call."""
    if key not in step.withheld:
        return None
    kept = step.withheld[key]
    return run.attributes[key] if kept is None else kept
