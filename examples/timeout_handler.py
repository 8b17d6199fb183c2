"""Hold a seat until it is paid for, and give it back in good order when the time is over.

Shows a Flow timeout whose end is handled: `handle_timeout` decides like any Step, and when it fails for good, its
recovery Step takes over with the error. Start a server (`dexd serve`), then `python -m examples.timeout_handler`.
"""

import uuid
from dataclasses import dataclass

from dexsdk import (
    Attribute,
    Channel,
    Context,
    Flow,
    PersistenceSchema,
    RetryPolicy,
    StartFlowOptions,
    Step,
    StepDecision,
    StepList,
    StepOptions,
    Wait,
    force_complete,
    force_fail,
    go_to,
)
from examples.local_worker import run, serving

SEAT = Attribute("seat", str)
PAID = Channel("paid", int)


@dataclass(frozen=True)
class Booking:
    """Which seat is to be held, and whether the hall's system can take it back by itself."""

    seat: str
    is_returnable: bool = True


class HoldStep(Step[Booking]):
    """Wait for the money, for as long as the Flow has time."""

    def wait_for(self, context: Context, booking: Booking) -> Wait:
        SEAT.set(context, booking.seat if booking.is_returnable else f"{booking.seat}, sold on paper")
        return Wait.until(PAID.for_one())

    def execute(self, context: Context, booking: Booking) -> StepDecision:
        return force_complete(f"{booking.seat} sold for {PAID.results(context)[0]}")


class ReturnStep(Step[str]):
    """Put the seat on sale again."""

    def execute(self, context: Context, seat: str) -> StepDecision:
        return force_complete(f"{seat} is on sale again")


class CallHallStep(Step[None]):
    """Somebody has to call: the system could not do it."""

    def execute(self, context: Context, input: None) -> StepDecision:
        error = context.recovery_error
        return force_fail(f"call the hall: {error.detail if error else 'unknown'}")


class BookingFlow(Flow[Booking]):
    """Hold, sell, or give back."""

    def get_steps(self) -> StepList[Booking]:
        return StepList.start_step(HoldStep()).other_steps(ReturnStep(), CallHallStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(SEAT, PAID)

    def handle_timeout(self, context: Context) -> StepDecision:
        """The time is over: nothing else of the Flow has to be undone but the seat."""
        seat = SEAT.get(context)
        if "paper" in seat:
            raise RuntimeError(f"{seat}, cannot be returned")
        return go_to(ReturnStep, seat).with_canceling_steps(HoldStep)


def limited(seconds: float) -> StartFlowOptions:
    """Time for a booking, and what follows when it cannot be ended in good order."""
    once = RetryPolicy(maximum_attempts=1)
    return StartFlowOptions(
        timeout=seconds,
        timeout_handler_options=StepOptions(execute_retry=once).on_execute_failure_proceed_to(CallHallStep),
    )


async def play(server: str) -> None:
    """One seat is paid for in time, one is given back, one cannot be."""
    async with serving(BookingFlow(), server) as client:
        paid, late, stuck = (f"booking-{uuid.uuid4().hex[:8]}" for _ in range(3))
        await client.start_flow(BookingFlow, paid, Booking("A1"), limited(600))
        await client.start_flow(BookingFlow, late, Booking("A2"), limited(0.5))
        await client.start_flow(BookingFlow, stuck, Booking("A3", is_returnable=False), limited(0.5))
        await client.publish(paid, PAID, 42)
        for flow_id in (paid, late, stuck):
            result = await client.wait_for_flow(flow_id)
            said = result.error_message or result.single_output(str)
            print(flow_id, result.status.value, said)


if __name__ == "__main__":
    run(play, __doc__)
