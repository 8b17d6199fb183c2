"""A fan-out as wide as its input, and its join."""

import pytest

from dexsdk.testing import start_env_sync
from examples.parallel_join import BookWords, WordCountFlow


@pytest.mark.parametrize("pages", [1, 2, 40])
def test_as_many_steps_count_as_there_are_pages_and_one_waits_for_all(pages: int) -> None:
    """[DEC-1, CHAN-4] for_n is met by the last page."""
    with start_env_sync(WordCountFlow()) as env:
        env.client.start_flow(WordCountFlow, "book", ["word " * number for number in range(pages)])
        words = env.client.wait_for_flow("book", timeout=10).single_output(BookWords)
        assert words == BookWords(sum(range(pages)), list(range(pages)))
        scheduled = [e.data["step_type"] for e in env.client.get_history("book").events if e.kind == "StepScheduled"]
        assert scheduled == ["SplitStep", *["CountStep"] * pages, "JoinStep"]


def test_a_book_without_pages_has_no_words() -> None:
    """[CHAN-5] for_n(0) is refused, so the empty input takes another way."""
    with start_env_sync(WordCountFlow()) as env:
        env.client.start_flow(WordCountFlow, "book", [])
        assert env.client.wait_for_flow("book", timeout=10).single_output(BookWords) == BookWords(0, [])


def test_a_page_that_is_counted_twice_counts_once() -> None:
    """[GEN-5, STEP-9] the publication is part of the result, and only one result is accepted."""
    with start_env_sync(WordCountFlow(), auto_skip=False) as env:
        env.client.start_flow(WordCountFlow, "empty", [])
        env.duplicate_next_delivery()
        env.client.start_flow(WordCountFlow, "book", ["a b", "c"])
        assert env.client.wait_for_flow("book", timeout=10).single_output(BookWords) == BookWords(3, [2, 1])
