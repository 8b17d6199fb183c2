"""An agent that writes an e-mail with you: you say what you want, read its draft, approve it, and may still interrupt.

Shows an agent's loop on a message Channel, a draft in Attributes that any client reads, and an approval by RPC that is
good for one revision only. An approved draft waits a while in the outbox; it is sent by the Timer, at once when a new
message says so, or goes back to the agent when the message asks for something else. A language model is slow, fails and
costs money, so each answer is a Step of its own whose result is stored before anything follows from it. Start a server
(`dexd serve`), then `python -m examples.ai_agent_email`.
"""

import uuid
from dataclasses import dataclass
from enum import StrEnum

from dexsdk import (
    Attribute,
    Channel,
    Context,
    Flow,
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


@dataclass(frozen=True)
class Task:
    """What the agent is to write, and how many seconds an approved draft waits before it is sent."""

    request: str
    outbox_seconds: float = 600.0


class AgentState(StrEnum):
    """What the agent waits for."""

    THINKING = "THINKING"
    DRAFTED = "DRAFTED"
    IN_OUTBOX = "IN_OUTBOX"
    SENT = "SENT"


@dataclass(frozen=True)
class Draft:
    """What would be sent; each answer of the model that changes it makes a new revision."""

    revision: int
    recipient: str
    body: str


@dataclass(frozen=True)
class Answer:
    """What the model makes of a conversation."""

    recipient: str
    body: str
    send_now: bool = False


@dataclass(frozen=True)
class Turn:
    """What the user has said since the last answer, and whether the draft of then is approved."""

    messages: list[str]
    is_approved: bool


STATE = Attribute("state", AgentState)
OUTBOX_SECONDS = Attribute("outbox_seconds", float)
CONVERSATION = Attribute("conversation", list[str])
DRAFT = Attribute("draft", Draft)
MESSAGES = Channel("messages", str)
APPROVALS = Channel("approvals", int)


class Model:
    """Stands for a language model. This one writes down what it is told, and fails as often as it was told to."""

    def __init__(self, failures: int = 0) -> None:
        self.calls = 0
        self._failures = failures

    async def answer(self, conversation: list[str]) -> Answer:
        """Read the whole conversation, and write the e-mail that it asks for."""
        self.calls += 1
        if self.calls <= self._failures:
            raise ConnectionError("the model is overloaded")
        wishes = [message for message in conversation if message != "send it now"]
        return Answer("bob@example.org", ", ".join(wishes), send_now=conversation[-1] == "send it now")


class Mailer:
    """Stands for a mail server that sends once per key."""

    def __init__(self) -> None:
        self.sent: dict[str, str] = {}

    def send(self, recipient: str, body: str, *, key: str) -> None:
        """Send an e-mail, once per key."""
        self.sent.setdefault(key, f"{recipient}: {body}")


class BeginStep(Step[Task]):
    """Take the first request as the first message."""

    def execute(self, context: Context, task: Task) -> StepDecision:
        OUTBOX_SECONDS.set(context, task.outbox_seconds)
        CONVERSATION.set(context, [])
        return go_to(ThinkStep, Turn([task.request], is_approved=False))


class ThinkStep(Step[Turn]):
    """Ask the model once; a failed attempt leaves no trace, and the next one sees the same conversation [GEN-7]."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def get_step_options(self) -> StepOptions:
        return StepOptions(execute_method_timeout=120.0, execute_retry=RetryPolicy(maximum_attempts=10))

    def wait_for(self, context: Context, turn: Turn) -> Wait:
        STATE.set(context, AgentState.THINKING)
        return Wait.skip_immediately()

    async def execute(self, context: Context, turn: Turn) -> StepDecision:
        conversation = [*CONVERSATION.get(context), *turn.messages]
        answer = await self._model.answer(conversation)
        CONVERSATION.set(context, conversation)
        draft = _draft(context)
        if (answer.recipient, answer.body) == (draft.recipient, draft.body):
            # Nothing is new in it, so an approval still holds.
            if turn.is_approved:
                return go_to(SendStep) if answer.send_now else go_to(OutboxStep)
        else:
            DRAFT.set(context, Draft(draft.revision + 1, answer.recipient, answer.body))
        return go_to(ListenStep)


class ListenStep(Step[None]):
    """Wait for the user: a message comes before an approval, which was given before it was read."""

    def wait_for(self, context: Context, input: None) -> Wait:
        STATE.set(context, AgentState.DRAFTED)
        return Wait.any_of(MESSAGES.at_least(1), APPROVALS.for_one())

    def execute(self, context: Context, input: None) -> StepDecision:
        if messages := MESSAGES.results(context):
            return go_to(ThinkStep, Turn(messages, is_approved=False))
        is_current = APPROVALS.results(context) == [_draft(context).revision]
        return go_to(OutboxStep) if is_current else go_to(ListenStep)


class OutboxStep(Step[None]):
    """Give the user a while to interrupt."""

    def wait_for(self, context: Context, input: None) -> Wait:
        STATE.set(context, AgentState.IN_OUTBOX)
        return Wait.any_of(Timer.by_duration(OUTBOX_SECONDS.get(context)), MESSAGES.at_least(1))

    def execute(self, context: Context, input: None) -> StepDecision:
        if context.has_timer_fired():
            return go_to(SendStep)
        return go_to(ThinkStep, Turn(MESSAGES.results(context), is_approved=True))


class SendStep(Step[None]):
    """Send the draft; nothing can call it back any more."""

    def __init__(self, mailer: Mailer) -> None:
        self._mailer = mailer

    def execute(self, context: Context, input: None) -> StepDecision:
        draft = _draft(context)
        self._mailer.send(draft.recipient, draft.body, key=context.idempotency_key)
        STATE.set(context, AgentState.SENT)
        return graceful_complete(draft)


class EmailAgentFlow(Flow[Task]):
    """Think, listen, think again, send."""

    def __init__(self, model: Model | None = None, mailer: Mailer | None = None) -> None:
        self._steps = (ThinkStep(model or Model()), ListenStep(), OutboxStep(), SendStep(mailer or Mailer()))

    def get_steps(self) -> StepList[Task]:
        return StepList.start_step(BeginStep()).other_steps(*self._steps)

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(STATE, OUTBOX_SECONDS, CONVERSATION, DRAFT, MESSAGES, APPROVALS)

    @rpc
    def draft(self, context: Context) -> RPCResult[Draft]:
        """Give the draft as it is."""
        return RPCResult(_draft(context))

    @rpc
    def approve(self, context: Context, revision: int) -> RPCResult[None]:
        """Approve the revision that was read.

        Raises:
            ValueError: there is a newer one.
        """
        current = _draft(context).revision
        if revision != current:
            raise ValueError(f"revision {revision} is not the current one, which is {current}")
        APPROVALS.publish(context, revision)
        return RPCResult(None)


def _draft(context: Context) -> Draft:
    return DRAFT.get(context, default=Draft(0, "", ""))


async def play(server: str) -> None:
    """Ask for an e-mail, ask for a change, approve it, and let it be sent at once."""
    agent = EmailAgentFlow()
    async with serving(agent, server) as client:
        flow_id = f"email-{uuid.uuid4().hex[:8]}"
        await client.start_flow(EmailAgentFlow, flow_id, Task("invite Bob to lunch"))
        await client.wait_for_attribute_equal(flow_id, STATE, AgentState.DRAFTED)
        await client.publish(flow_id, MESSAGES, "on Friday")
        await client.wait_for_step_completion(flow_id, StepExecutionId(ThinkStep, 2))
        draft = await client.invoke_rpc(agent.draft, flow_id)
        print(flow_id, draft)
        await client.invoke_rpc(agent.approve, flow_id, draft.revision)
        await client.wait_for_attribute_equal(flow_id, STATE, AgentState.IN_OUTBOX)
        await client.publish(flow_id, MESSAGES, "send it now")
        result = await client.wait_for_flow(flow_id)
        print(flow_id, result.status.value, result.single_output(Draft).body)


if __name__ == "__main__":
    run(play, __doc__)
