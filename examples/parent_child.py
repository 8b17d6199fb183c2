"""Fan work out to children and gather what became of them, or be content with the first or with a quorum.

Shows SubFlows: `Wait.all_of` gathers every child, whatever its end; `Wait.any_of` is content with the first one;
`Wait.any_combination_of` with any two of them, which is a quorum; and the reuse policy says what a second life of the
parent does with children of the first. Start a server (`dexd serve`), then `python -m examples.parent_child`.
"""

import uuid
from dataclasses import dataclass
from itertools import combinations

from dexsdk import (
    AsyncClient,
    Channel,
    ConditionCombination,
    Context,
    Flow,
    FlowResult,
    FlowStatus,
    PersistenceSchema,
    Step,
    StepDecision,
    StepList,
    SubFlow,
    SubFlowOptions,
    SubFlowReusePolicy,
    Wait,
    force_complete,
    force_fail,
    graceful_complete,
)
from examples.local_worker import run, serving

ANSWER = Channel("answer", str)


@dataclass(frozen=True)
class Survey:
    """A question, and who is asked."""

    question: str
    people: list[str]


class AskStep(Step[str]):
    """Wait for one person's answer; somebody who is named Nobody has none."""

    def wait_for(self, context: Context, person: str) -> Wait:
        return Wait.skip_immediately() if person == "Nobody" else Wait.until(ANSWER.for_one())

    def execute(self, context: Context, person: str) -> StepDecision:
        if person == "Nobody":
            return force_fail("there is nobody")
        return graceful_complete(f"{person} says {ANSWER.results(context)[0]}")


class AskFlow(Flow[str]):
    """The child: one person's answer."""

    def get_steps(self) -> StepList[str]:
        return StepList.start_step(AskStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(ANSWER)


class GatherStep(Step[Survey]):
    """Ask everybody at once and wait for all of them. A second life of the survey takes the answers of the first."""

    def wait_for(self, context: Context, survey: Survey) -> Wait:
        keep = SubFlowOptions(reuse_policy=SubFlowReusePolicy.ATTACH)
        return Wait.all_of(*(SubFlow.run(AskFlow, person, keep) for person in survey.people))

    def execute(self, context: Context, survey: Survey) -> StepDecision:
        results = [SubFlow.get_condition_results(context, number) for number in range(len(survey.people))]
        return force_complete([_shown(result) for result in results])


class GatherFlow(Flow[Survey]):
    """Fan-in: every child's end is a result, a failure too."""

    def get_steps(self) -> StepList[Survey]:
        return StepList.start_step(GatherStep())


class FirstStep(Step[Survey]):
    """The first answer is enough; the other children go on, and their ends are of no concern here any more."""

    def wait_for(self, context: Context, survey: Survey) -> Wait:
        return Wait.any_of(*(SubFlow.run(AskFlow, person) for person in survey.people))

    def execute(self, context: Context, survey: Survey) -> StepDecision:
        results = [SubFlow.get_condition_results(context, number) for number in range(len(survey.people))]
        return force_complete([_shown(result) for result in results])


class FirstFlow(Flow[Survey]):
    """Whoever ends first decides."""

    def get_steps(self) -> StepList[Survey]:
        return StepList.start_step(FirstStep())


class QuorumStep(Step[Survey]):
    """Any two ends are enough, whoever gives them. Names tell the conditions apart: each person is asked once."""

    def wait_for(self, context: Context, survey: Survey) -> Wait:
        asked = [SubFlow.run(AskFlow, person, SubFlowOptions(condition_id=person)) for person in survey.people]
        return Wait.any_combination_of(*(ConditionCombination.of(*pair) for pair in combinations(asked, 2)))

    def execute(self, context: Context, survey: Survey) -> StepDecision:
        results = [SubFlow.get_condition_results(context, number) for number in range(len(survey.people))]
        return force_complete([_shown(result) for result in results])


class QuorumFlow(Flow[Survey]):
    """Quorum of two."""

    def get_steps(self) -> StepList[Survey]:
        return StepList.start_step(QuorumStep())


def _shown(result: FlowResult) -> str:
    if result.status is FlowStatus.COMPLETED:
        return result.single_output(str)
    return result.status.value if result.error_message is None else f"{result.status.value}: {result.error_message}"


async def started(client: AsyncClient, parent: str, number: int) -> str:
    """Return a child's Flow ID once it exists; handlers of the parent know it from `SubFlow.get_flow_id`."""
    async for event in client.watch_history(parent):
        if event.kind == "SubFlowStarted" and event.data["number"] == number:
            return str(event.data["flow_id"])
    raise RuntimeError(f"{parent} ended without child {number}")


async def play(server: str) -> None:
    """Gather three answers, one of which nobody gives; take the first of two; and two of three."""
    async with serving(GatherFlow(), server, FirstFlow(), QuorumFlow(), AskFlow()) as client:
        gather, first, quorum = (f"survey-{uuid.uuid4().hex[:8]}" for _ in range(3))
        await client.start_flow(GatherFlow, gather, Survey("tea or coffee?", ["Ada", "Nobody", "Grace"]))
        await client.start_flow(FirstFlow, first, Survey("tea or coffee?", ["Ada", "Grace"]))
        await client.start_flow(QuorumFlow, quorum, Survey("tea or coffee?", ["Ada", "Alan", "Grace"]))
        answers = ((gather, 0, "tea"), (gather, 2, "coffee"), (first, 1, "tea"), (quorum, 2, "tea"), (quorum, 0, "tea"))
        for parent, number, answer in answers:
            await client.publish(await started(client, parent, number), ANSWER, answer)
        for flow_id in (gather, first, quorum):
            result = await client.wait_for_flow(flow_id)
            print(flow_id, result.status.value, "; ".join(result.single_output(list[str])))


if __name__ == "__main__":
    run(play, __doc__)
