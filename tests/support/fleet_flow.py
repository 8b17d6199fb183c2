"""The Flow that fleets of workers serve."""

from dexsdk import Context, Flow, Step, StepDecision, StepList, graceful_complete


class EchoStep(Step[int]):
    async def execute(self, context: Context, input: int) -> StepDecision:
        return graceful_complete(input)


class EchoFlow(Flow[int]):
    """Completes with its input."""

    def get_steps(self) -> StepList[int]:
        return StepList.start_step(EchoStep())
