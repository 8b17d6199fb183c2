"""What differs between two states [SURF-23]."""

from typing import Any

import msgspec
import pytest

from dextools.state_diff import Change, changes


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1, "b": {"c": [1]}}, {"a": 1, "b": {"c": [1]}}, []),
        ({"a": 1}, {"a": 2}, [Change("/a", 1, 2)]),
        ({"a": 1}, {"a": True}, [Change("/a", 1, True)]),
        ({"a": None}, {"a": {}}, [Change("/a", None, {})]),
        ({"a": 1, "x": 1}, {"x": 1, "b": 2}, [Change("/a", 1), Change("/b", after=2)]),
        ({"a/b~c": 1}, {"a/b~c": 2}, [Change("/a~1b~0c", 1, 2)]),
        ({"q": [1, 2, 3]}, {"q": [2, 3, 4]}, [Change("/q/0", 1), Change("/q/2", after=4)]),
        ({"q": [{"n": 1}, 2]}, {"q": [{"n": 5}, 2]}, [Change("/q/0/n", 1, 5)]),
        ({"q": [1, 2]}, {"q": [3]}, [Change("/q/0", 1, 3), Change("/q/1", 2)]),
        ({}, {"a": {"b": 1}}, [Change("/a", after={"b": 1})]),
        (1, 2, [Change("", 1, 2)]),
    ],
)
def test_surf_23_smallest_parts_that_differ_are_named(before: Any, after: Any, expected: list[Change]) -> None:
    """[SURF-23] By JSON pointer; what was added has no before, what is gone no after."""
    assert list(changes(before, after)) == expected


def test_surf_23_what_is_not_there_is_not_shown() -> None:
    assert msgspec.to_builtins(Change("/a", after=None)) == {"path": "/a", "after": None}
    assert msgspec.to_builtins(Change("/a", 1)) == {"path": "/a", "before": 1}
