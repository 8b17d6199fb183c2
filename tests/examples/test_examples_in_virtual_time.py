"""The example Flows as their authors would test them: days pass in milliseconds, faults are switched on."""

import time
from datetime import timedelta

import pytest

from dexsdk import FlowNotActiveError, FlowStatus, StepExecutionId
from dexsdk.testing import Environment, SyncEnvironment, start_env, start_env_sync
from examples.money_transfer import Bank, MoneyTransferFlow, Transfer, example_bank
from examples.order_processing import (
    APPROVAL,
    STATUS,
    Carrier,
    ChargeStep,
    Order,
    OrderFlow,
    OrderStatus,
    Payments,
    orders_that_are,
    start_order,
)
from examples.reminders import OPT_OUT, SENT, ReminderFlow, ReminderPlan

DAY = timedelta(days=1)
MONTH = ReminderPlan("ada@example.org", times=30)


def order(number: int, address: str = "Main Street 1") -> Order:
    return Order(f"order-{number}", "Ada", 4_990, address)


# ---- reminders ----


def test_thirty_daily_reminders_are_sent() -> None:
    """Acceptance row 45; the processor's time counts, because other programs share the machine."""
    with start_env_sync(ReminderFlow()) as env:
        begun, begun_s = env.now, time.process_time()
        env.client.start_flow(ReminderFlow, "ada", MONTH)
        assert env.client.wait_for_flow("ada", timeout=30).single_output(str) == "all 30 sent"
        assert time.process_time() - begun_s < 0.5
        assert env.now - begun == 30 * DAY
        assert env.client.get_attribute("ada", SENT) == 30


def test_an_opt_out_ends_the_reminders() -> None:
    """[WAIT-5] whichever comes first."""
    with start_env_sync(ReminderFlow(), auto_skip=False) as env:
        env.client.start_flow(ReminderFlow, "bob", MONTH)
        env.advance(12.5 * DAY)
        env.client.publish("bob", OPT_OUT, "too many")
        result = env.client.wait_for_flow("bob", timeout=10)
        assert result.single_output(str) == "opted out after 12: too many"


def test_reminders_neither_stop_nor_double_when_server_and_worker_are_killed() -> None:
    """[TEST-3, RETRY-7] what was due while the server was away happens once it is back."""
    with start_env_sync(ReminderFlow(), auto_skip=False) as env:
        env.client.start_flow(ReminderFlow, "ada", MONTH)
        env.advance(5 * DAY)
        env.crash_server()
        env.advance(3 * DAY)
        env.recover_server()
        env.drop_worker()
        env.advance(0)
        assert env.client.get_attribute("ada", SENT) == 6
        env.advance(24 * DAY)
        assert env.client.wait_for_flow("ada", timeout=10).single_output(str) == "all 30 sent"


# ---- orders ----


async def approve(env: Environment, number: int, approved: bool) -> str:
    await env.client.publish(f"order-{number}", APPROVAL, approved)
    return (await env.client.wait_for_flow(f"order-{number}", timeout=10)).single_output(str)


async def test_an_order_is_charged_at_once_and_shipped_when_it_is_approved() -> None:
    """[WAITAPI-3] the start API answers with the charge; approval comes three days later."""
    flow = OrderFlow()
    async with start_env(flow, auto_skip=False) as env:
        assert await start_order(env.client, order(1)) is OrderStatus.CHARGED
        await env.advance(3 * DAY)
        assert await env.client.invoke_rpc(flow.status, "order-1") is OrderStatus.CHARGED
        assert await orders_that_are(env.client, OrderStatus.CHARGED) == ["order-1"]
        assert (await approve(env, 1, True)).startswith("parcel-")
        assert await env.client.invoke_rpc(flow.status, "order-1") is OrderStatus.SHIPPED
        assert await orders_that_are(env.client, OrderStatus.SHIPPED) == ["order-1"]
        assert await orders_that_are(env.client, OrderStatus.CHARGED) == []


async def test_an_order_that_nobody_approves_is_asked_for_once_a_day() -> None:
    async with start_env(OrderFlow(), auto_skip=False) as env:
        await start_order(env.client, order(1))
        await env.advance(4 * DAY)
        history = await env.client.get_history("order-1")
        assert [event.kind for event in history.events].count("TimerFired") == 4


async def test_orders_that_are_refused_or_cannot_be_shipped_are_refunded() -> None:
    """[OPT-4] by a decision, and by a recovery Step."""
    payments = Payments()
    async with start_env(OrderFlow(payments)) as env:
        await start_order(env.client, order(1))
        await start_order(env.client, order(2, "Lonely island 2"))
        assert await approve(env, 1, False) == "refunded: not approved"
        assert await approve(env, 2, True) == "refunded: no route to Lonely island 2"
        assert await env.client.get_attribute("order-2", STATUS) is OrderStatus.REFUNDED
        assert len(payments.refunds) == 2


async def test_a_customer_is_charged_once_although_the_charge_runs_twice() -> None:
    """[STEP-9] the idempotency key is the same in both deliveries."""
    payments = Payments()
    async with start_env(OrderFlow(payments)) as env:
        env.duplicate_next_delivery()
        await start_order(env.client, order(1))
        history = await env.client.get_history("order-1")
        assert [event.kind for event in history.events].count("StepDispatched") == 3
        assert payments.charges == {"order-1/ChargeStep-1": 4_990}


async def test_an_order_that_cannot_be_charged_fails() -> None:
    """[RETRY-5] no attempt is wasted on it."""
    async with start_env(OrderFlow(Payments(), Carrier())) as env:
        free = Order("order-1", "Ada", 0, "Main Street 1")
        await env.client.start_flow(OrderFlow, free.order_id, free)
        with pytest.raises(FlowNotActiveError):
            await env.client.wait_for_step_completion(free.order_id, StepExecutionId(ChargeStep), timeout=10)


# ---- transfers ----


def transfer(env: SyncEnvironment, number: int, what: Transfer) -> tuple[FlowStatus, str]:
    env.client.start_flow(MoneyTransferFlow, f"transfer-{number}", what)
    result = env.client.wait_for_flow(f"transfer-{number}", timeout=10)
    return result.status, result.error_message or result.single_output(str)


def test_money_neither_appears_nor_vanishes_in_transfers() -> None:
    """[OPT-4, DEC-6] one works, one is put back after three attempts of the credit, one is refused."""
    bank = example_bank()
    with start_env_sync(MoneyTransferFlow(bank)) as env:
        begun = env.now
        assert transfer(env, 1, Transfer("alice", "bob", 2_500)) == (
            FlowStatus.COMPLETED,
            "2500 moved from alice to bob",
        )
        assert env.now == begun
        status, text = transfer(env, 2, Transfer("alice", "frozen-inc", 2_500))
        assert (status, env.now - begun) == (FlowStatus.FAILED, timedelta(seconds=1 + 2))
        assert text == "given back to alice: account frozen-inc is frozen"
        assert transfer(env, 3, Transfer("bob", "alice", 1_000_000))[0] is FlowStatus.FAILED
    assert bank.balances == {"alice": 7_500, "bob": 3_000, "frozen-inc": 0}


def test_money_moves_once_although_every_handler_runs_twice() -> None:
    """[STEP-9] idempotency keys make the second run harmless."""
    bank = Bank({"alice": 100, "bob": 0})
    with start_env_sync(MoneyTransferFlow(bank), auto_skip=False) as env:
        for number in range(3):
            env.duplicate_next_delivery()
            transfer(env, number, Transfer("alice", "bob", 10))
    assert bank.balances == {"alice": 70, "bob": 30}
