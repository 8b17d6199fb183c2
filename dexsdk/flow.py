"""The definition of a Flow [FLOW-1..4]."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, Generic, TypeAlias, TypeVar

from dexsdk.context import Context
from dexsdk.decision import StepDecision
from dexsdk.schema import PersistenceSchema
from dexsdk.step import StepList

In = TypeVar("In")


class Flow(ABC, Generic[In]):
    """A durable process made of Steps, their state, and RPC methods marked with ``@rpc``.

    One instance is registered and serves all executions, so it holds no state of any of them.
    """

    def get_flow_type(self) -> str:
        """Name the Flow in its registry and on the server [ID-4]."""
        return type(self).__name__

    @abstractmethod
    def get_steps(self) -> StepList[In]:
        """List the Steps."""

    def handle_timeout(self, context: Context) -> StepDecision | Awaitable[StepDecision]:
        """Decide what becomes of the Flow when its time is over; any decision is legal [TIME-3].

        It runs like the ``execute`` of a Step named ``sys:timeout_handler-1``, with the ``timeout_handler_options`` of
        the start. Not overridden, a timeout fails the Flow.
        """
        raise NotImplementedError(f"{type(self).__qualname__} does not override handle_timeout")

    def get_persistence_schema(self) -> PersistenceSchema:
        """Declare the Attributes and Channels that handlers and clients use [FLOW-4]."""
        return PersistenceSchema()


FlowRef: TypeAlias = Flow[In] | type[Flow[In]]
"""A registered Flow, or its class if exactly one instance of it is registered [FLOW-10]."""

AnyFlow: TypeAlias = Flow[Any]
