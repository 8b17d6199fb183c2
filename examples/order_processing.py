"""An order: charge it, wait for approval, ship it; refund it when it cannot be shipped.

Shows a Step with a retry limit, a Wait for a Channel or a Timer, a recovery Step, a read RPC, orders that are found by
their status, and a start API that answers as soon as the first Step has ended. Start a server (`dexd serve`), then
`python -m examples.order_processing`.
"""

import uuid
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from dexsdk import (
    AsyncClient,
    Attribute,
    AttributeIndex,
    Channel,
    Context,
    Flow,
    IndexType,
    NonRetryableError,
    PersistenceSchema,
    RetryPolicy,
    RPCResult,
    Step,
    StepDecision,
    StepExecutionId,
    StepList,
    StepOptions,
    Timer,
    Wait,
    go_to,
    graceful_complete,
    rpc,
)
from examples.local_worker import run, serving

REMIND_AFTER = timedelta(hours=24)


@dataclass(frozen=True)
class Order:
    """What a customer ordered; amounts are in cents."""

    order_id: str
    customer: str
    amount: int
    address: str


class OrderStatus(StrEnum):
    """Where an order stands."""

    NEW = "NEW"
    CHARGED = "CHARGED"
    SHIPPED = "SHIPPED"
    REFUNDED = "REFUNDED"


STATUS = Attribute("status", OrderStatus, AttributeIndex(IndexType.KEYWORD, "order_status"))
"""Indexed, so that orders are found by where they stand."""
PAYMENT = Attribute("payment", str)
APPROVAL = Channel("approval", bool)


class Payments:
    """Stands for a payment provider: the same key is the same charge, however often it is sent [STEP-9]."""

    def __init__(self) -> None:
        self.charges: dict[str, int] = {}
        self.refunds: dict[str, str] = {}

    def charge(self, customer: str, amount: int, *, key: str) -> str:
        """Charge once per key; the key is also the payment's ID."""
        if amount <= 0:
            raise NonRetryableError(f"{customer} cannot be charged {amount}")
        self.charges.setdefault(key, amount)
        return key

    def refund(self, payment: str, *, key: str) -> None:
        """Give the money back, once per key."""
        self.refunds.setdefault(key, payment)


class Carrier:
    """Stands for a parcel service that does not deliver everywhere."""

    def ship(self, address: str, *, key: str) -> str:
        """Hand over the parcel, once per key; the answer is its tracking code."""
        if "island" in address:
            raise ConnectionError(f"no route to {address}")
        return f"parcel-{uuid.uuid5(uuid.NAMESPACE_URL, key).hex[:8]}"


class ChargeStep(Step[Order]):
    """Take the money; a charge that keeps failing fails the Flow."""

    def __init__(self, payments: Payments) -> None:
        self._payments = payments

    def get_step_options(self) -> StepOptions:
        return StepOptions(execute_retry=RetryPolicy(initial_interval=0.5, maximum_attempts=4))

    def execute(self, context: Context, order: Order) -> StepDecision:
        payment = self._payments.charge(order.customer, order.amount, key=context.idempotency_key)
        PAYMENT.set(context, payment)
        STATUS.set(context, OrderStatus.CHARGED)
        return go_to(ShipStep, order)


class ShipStep(Step[Order]):
    """Wait for an approval, with a reminder a day; then ship, or refund when nobody can."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier

    def get_step_options(self) -> StepOptions:
        retry = RetryPolicy(initial_interval=0.2, maximum_attempts=3)
        return StepOptions(execute_retry=retry).on_execute_failure_proceed_to(RefundStep)

    def wait_for(self, context: Context, order: Order) -> Wait:
        return Wait.any_of(APPROVAL.for_one(), Timer.by_duration(REMIND_AFTER))

    def execute(self, context: Context, order: Order) -> StepDecision:
        answers = APPROVAL.results(context)
        if not answers:
            context.logger.warning("order %s still waits for approval", order.order_id)
            return go_to(ShipStep, order)
        if not answers[0]:
            return go_to(RefundStep, order)
        parcel = self._carrier.ship(order.address, key=context.idempotency_key)
        STATUS.set(context, OrderStatus.SHIPPED)
        return graceful_complete(parcel)


class RefundStep(Step[Order]):
    """Give the money back: after a refusal, or as the recovery of a shipment that failed for good."""

    def __init__(self, payments: Payments) -> None:
        self._payments = payments

    def execute(self, context: Context, order: Order) -> StepDecision:
        self._payments.refund(PAYMENT.get(context), key=context.idempotency_key)
        STATUS.set(context, OrderStatus.REFUNDED)
        failure = context.recovery_error
        return graceful_complete(f"refunded: {failure.detail if failure else 'not approved'}")


class OrderFlow(Flow[Order]):
    """Charge, approve, ship."""

    def __init__(self, payments: Payments | None = None, carrier: Carrier | None = None) -> None:
        payments = payments or Payments()
        self._steps = (ChargeStep(payments), ShipStep(carrier or Carrier()), RefundStep(payments))

    def get_steps(self) -> StepList[Order]:
        charge, *others = self._steps
        return StepList.start_step(charge).other_steps(*others)

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(STATUS, PAYMENT, APPROVAL)

    @rpc
    def status(self, context: Context) -> RPCResult[OrderStatus]:
        """Say where the order stands; a read RPC also answers once the Flow is closed [RPC-4]."""
        return RPCResult(STATUS.get(context, default=OrderStatus.NEW))


async def start_order(client: AsyncClient, order: Order) -> OrderStatus | None:
    """Do what an HTTP handler does: start the Flow and answer once the charge is settled.

    Raises:
        FlowNotActiveError: the charge failed for good, and the Flow with it.
    """
    await client.start_flow(OrderFlow, order.order_id, order)
    await client.wait_for_step_completion(order.order_id, StepExecutionId(ChargeStep), timeout=30)
    return await client.get_attribute(order.order_id, STATUS)


async def orders_that_are(client: AsyncClient, status: OrderStatus) -> list[str]:
    """Find orders by where they stand, newest first; sees every write that was acknowledged before."""
    page = await client.search_flows(f"FlowType = 'OrderFlow' AND order_status = '{status.value}'")
    return [flow.flow_id for flow in page.flows]


async def play(server: str) -> None:
    """Ship one order and refund another that no carrier takes."""
    async with serving(OrderFlow(), server) as client:
        for address in ("Main Street 1", "Lonely island 2"):
            order = Order(f"order-{uuid.uuid4().hex[:8]}", "Ada", 4_990, address)
            print(order.order_id, "started:", await start_order(client, order))
            await client.publish(order.order_id, APPROVAL, True)
            result = await client.wait_for_flow(order.order_id)
            print(order.order_id, result.status.value, result.single_output(str))


if __name__ == "__main__":
    run(play, __doc__)
