"""Months of a subscription, in milliseconds."""

from datetime import timedelta

from dexsdk import FlowStatus
from dexsdk.testing import start_env_sync
from examples.subscription import (
    CANCEL,
    CHANGE_AMOUNT,
    Billing,
    Description,
    SubscriptionFlow,
    Terms,
)

DAY = timedelta(days=1)
YEAR = Terms("Ada", 990)


def test_trial_and_bills_are_timed_side_by_side_until_the_last_period() -> None:
    """[FLOW-5, DEC-3] the last bill completes the Flow although two Steps still wait for messages."""
    billing = Billing()
    flow = SubscriptionFlow(billing)
    with start_env_sync(flow, auto_skip=False) as env:
        env.client.start_flow(SubscriptionFlow, "ada", YEAR)
        assert env.client.invoke_rpc(flow.describe, "ada") == Description(in_trial=True, amount=990, bills=0)
        env.advance(14 * DAY)
        assert env.client.invoke_rpc(flow.describe, "ada") == Description(in_trial=False, amount=990, bills=0)
        env.advance(29 * DAY)
        assert env.client.invoke_rpc(flow.describe, "ada").bills == 0
        env.advance(DAY)
        assert env.client.invoke_rpc(flow.describe, "ada") == Description(in_trial=False, amount=990, bills=1)
        env.advance(11 * 30 * DAY)
        assert env.client.wait_for_flow("ada", timeout=10).single_output(str) == "over after 12 bills"
    assert list(billing.charges.values()) == [990] * 12


def test_an_amount_that_changes_goes_on_the_next_bill() -> None:
    """[CHAN-4] of several changes the newest counts."""
    billing = Billing()
    with start_env_sync(SubscriptionFlow(billing), auto_skip=False) as env:
        env.client.start_flow(SubscriptionFlow, "ada", YEAR)
        env.advance(44 * DAY)
        env.client.publish("ada", CHANGE_AMOUNT, 1_290, 1_490)
        env.advance(30 * DAY)
        env.client.publish("ada", CHANGE_AMOUNT, 790)
        env.advance(30 * DAY)
    assert list(billing.charges.values()) == [990, 1_490, 790]


def test_nothing_is_charged_once_the_customer_has_cancelled() -> None:
    """[DEC-3, TIMER-10] the bill that waits for its timer is canceled in the same commit."""
    billing = Billing()
    flow = SubscriptionFlow(billing)
    with start_env_sync(flow, auto_skip=False) as env:
        env.client.start_flow(SubscriptionFlow, "bob", YEAR)
        env.advance(50 * DAY)
        env.client.publish("bob", CANCEL, "moved away")
        result = env.client.wait_for_flow("bob", timeout=10)
        assert result.status is FlowStatus.COMPLETED
        assert result.single_output(str) == "cancelled after 1 bills: moved away"
        env.advance(365 * DAY)
        events = env.client.get_history("bob").events
        assert "BillStep-2" in [event.data["step_execution_id"] for event in events if event.kind == "StepCanceled"]
        assert env.client.invoke_rpc(flow.describe, "bob").bills == 1
    assert len(billing.charges) == 1


def test_a_bill_is_charged_once_although_it_runs_twice() -> None:
    """[STEP-9]"""
    billing = Billing()
    with start_env_sync(SubscriptionFlow(billing), auto_skip=False) as env:
        env.client.start_flow(SubscriptionFlow, "ada", YEAR)
        env.advance(43 * DAY)
        env.duplicate_next_delivery()
        env.advance(DAY)
    assert billing.charges == {"ada/BillStep-1": 990}
