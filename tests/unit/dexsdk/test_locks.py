"""Locks, transactions and cancellations as users declare them [LOCK-1, LOCK-6, RPC-2, RPC-5]."""

from typing import Any

import pytest

from dexpb.v1 import frames
from dexsdk import (
    Attribute,
    AttributeLock,
    AttributeMap,
    Channel,
    Context,
    Flow,
    FlowDefinitionError,
    PersistenceSchema,
    Registry,
    RPCResult,
    StepList,
    StepOptions,
    rpc,
)
from tests.unit.dexsdk.calls import run, run_to_failure
from tests.unit.dexsdk.flows import CountStep, ScriptedFlow

STOCK: Attribute[int] = Attribute("stock", int)
SEATS: AttributeMap[int] = AttributeMap("seats", int)
FOREIGN: Attribute[int] = Attribute("foreign", int)


def registered(**options: Any) -> frames.StepOptions:
    flow = ScriptedFlow(STOCK, SEATS, options=StepOptions(**options))
    described = Registry([flow]).flows[0].start_descriptor()
    assert described is not None
    assert described.options is not None
    return described.options


def test_lock_1_locks_are_listed_per_method() -> None:
    """[ATTR-3] An instance of a map is locked by itself."""
    options = registered(
        wait_for_lock_attributes=[STOCK.lock()],
        execute_lock_attributes=[SEATS.lock("1a"), SEATS.lock("1b")],
        preload=[SEATS, STOCK],
    )
    assert (options.wait_for_locks, options.execute_locks) == (("stock",), ("seats\0001a", "seats\0001b"))
    assert options.preload == ("seats", "stock")


@pytest.mark.parametrize(
    ("locks", "fault"),
    [
        ([STOCK.lock(), STOCK.lock()], "the lock of 'stock' is listed twice"),
        ([SEATS.lock("a"), SEATS.lock("a")], "listed twice"),
        ([FOREIGN.lock()], "the locked Attribute 'foreign' is not in the persistence schema"),
        ([Attribute("stock", int).lock()], "is not in the persistence schema"),
        ([AttributeLock(SEATS)], "the lock of AttributeMap 'seats' needs exactly one instance key"),
        ([SEATS.lock("a\nb")], "instance key of 'seats'"),
        ([AttributeLock(STOCK, ("a",))], "the lock of Attribute 'stock' takes no instance key"),
        ([STOCK], "is no lock of an Attribute"),
    ],
)
@pytest.mark.parametrize("method", ["wait_for", "execute"])
def test_lock_6_duplicate_undeclared_and_wrongly_instanced_locks_are_definition_errors(
    method: str, locks: list[Any], fault: str
) -> None:
    """At registration, naming Step and method."""
    with pytest.raises(FlowDefinitionError, match=fault) as error:
        registered(**{f"{method}_lock_attributes": locks})
    assert f"Step 'Scripted', {method}: " in str(error.value)


def test_attr_7_what_is_preloaded_must_be_declared() -> None:
    """[FLOW-4]"""
    for wrong in (FOREIGN, Channel("stock", int)):
        with pytest.raises(FlowDefinitionError, match="to preload is not in the persistence schema"):
            registered(preload=[wrong])


class Shop(Flow[None]):
    def get_steps(self) -> StepList[None]:
        return StepList.without_start_step(CountStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(STOCK)

    @rpc(lock_attributes=[STOCK.lock()])
    def reserve(self, context: Context) -> RPCResult[int]:
        return RPCResult.of(1)

    @rpc(is_transactional=True, preload=[STOCK])
    def move(self, context: Context) -> RPCResult[int]:
        return RPCResult.of(1)

    @rpc
    def look(self, context: Context) -> RPCResult[int]:
        return RPCResult.of(1)


def test_rpc_5_terms_of_an_rpc_are_announced_to_the_server() -> None:
    """[LOCK-1] Only of those that have any."""
    described = Registry([Shop()]).flows[0].descriptor()
    assert described.rpc_names == ("reserve", "move", "look")
    assert described.rpcs == (
        frames.RpcDescriptor("reserve", ("stock",)),
        frames.RpcDescriptor("move", is_transactional=True),
    )


def test_lock_6_locks_of_an_rpc_are_checked_too() -> None:
    class Wrong(Shop):
        @rpc(lock_attributes=[FOREIGN.lock()])
        def borrow(self, context: Context) -> RPCResult[int]:
            return RPCResult.of(1)

    with pytest.raises(FlowDefinitionError, match="RPC 'borrow': lock_attributes: the locked Attribute 'foreign'"):
        Registry([Wrong()])


def test_rpc_2_an_rpc_cancels_steps_by_type() -> None:
    """[DEC-9] By class or instance; calls add up, a type is named once."""
    result = RPCResult.of(1).with_canceling_steps(CountStep).with_canceling_steps(CountStep)
    flow = ScriptedFlow(ask=lambda context: result.with_canceling_steps(flow.start))
    assert run(flow, "ask", frames.METHOD_RPC).canceling == ("CountStep", "Scripted")


def test_dec_8_an_unregistered_step_cannot_be_canceled() -> None:
    flow = ScriptedFlow(ask=lambda context: RPCResult(1, canceling_steps=[CountStep()]))
    failure = run_to_failure(flow, "ask", frames.METHOD_RPC)
    assert failure.error_type == "FlowDefinitionError"
