"""Tell candidates that they are shortlisted, an hour later, unless that is revoked or the employer wants no such mails.

Shows an e-mail that is delayed by a Timer and revoked by a message, and a Flow that asks another one: each employer is
one Flow of its own, opened by opting in, and a Step reads it by RPC at the moment when the e-mail would go out. Start a
server (`dexd serve`), then `python -m examples.shortlist`.
"""

import uuid
from contextlib import suppress
from dataclasses import dataclass

from dexsdk import (
    AsyncClient,
    Attribute,
    Channel,
    Context,
    Flow,
    FlowAlreadyStartedError,
    FlowNotFoundError,
    PersistenceSchema,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    Timer,
    Wait,
    graceful_complete,
    rpc,
)
from examples.flow_caller import FlowCaller
from examples.local_worker import run, serving


@dataclass(frozen=True)
class Shortlisting:
    """Who is shortlisted by whom, and how many seconds later the candidate is told."""

    employer: str
    candidate: str
    delay: float = 3_600.0


OPTED_IN = Attribute("opted_in", bool)
REVOKED = Channel("revoked", str)


class Mailer:
    """Stands for a mail server that sends once per key."""

    def __init__(self) -> None:
        self.sent: dict[str, str] = {}

    def send(self, text: str, *, key: str) -> None:
        """Send an e-mail, once per key."""
        self.sent.setdefault(key, text)


class EmployerFlow(Flow[None]):
    """One per employer, under the employer's Flow ID: whether candidates are told by e-mail."""

    def get_steps(self) -> StepList[None]:
        return StepList.empty()

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(OPTED_IN)

    @rpc
    def opt_in(self, context: Context) -> RPCResult[None]:
        """Let candidates be told."""
        OPTED_IN.set(context, True)
        return RPCResult(None)

    @rpc
    def opt_out(self, context: Context) -> RPCResult[None]:
        """Let candidates not be told any more; the Flow stays, for the next opt-in."""
        OPTED_IN.set(context, False)
        return RPCResult(None)

    @rpc
    def is_opted_in(self, context: Context) -> RPCResult[bool]:
        """Say whether the employer is in now."""
        return RPCResult(OPTED_IN.get(context, default=False))


class TellStep(Step[Shortlisting]):
    """Wait, ask the employer's Flow, and send."""

    def __init__(self, employers: EmployerFlow, caller: FlowCaller, mailer: Mailer) -> None:
        self._employers = employers
        self._caller = caller
        self._mailer = mailer

    def wait_for(self, context: Context, shortlisting: Shortlisting) -> Wait:
        return Wait.any_of(Timer.by_duration(shortlisting.delay), REVOKED.for_one())

    async def execute(self, context: Context, shortlisting: Shortlisting) -> StepDecision:
        if reasons := REVOKED.results(context):
            return graceful_complete(f"revoked: {reasons[0]}")
        if not await self._is_opted_in(shortlisting.employer):
            return graceful_complete("not sent: the employer has not opted in")
        text = f"{shortlisting.candidate}, you are on the shortlist of {shortlisting.employer}"
        self._mailer.send(text, key=context.idempotency_key)
        return graceful_complete("sent")

    async def _is_opted_in(self, employer: str) -> bool:
        try:
            return await self._caller.client.invoke_rpc(self._employers.is_opted_in, employer_id(employer))
        except FlowNotFoundError:  # Nobody has opened it.
            return False


class ShortlistFlow(Flow[Shortlisting]):
    """One per candidate and employer."""

    def __init__(self, employers: EmployerFlow, caller: FlowCaller, mailer: Mailer | None = None) -> None:
        self._step = TellStep(employers, caller, mailer or Mailer())

    def get_steps(self) -> StepList[Shortlisting]:
        return StepList.start_step(self._step)

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(REVOKED)


def employer_id(employer: str) -> str:
    """Give the Flow ID of an employer's only Flow."""
    return f"employer-{employer}"


async def opt_in(client: AsyncClient, employers: EmployerFlow, employer: str) -> None:
    """Opt an employer in, and open its Flow if nobody has yet."""
    with suppress(FlowAlreadyStartedError):
        await client.start_flow(EmployerFlow, employer_id(employer))
    await client.invoke_rpc(employers.opt_in, employer_id(employer))


async def play(server: str) -> None:
    """Shortlist three candidates: one is told, one is revoked, and one is with an employer who wants no mails."""
    mailer, caller, employers = Mailer(), FlowCaller(), EmployerFlow()
    async with serving(ShortlistFlow(employers, caller, mailer), server, employers) as client:
        caller.connect(client)
        wants, silent = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("wants", "silent"))
        await opt_in(client, employers, wants)
        await opt_in(client, employers, silent)
        await client.invoke_rpc(employers.opt_out, employer_id(silent))
        for candidate, employer in (("Ada", wants), ("Bob", wants), ("Eve", silent)):
            flow_id = f"{employer}/{candidate}"
            await client.start_flow(ShortlistFlow, flow_id, Shortlisting(employer, candidate, delay=0.5))
        await client.publish(f"{wants}/Bob", REVOKED, "the position is filled")
        for flow_id in (f"{wants}/Ada", f"{wants}/Bob", f"{silent}/Eve"):
            result = await client.wait_for_flow(flow_id)
            print(flow_id, result.status.value, result.single_output(str))
        print(*mailer.sent.values())


if __name__ == "__main__":
    run(play, __doc__)
