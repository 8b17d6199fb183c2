"""Count the words of a book, every page at the same time.

Shows a fan-out as wide as the input, and a join: each Step publishes what it found, and one Step waits until there are
as many messages as pages. A page that fails is tried again while the others go on. Start a server (`dexd serve`), then
`python -m examples.parallel_join`.
"""

import uuid
from dataclasses import dataclass

from dexsdk import (
    Channel,
    Context,
    Flow,
    PersistenceSchema,
    Step,
    StepDecision,
    StepList,
    StepMovement,
    Wait,
    dead_end,
    go_to_many,
    graceful_complete,
)
from examples.local_worker import run, serving


@dataclass(frozen=True)
class Page:
    """One page of the book."""

    number: int
    text: str


@dataclass(frozen=True)
class PageWords:
    """What was counted on a page."""

    number: int
    words: int


@dataclass(frozen=True)
class BookWords:
    """What was counted in the whole book."""

    total: int
    by_page: list[int]


COUNTED = Channel("counted", PageWords)


class SplitStep(Step[list[str]]):
    """Schedule one Step a page, and the one that waits for them."""

    def execute(self, context: Context, texts: list[str]) -> StepDecision:
        if not texts:
            return graceful_complete(BookWords(0, []))
        pages = (StepMovement.of(CountStep, Page(number, text)) for number, text in enumerate(texts, 1))
        return go_to_many(*pages, StepMovement.of(JoinStep, len(texts)))


class CountStep(Step[Page]):
    """Count one page; its branch ends there."""

    def execute(self, context: Context, page: Page) -> StepDecision:
        COUNTED.publish(context, PageWords(page.number, len(page.text.split())))
        return dead_end()


class JoinStep(Step[int]):
    """Wait for all pages, in whatever order they come."""

    def wait_for(self, context: Context, pages: int) -> Wait:
        return Wait.until(COUNTED.for_n(pages))

    def execute(self, context: Context, pages: int) -> StepDecision:
        counted = sorted(COUNTED.results(context), key=lambda page: page.number)
        by_page = [page.words for page in counted]
        return graceful_complete(BookWords(sum(by_page), by_page))


class WordCountFlow(Flow[list[str]]):
    """Split, count, join."""

    def get_steps(self) -> StepList[list[str]]:
        return StepList.start_step(SplitStep()).other_steps(CountStep(), JoinStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(COUNTED)


async def play(server: str) -> None:
    """Count a book of twenty pages, and one without any."""
    async with serving(WordCountFlow(), server) as client:
        for pages in (["it was a dark and stormy night"] * 20, []):
            flow_id = f"book-{uuid.uuid4().hex[:8]}"
            await client.start_flow(WordCountFlow, flow_id, pages)
            result = await client.wait_for_flow(flow_id)
            words = result.single_output(BookWords)
            print(flow_id, result.status.value, f"{words.total} words on {len(words.by_page)} pages")


if __name__ == "__main__":
    run(play, __doc__)
