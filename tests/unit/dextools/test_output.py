"""Answers for people [SURF-20]."""

import pytest

from dextools.cli.output import Output


def test_fields_show_several_texts_below_each_other_and_escape_line_ends_of_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """[SURF-20]"""
    human = {"batch_id": "b-1", "reason": "a\nstatus  COMPLETED", "sample": ("flow-1", "flow\n2"), "problems": ()}
    Output(as_json=False).fields({}, human)
    assert capsys.readouterr().out.splitlines() == [
        "batch_id  b-1",
        r"reason    a\x0astatus  COMPLETED",
        "sample    flow-1",
        r"          flow\x0a2",
    ]
