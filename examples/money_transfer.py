"""A transfer between two accounts as a saga: check, debit, credit; put the money back when the credit fails for good.

Shows a compensating recovery Step, force_fail with a reason, and idempotency keys that make repeated calls harmless.
Start a server (`dexd serve`), then `python -m examples.money_transfer`.
"""

import uuid
from dataclasses import dataclass

from dexsdk import (
    Context,
    Flow,
    RetryPolicy,
    Step,
    StepDecision,
    StepList,
    StepOptions,
    force_fail,
    go_to,
    graceful_complete,
)
from examples.local_worker import run, serving


@dataclass(frozen=True)
class Transfer:
    """Move an amount, in cents, from one account to another."""

    source: str
    target: str
    amount: int


class AccountFrozenError(Exception):
    """The account takes no money now."""


class Bank:
    """Stands for a bank's interface; a movement with a key it has seen already changes nothing."""

    def __init__(self, balances: dict[str, int], frozen: tuple[str, ...] = ()) -> None:
        self.balances = dict(balances)
        self.frozen = frozen
        self._seen: set[str] = set()

    def move(self, account: str, amount: int, *, key: str) -> None:
        """Add a positive or negative amount to an account, once per key."""
        if account in self.frozen:
            raise AccountFrozenError(f"account {account} is frozen")
        if key not in self._seen:
            self._seen.add(key)
            self.balances[account] += amount


class CheckStep(Step[Transfer]):
    """Refuse what cannot work before anything has moved."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank

    def execute(self, context: Context, transfer: Transfer) -> StepDecision:
        if transfer.amount <= 0:
            return force_fail(f"amount {transfer.amount} is not positive")
        balance = self._bank.balances.get(transfer.source, 0)
        if balance < transfer.amount:
            return force_fail(f"account {transfer.source} has {balance}, needed {transfer.amount}")
        return go_to(DebitStep, transfer)


class DebitStep(Step[Transfer]):
    """Take the money from the source."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank

    def execute(self, context: Context, transfer: Transfer) -> StepDecision:
        self._bank.move(transfer.source, -transfer.amount, key=context.idempotency_key)
        return go_to(CreditStep, transfer)


class CreditStep(Step[Transfer]):
    """Give the money to the target; the compensation takes over when that fails three times."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank

    def get_step_options(self) -> StepOptions:
        retry = RetryPolicy(initial_interval=1.0, maximum_attempts=3)
        return StepOptions(execute_retry=retry).on_execute_failure_proceed_to(CompensateStep)

    def execute(self, context: Context, transfer: Transfer) -> StepDecision:
        self._bank.move(transfer.target, transfer.amount, key=context.idempotency_key)
        return graceful_complete(f"{transfer.amount} moved from {transfer.source} to {transfer.target}")


class CompensateStep(Step[Transfer]):
    """Put the money back where it came from, and fail the Flow with the reason."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank

    def execute(self, context: Context, transfer: Transfer) -> StepDecision:
        self._bank.move(transfer.source, transfer.amount, key=context.idempotency_key)
        failure = context.recovery_error
        return force_fail(f"given back to {transfer.source}: {failure.detail if failure else 'credit failed'}")


class MoneyTransferFlow(Flow[Transfer]):
    """Check, debit, credit, or compensate."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank

    def get_steps(self) -> StepList[Transfer]:
        bank = self._bank
        return StepList.start_step(CheckStep(bank)).other_steps(DebitStep(bank), CreditStep(bank), CompensateStep(bank))


def example_bank() -> Bank:
    """Two accounts that work and one that takes no money."""
    return Bank({"alice": 10_000, "bob": 500, "frozen-inc": 0}, frozen=("frozen-inc",))


async def play(server: str) -> None:
    """Make a transfer that works, one that is compensated, and one that is refused."""
    bank = example_bank()
    async with serving(MoneyTransferFlow(bank), server) as client:
        for transfer in (
            Transfer("alice", "bob", 2_500),
            Transfer("alice", "frozen-inc", 2_500),
            Transfer("bob", "alice", 1_000_000),
        ):
            flow_id = f"transfer-{uuid.uuid4().hex[:8]}"
            await client.start_flow(MoneyTransferFlow, flow_id, transfer)
            result = await client.wait_for_flow(flow_id)
            text = result.error_message or result.single_output(str)
            print(flow_id, result.status.value, text)
    print("balances:", bank.balances)


if __name__ == "__main__":
    run(play, __doc__)
