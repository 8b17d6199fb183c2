"""An agent that drafts, listens and sends."""

from datetime import timedelta

import pytest

from dexsdk import WorkerInvocationError
from dexsdk.testing import Environment, start_env
from examples.ai_agent_email import (
    APPROVALS,
    MESSAGES,
    STATE,
    AgentState,
    Answer,
    Draft,
    EmailAgentFlow,
    Mailer,
    Model,
    Task,
)

MINUTE = timedelta(minutes=1)
LUNCH = Task("lunch with Bob")


async def begin(env: Environment, agent: EmailAgentFlow) -> Draft:
    await env.client.start_flow(EmailAgentFlow, "mail", LUNCH)
    return await env.client.invoke_rpc(agent.draft, "mail")


async def state(env: Environment) -> AgentState | None:
    return await env.client.get_attribute("mail", STATE)


async def test_an_approved_draft_is_sent_by_the_timer() -> None:
    """[WAIT-5] not before the ten minutes of the outbox are over."""
    mailer = Mailer()
    agent = EmailAgentFlow(mailer=mailer)
    async with start_env(agent, auto_skip=False) as env:
        assert await begin(env, agent) == Draft(1, "bob@example.org", "lunch with Bob")
        await env.advance(timedelta(days=7))
        assert await state(env) is AgentState.DRAFTED
        await env.client.invoke_rpc(agent.approve, "mail", 1)
        await env.advance(9 * MINUTE)
        assert (await state(env), mailer.sent) == (AgentState.IN_OUTBOX, {})
        await env.advance(MINUTE)
        assert await state(env) is AgentState.SENT
    assert list(mailer.sent.values()) == ["bob@example.org: lunch with Bob"]


async def test_messages_change_the_draft_and_make_new_revisions() -> None:
    """[CHAN-4] what was said together is answered together."""
    model = Model()
    agent = EmailAgentFlow(model)
    async with start_env(agent, auto_skip=False) as env:
        await begin(env, agent)
        await env.client.publish("mail", MESSAGES, "on Friday", "at noon")
        draft = await env.client.invoke_rpc(agent.draft, "mail")
        assert draft == Draft(2, "bob@example.org", "lunch with Bob, on Friday, at noon")
    assert model.calls == 2


async def test_a_message_calls_an_approved_draft_back_and_its_approval_is_void() -> None:
    mailer = Mailer()
    agent = EmailAgentFlow(mailer=mailer)
    async with start_env(agent, auto_skip=False) as env:
        await begin(env, agent)
        await env.client.invoke_rpc(agent.approve, "mail", 1)
        await env.advance(5 * MINUTE)
        await env.client.publish("mail", MESSAGES, "on Friday")
        await env.advance(timedelta(days=1))
        assert (await state(env), mailer.sent) == (AgentState.DRAFTED, {})
        await env.client.invoke_rpc(agent.approve, "mail", 2)
        await env.advance(10 * MINUTE)
    assert list(mailer.sent.values()) == ["bob@example.org: lunch with Bob, on Friday"]


async def test_a_message_sends_an_approved_draft_at_once_and_no_other() -> None:
    mailer = Mailer()
    agent = EmailAgentFlow(mailer=mailer)
    async with start_env(agent, auto_skip=False) as env:
        await begin(env, agent)
        await env.client.publish("mail", MESSAGES, "send it now")
        assert (await state(env), mailer.sent) == (AgentState.DRAFTED, {})
        await env.client.invoke_rpc(agent.approve, "mail", 1)
        begun = env.now
        await env.client.publish("mail", MESSAGES, "send it now")
        result = await env.client.wait_for_flow("mail", timeout=10)
        assert result.single_output(Draft).revision == 1
        assert env.now == begun
    assert len(mailer.sent) == 1


async def test_only_the_current_revision_can_be_approved() -> None:
    """[RPC-3] neither by the RPC, nor by an approval that was published before the draft changed."""
    agent = EmailAgentFlow()
    async with start_env(agent, auto_skip=False) as env:
        await begin(env, agent)
        await env.client.publish("mail", MESSAGES, "on Friday")
        with pytest.raises(WorkerInvocationError, match="revision 1 is not the current one, which is 2"):
            await env.client.invoke_rpc(agent.approve, "mail", 1)
        await env.client.publish("mail", APPROVALS, 1)
        await env.advance(timedelta(hours=1))
        assert await state(env) is AgentState.DRAFTED


async def test_a_model_that_fails_is_asked_again() -> None:
    """[GEN-7] failures leave nothing in the conversation."""
    agent = EmailAgentFlow(Model(failures=3))
    async with start_env(agent, auto_skip=False) as env:
        assert await begin(env, agent) == Draft(0, "", "")
        await env.advance(1 + 2 + 4)
        assert await env.client.invoke_rpc(agent.draft, "mail") == Draft(1, "bob@example.org", "lunch with Bob")


async def test_an_e_mail_is_sent_once_although_the_step_that_sends_runs_twice() -> None:
    """[STEP-9] a second delivery has the same key."""

    class LastModel(Model):
        """After its last answer the result of the next handler, which sends, is lost."""

        async def answer(self, conversation: list[str]) -> Answer:
            answer = await super().answer(conversation)
            if answer.send_now:
                env.duplicate_next_delivery()
            return answer

    mailer = Mailer()
    agent = EmailAgentFlow(LastModel(), mailer)
    async with start_env(agent, auto_skip=False) as env:
        await begin(env, agent)
        await env.client.invoke_rpc(agent.approve, "mail", 1)
        await env.client.publish("mail", MESSAGES, "send it now")
        assert await state(env) is AgentState.SENT
        events = (await env.client.get_history("mail")).events
        lost = [event.data["step_execution_id"] for event in events if event.kind == "StepDeliveryLost"]
        assert lost == ["SendStep-1"]
    assert list(mailer.sent.values()) == ["bob@example.org: lunch with Bob"]
