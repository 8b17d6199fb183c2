"""How Flow types begin, as workers announce it."""

from dexd.api.flow_types import FLOW_TYPES_MAX, FlowTypeDirectory
from dexd.core.values import StepPlan


def test_newest_announcement_of_a_flow_type_wins() -> None:
    directory = FlowTypeDirectory()
    directory.learn({"Order": StepPlan("Old", b"", has_wait_for=False), "Silent": None})
    directory.learn({"Order": StepPlan("New", b"", has_wait_for=True)})
    assert directory.start_steps == {"Order": StepPlan("New", b"", has_wait_for=True), "Silent": None}


def test_directory_forgets_the_oldest_announcements_beyond_its_bound() -> None:
    """[ARCH-8]"""
    directory = FlowTypeDirectory()
    directory.learn({"first": None})
    directory.learn({f"type-{number}": None for number in range(FLOW_TYPES_MAX)})
    assert "first" not in directory.start_steps
    assert len(directory.start_steps) == FLOW_TYPES_MAX
