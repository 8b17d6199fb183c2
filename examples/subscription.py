"""A subscription: a free trial, then a bill every period, until it is cancelled or over.

Shows Steps that run side by side, each with a Wait of its own: the timers of trial and bills, and the Channels on which
the customer cancels or the shop changes the amount. A read RPC describes the subscription, also once it is over, and
whoever ends it does so with force_complete, which takes the other Waits along. Start a server (`dexd serve`), then
`python -m examples.subscription`.
"""

import uuid
from dataclasses import dataclass

from dexsdk import (
    Attribute,
    Channel,
    Context,
    Flow,
    PersistenceSchema,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    StepMovement,
    Timer,
    Wait,
    dead_end,
    force_complete,
    go_to,
    go_to_many,
    rpc,
)
from examples.local_worker import run, serving

DAY = 86_400.0


@dataclass(frozen=True)
class Terms:
    """What the customer signed; amounts are in cents, times in seconds."""

    customer: str
    amount: int
    trial: float = 14 * DAY
    period: float = 30 * DAY
    periods: int = 12


@dataclass(frozen=True)
class Description:
    """What a customer sees of the subscription."""

    in_trial: bool
    amount: int
    bills: int


IN_TRIAL = Attribute("in_trial", bool)
AMOUNT = Attribute("amount", int)
BILLS = Attribute("bills", int)
CANCEL = Channel("cancel", str)
CHANGE_AMOUNT = Channel("change_amount", int)


class Billing:
    """Stands for a payment provider: the same key is the same charge [STEP-9]."""

    def __init__(self) -> None:
        self.charges: dict[str, int] = {}

    def charge(self, amount: int, *, key: str) -> None:
        """Charge once per key."""
        self.charges.setdefault(key, amount)


class SignUpStep(Step[Terms]):
    """Begin everything that goes on side by side."""

    def execute(self, context: Context, terms: Terms) -> StepDecision:
        IN_TRIAL.set(context, True)
        AMOUNT.set(context, terms.amount)
        BILLS.set(context, 0)
        return go_to_many(
            StepMovement.of(TrialStep, terms),
            StepMovement.of(BillStep, terms),
            StepMovement.of(ChangeAmountStep),
            StepMovement.of(CancelStep),
        )


class TrialStep(Step[Terms]):
    """Say when the trial is over; nothing follows from it."""

    def wait_for(self, context: Context, terms: Terms) -> Wait:
        return Wait.until(Timer.by_duration(terms.trial))

    def execute(self, context: Context, terms: Terms) -> StepDecision:
        IN_TRIAL.set(context, False)
        return dead_end()


class BillStep(Step[Terms]):
    """Bill one period, and go round again until the last one is paid."""

    def __init__(self, billing: Billing) -> None:
        self._billing = billing

    def wait_for(self, context: Context, terms: Terms) -> Wait:
        is_first = BILLS.get(context) == 0
        return Wait.until(Timer.by_duration(terms.trial + terms.period if is_first else terms.period))

    def execute(self, context: Context, terms: Terms) -> StepDecision:
        self._billing.charge(AMOUNT.get(context), key=context.idempotency_key)
        bills = BILLS.get(context) + 1
        BILLS.set(context, bills)
        return force_complete(f"over after {bills} bills") if bills == terms.periods else go_to(BillStep, terms)


class ChangeAmountStep(Step[None]):
    """Take the newest amount; the next bill uses it."""

    def wait_for(self, context: Context, input: None) -> Wait:
        return Wait.until(CHANGE_AMOUNT.at_least(1))

    def execute(self, context: Context, input: None) -> StepDecision:
        AMOUNT.set(context, CHANGE_AMOUNT.results(context)[-1])
        return go_to(ChangeAmountStep)


class CancelStep(Step[None]):
    """End the subscription when the customer says so, whatever the others wait for."""

    def wait_for(self, context: Context, input: None) -> Wait:
        return Wait.until(CANCEL.for_one())

    def execute(self, context: Context, input: None) -> StepDecision:
        return force_complete(f"cancelled after {BILLS.get(context)} bills: {CANCEL.results(context)[0]}")


class SubscriptionFlow(Flow[Terms]):
    """Trial, bills, changes and the end."""

    def __init__(self, billing: Billing | None = None) -> None:
        self._billing = billing or Billing()

    def get_steps(self) -> StepList[Terms]:
        others = (TrialStep(), BillStep(self._billing), ChangeAmountStep(), CancelStep())
        return StepList.start_step(SignUpStep()).other_steps(*others)

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(IN_TRIAL, AMOUNT, BILLS, CANCEL, CHANGE_AMOUNT)

    @rpc
    def describe(self, context: Context) -> RPCResult[Description]:
        """Say how the subscription stands; answers also once it is over [RPC-4]."""
        return RPCResult(Description(IN_TRIAL.get(context), AMOUNT.get(context), BILLS.get(context)))


async def play(server: str) -> None:
    """Let one subscription run out in a second, and another be cancelled during its trial."""
    flow = SubscriptionFlow()
    async with serving(flow, server) as client:
        short, cancelled = (f"subscription-{uuid.uuid4().hex[:8]}" for _ in range(2))
        await client.start_flow(SubscriptionFlow, short, Terms("Ada", 990, trial=0.3, period=0.2, periods=2))
        await client.start_flow(SubscriptionFlow, cancelled, Terms("Bob", 990))
        await client.publish(cancelled, CHANGE_AMOUNT, 1_490)
        await client.wait_for_attribute_equal(cancelled, AMOUNT, 1_490)
        await client.publish(cancelled, CANCEL, "too dear")
        for flow_id in (short, cancelled):
            result = await client.wait_for_flow(flow_id)
            print(flow_id, result.status.value, result.single_output(str))
            description = await client.invoke_rpc(flow.describe, flow_id)
            print(flow_id, description)


if __name__ == "__main__":
    run(play, __doc__)
