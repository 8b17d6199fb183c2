"""Flows whose one Step does what a test gives it, so that each test shows the lines it is about."""

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
    StepOptions,
    Wait,
    dead_end,
    rpc,
)

Body = Callable[[Context], Any]


def _end(context: Context) -> StepDecision:
    return dead_end()


def _skip(context: Context) -> Wait:
    return Wait.skip_immediately()


class ScriptedStep(Step[None]):
    """Runs what it was given; named ``Scripted``."""

    def __init__(self, execute: Body = _end, wait_for: Body = _skip, options: StepOptions | None = None) -> None:
        self.on_execute = execute
        self.on_wait_for = wait_for
        self.options = options or StepOptions()

    def wait_for(self, context: Context, input: None) -> Wait:
        wait: Wait = self.on_wait_for(context)
        return wait

    def execute(self, context: Context, input: None) -> StepDecision:
        decision: StepDecision = self.on_execute(context)
        return decision

    def get_step_type(self) -> str:
        return "Scripted"

    def get_step_options(self) -> StepOptions:
        return self.options


class CountStep(Step[int]):
    """Takes an int and ends its branch."""

    def execute(self, context: Context, input: int) -> StepDecision:
        return dead_end()


class ScriptedFlow(Flow[None]):
    """Starts with a ScriptedStep; also has CountStep and the RPC ``ask``."""

    def __init__(
        self,
        *definitions: AnyAttribute | AnyChannel,
        execute: Body = _end,
        wait_for: Body = _skip,
        ask: Body = _end,
        options: StepOptions | None = None,
    ) -> None:
        self.start = ScriptedStep(execute, wait_for, options)
        self.on_ask = ask
        self.definitions = definitions

    def get_steps(self) -> StepList[None]:
        return StepList.start_step(self.start).other_steps(CountStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(*self.definitions)

    @rpc
    def ask(self, context: Context) -> RPCResult[int]:
        result: RPCResult[int] = self.on_ask(context)
        return result
