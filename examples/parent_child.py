"""Fan work out to children and gather what became of them, or be content with the first few.

Shows SubFlows: `Wait.all_of` gathers every child, whatever its end; a quorum is a Step that asks for one more answer
with `Wait.any_of` until it has enough; and the reuse policy says what a second life of the parent does with children of
the first. Start a server (`dexd serve`), then `python -m examples.parent_child`.
"""

import uuid
from dataclasses import dataclass

from dexsdk import (
    AsyncClient,
    Channel,
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
    """Quorum of one."""

    def get_steps(self) -> StepList[Survey]:
        return StepList.start_step(FirstStep())


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
    """Gather three answers, one of which nobody gives; then take the first of two."""
    async with serving(GatherFlow(), server, FirstFlow(), AskFlow()) as client:
        gather, first = (f"survey-{uuid.uuid4().hex[:8]}" for _ in range(2))
        await client.start_flow(GatherFlow, gather, Survey("tea or coffee?", ["Ada", "Nobody", "Grace"]))
        await client.start_flow(FirstFlow, first, Survey("tea or coffee?", ["Ada", "Grace"]))
        for parent, number, answer in ((gather, 0, "tea"), (gather, 2, "coffee"), (first, 1, "tea")):
            await client.publish(await started(client, parent, number), ANSWER, answer)
        for flow_id in (gather, first):
            result = await client.wait_for_flow(flow_id)
            print(flow_id, result.status.value, "; ".join(result.single_output(list[str])))


if __name__ == "__main__":
    run(play, __doc__)
