"""Steps and Flows made of functions, so that a test shows in one place what its Flow does."""

from collections.abc import Callable
from typing import Any

from dexsdk import (
    AnyAttribute,
    AnyChannel,
    Context,
    Flow,
    PersistenceSchema,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    StepMovement,
    StepOptions,
    Wait,
    rpc,
)

Execute = Callable[[Context, int], StepDecision]
WaitFor = Callable[[Context, int], Wait]


class Act(Step[int]):
    """Executes a function."""

    def __init__(self, name: str, execute: Execute, options: StepOptions | None = None) -> None:
        self.name = name
        self.on_execute = execute
        self.options = options or StepOptions()

    def execute(self, context: Context, input: int) -> StepDecision:
        return self.on_execute(context, input)

    def get_step_type(self) -> str:
        return self.name

    def get_step_options(self) -> StepOptions:
        return self.options


class WaitingAct(Act):
    """Waits for what one function says and executes another."""

    def __init__(self, name: str, wait_for: WaitFor, execute: Execute, options: StepOptions | None = None) -> None:
        super().__init__(name, execute, options)
        self.on_wait_for = wait_for

    def wait_for(self, context: Context, input: int) -> Wait:
        return self.on_wait_for(context, input)


class Play(Flow[int]):
    """A Flow of acts, the first of which starts it; the RPC ``schedule`` runs another one."""

    def __init__(self, *acts: Act, uses: tuple[AnyAttribute | AnyChannel, ...] = ()) -> None:
        self.acts = acts
        self.uses = uses

    def get_steps(self) -> StepList[int]:
        return StepList.start_step(self.acts[0]).other_steps(*self.acts[1:])

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(*self.uses)

    def act(self, name: str) -> Act:
        """The act of that name."""
        return next(act for act in self.acts if act.name == name)

    @rpc
    def schedule(self, context: Context, input: str) -> RPCResult[None]:
        return RPCResult.of(None, StepMovement.of(self.act(input), 0))


def raising(error: BaseException) -> Callable[[Context, int], Any]:
    """A function that raises."""

    def act(context: Context, input: int) -> Any:
        raise error

    return act
