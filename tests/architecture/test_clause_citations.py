"""Every clause of the specification that is built has a test that cites it."""

import pytest

from tests.architecture.clause_citations import citations, cited_by_tests, faults, listed


def test_every_required_clause_is_cited_by_a_test() -> None:
    found = list(faults(listed("required.txt"), listed("pending.txt"), cited_by_tests()))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("def test_wait_5_timer_beats_queued_message() -> None: ...", {"WAIT-5"}),
        ("# [" + "LOCK-2] kept over retries", {"LOCK-2"}),
        ('"""Both [' + 'CHAN-3, DEC-7]."""', {"CHAN-3", "DEC-7"}),
        ('"""All of them [' + 'TIMER-9..11]."""', {"TIMER-9", "TIMER-10", "TIMER-11"}),
        ("def test_waits_are_cheap() -> None: ...", set()),
        ("WAIT-5 without brackets", set()),
    ],
)
def test_citations_are_found(text: str, clauses: set[str]) -> None:
    assert set(citations(text)) == clauses


@pytest.mark.parametrize(
    ("required", "pending", "cited", "fault"),
    [
        (["A-1"], [], set(), "A-1 has no test"),
        (["A-1"], ["A-1"], {"A-1"}, "A-1 has a test: delete it"),
        (["A-1"], ["A-1", "A-2"], set(), "A-2 is pending but not required"),
        (["A-1", "A-1"], [], {"A-1"}, "A-1 is listed twice"),
    ],
)
def test_disagreements_are_reported(required: list[str], pending: list[str], cited: set[str], fault: str) -> None:
    (found,) = faults(required, pending, cited)
    assert found.startswith(fault)


def test_pending_and_cited_clauses_that_agree_are_no_fault() -> None:
    assert not list(faults(["A-1", "A-2"], ["A-2"], {"A-1"}))
