"""Sign somebody up: send a code, remind once a day until it is entered, give up after a week.

Shows an RPC that verifies and wakes up a Step that waits, a loop of reminders, and a Flow timeout that ends it all. The
code is drawn in a Step of its own: once that Step is accepted the code stands, and every mail has the same one, however
often the Step that sends them runs. Start a server (`dexd serve`), then `python -m examples.user_signup`.
"""

import secrets
import uuid
from dataclasses import dataclass

from dexsdk import (
    Attribute,
    Channel,
    Context,
    Flow,
    PersistenceSchema,
    RPCResult,
    StartFlowOptions,
    Step,
    StepDecision,
    StepList,
    Timer,
    Wait,
    WorkerInvocationError,
    go_to,
    graceful_complete,
    rpc,
)
from examples.local_worker import run, serving

DAY = 86_400.0
GIVE_UP = StartFlowOptions(timeout=7 * DAY)
"""How to start a sign-up: after a week it is FAILED with FLOW_TIMEOUT, and its name is free for another attempt."""


@dataclass(frozen=True)
class SignUp:
    """Who signs up, and how many seconds lie between two mails."""

    address: str
    remind_every: float = DAY


CODE = Attribute("code", str)
MAILS = Attribute("mails", int)
IS_VERIFIED = Attribute("is_verified", bool)
VERIFIED = Channel("verified", bool)


class Mailer:
    """Stands for a mail server that sends once per key."""

    def __init__(self) -> None:
        self.sent: dict[str, tuple[str, str]] = {}

    def send(self, address: str, text: str, *, key: str) -> None:
        """Send an e-mail, once per key."""
        self.sent.setdefault(key, (address, text))


class DrawStep(Step[SignUp]):
    """Draw the code. A second run would draw another one, but only one result is accepted."""

    def execute(self, context: Context, sign_up: SignUp) -> StepDecision:
        CODE.set(context, secrets.token_hex(3))
        MAILS.set(context, 0)
        IS_VERIFIED.set(context, False)
        return go_to(MailStep, sign_up)


class MailStep(Step[SignUp]):
    """Send the code, be it for the first time or as a reminder."""

    def __init__(self, mailer: Mailer) -> None:
        self._mailer = mailer

    def execute(self, context: Context, sign_up: SignUp) -> StepDecision:
        self._mailer.send(sign_up.address, f"your code is {CODE.get(context)}", key=context.idempotency_key)
        MAILS.set(context, MAILS.get(context) + 1)
        return go_to(AwaitStep, sign_up)


class AwaitStep(Step[SignUp]):
    """Wait for the code, and remind when it does not come."""

    def wait_for(self, context: Context, sign_up: SignUp) -> Wait:
        return Wait.any_of(VERIFIED.for_one(), Timer.by_duration(sign_up.remind_every))

    def execute(self, context: Context, sign_up: SignUp) -> StepDecision:
        if IS_VERIFIED.get(context):
            return graceful_complete(f"{sign_up.address} verified after {MAILS.get(context)} mails")
        return go_to(MailStep, sign_up)


class SignUpFlow(Flow[SignUp]):
    """Draw, mail, wait."""

    def __init__(self, mailer: Mailer | None = None) -> None:
        self._mail = MailStep(mailer or Mailer())

    def get_steps(self) -> StepList[SignUp]:
        return StepList.start_step(DrawStep()).other_steps(self._mail, AwaitStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(CODE, MAILS, IS_VERIFIED, VERIFIED)

    @rpc
    def verify(self, context: Context, code: str) -> RPCResult[None]:
        """Take the code that somebody enters.

        Raises:
            ValueError: it is not the one that was sent.
        """
        if not secrets.compare_digest(code.encode(), CODE.get(context).encode()):
            raise ValueError("this is not the code")
        IS_VERIFIED.set(context, True)
        VERIFIED.publish(context, True)
        return RPCResult(None)


async def play(server: str) -> None:
    """Let one user enter a wrong code and then the right one, and another none at all."""
    flow = SignUpFlow()
    async with serving(flow, server) as client:
        careful, absent = (f"signup-{uuid.uuid4().hex[:8]}" for _ in range(2))
        await client.start_flow(SignUpFlow, careful, SignUp("ada@example.org"), GIVE_UP)
        await client.start_flow(SignUpFlow, absent, SignUp("bob@example.org", 0.2), StartFlowOptions(timeout=0.7))
        await client.wait_for_attribute_equal(careful, MAILS, 1)
        code = await client.get_attribute(careful, CODE) or ""  # Ada reads it in her mail.
        for entered in ("123", code):
            try:
                await client.invoke_rpc(flow.verify, careful, entered)
            except WorkerInvocationError as error:
                print(careful, error.worker_error_detail)
        result = await client.wait_for_flow(careful)
        print(careful, result.status.value, result.single_output(str))
        result = await client.wait_for_flow(absent)
        print(absent, result.status.value, result.error_type.value if result.error_type else "")


if __name__ == "__main__":
    run(play, __doc__)
