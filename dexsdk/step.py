"""A unit of work of a Flow, and the list of them [STEP-1..9, FLOW-2]."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from dexsdk.context import Context
from dexsdk.options import StepOptions
from dexsdk.wait import Wait

if TYPE_CHECKING:  # A Step returns decisions and decisions name Steps; only the types refer to each other.
    from dexsdk.decision import StepDecision

In = TypeVar("In")


class Step(ABC, Generic[In]):
    """A unit of work: optionally waits, then executes and decides what follows.

    Handlers run at least once; whatever they do outside the Flow must use ``context.idempotency_key`` [STEP-9]. They
    get a snapshot and buffer their effects, which are applied together when they return [GEN-5]. Both methods annotate
    ``input`` with the same type [TYPE-3] and may be coroutines where the registry allows it.
    """

    def wait_for(self, context: Context, input: In) -> Wait | Awaitable[Wait]:  # noqa: ARG002 -- overridden
        """Say what ``execute`` waits for; a Step that does not override it executes at once."""
        return Wait.skip_immediately()

    @abstractmethod
    def execute(self, context: Context, input: In) -> "StepDecision | Awaitable[StepDecision]":
        """Do the work and decide what follows."""

    def get_step_type(self) -> str:
        """Name the Step in its Flow [ID-4]."""
        return type(self).__name__

    def get_step_options(self) -> StepOptions:
        """Give the options of every execution; a movement's own options override single fields [STEP-8]."""
        return StepOptions()


StepRef: TypeAlias = Step[In] | type[Step[In]]
"""A registered Step, or its class if exactly one instance of it is registered [FLOW-10]."""


class StepList(Generic[In]):
    """The Steps of a Flow: none or one start Step, whose input is the Flow's input, and any number of others."""

    def __init__(self, start: Step[In] | None, others: Sequence[Step[Any]]) -> None:
        """Use the static methods."""
        self.start = start
        self.others = tuple(others)

    @staticmethod
    def start_step(step: Step[In]) -> "StepList[In]":
        """Begin a list with its start Step."""
        return StepList(step, ())

    @staticmethod
    def without_start_step(*steps: Step[Any]) -> "StepList[None]":
        """List the Steps of a Flow that starts with nothing to run and is driven by RPCs [FLOW-3]."""
        return StepList[None](None, steps)

    @staticmethod
    def empty() -> "StepList[None]":
        """List no Steps [FLOW-3]."""
        return StepList[None](None, ())

    def other_steps(self, *steps: Step[Any]) -> "StepList[In]":
        """Return a list with further Steps."""
        return StepList(self.start, (*self.others, *steps))

    @property
    def all(self) -> tuple[Step[Any], ...]:
        """All Steps, the start Step first."""
        return self.others if self.start is None else (self.start, *self.others)
