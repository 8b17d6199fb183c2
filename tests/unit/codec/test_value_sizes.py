"""Values that should have been uploaded are found wherever a result carries them [LIM-1]."""

import pytest

from dexd.codec.value_sizes import oversized_value
from dexd.core.config import INLINE_VALUE_BYTES_MAX
from dexd.core.sub_flows import SubFlowPlan
from dexd.core.values import Response, StepPlan
from tests.support.builders import SKIP, complete, decides, force, go_to, waits

LARGE = b"x" * (INLINE_VALUE_BYTES_MAX + 1)
EXACT = LARGE[1:]


def child(value: bytes, attribute: bytes) -> SubFlowPlan:
    return SubFlowPlan("Child", StepPlan("Begin", value, has_wait_for=False), (("a", attribute),))


@pytest.mark.parametrize(
    ("response", "what"),
    [
        (Response(output=LARGE), "output"),
        (Response(writes=(("a", None), ("b", EXACT), ("c", LARGE))), "Attribute 'c'"),
        (Response(publications=(("c", LARGE),)), "message of Channel 'c'"),
        (Response(locals=(("l", LARGE),)), "local 'l'"),
        (Response(recorded=(("r", LARGE),)), "recorded event 'r'"),
        (Response(next_steps=(StepPlan("Next", LARGE, has_wait_for=False),)), "input of 'Next'"),
        (decides(force(LARGE)), "output"),
        (decides(go_to(StepPlan("Next", LARGE, has_wait_for=False))), "input of 'Next'"),
    ],
)
def test_lim_1_a_large_value_is_found_and_named(response: Response, what: str) -> None:
    assert oversized_value(complete(response)) == (what, len(LARGE))


def test_lim_1_a_large_value_for_a_child_is_found_and_named() -> None:
    plans = (child(b"1", EXACT),)
    assert oversized_value(complete(waits(SKIP), sub_flows=plans)) is None
    assert oversized_value(complete(waits(SKIP), sub_flows=(*plans, child(LARGE, b"1")))) == (
        "input of 'Begin'",
        len(LARGE),
    )
    assert oversized_value(complete(waits(SKIP), sub_flows=(child(EXACT, LARGE),))) == (
        "Attribute 'a' of a SubFlow",
        len(LARGE),
    )
