"""A delayed e-mail, and a Flow that asks another one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from dexsdk.testing import Environment, start_env
from examples.flow_caller import FlowCaller
from examples.shortlist import REVOKED, EmployerFlow, Mailer, ShortlistFlow, Shortlisting, opt_in

HOUR = timedelta(hours=1)
EMPLOYERS = EmployerFlow()


@asynccontextmanager
async def shortlisted(mailer: Mailer) -> AsyncIterator[Environment]:
    """Ada is on the shortlist of Acme."""
    caller = FlowCaller()
    async with start_env(ShortlistFlow(EMPLOYERS, caller, mailer), EMPLOYERS, auto_skip=False) as env:
        caller.connect(env.client)
        await env.client.start_flow(ShortlistFlow, "acme/ada", Shortlisting("Acme", "Ada"))
        yield env


async def ending(env: Environment) -> str:
    return (await env.client.wait_for_flow("acme/ada", timeout=10)).single_output(str)


async def test_the_employer_is_asked_when_the_mail_would_go_out() -> None:
    """[RPC-10] it opted in after the candidate was shortlisted; the Step's RPC sees that."""
    mailer = Mailer()
    async with shortlisted(mailer) as env:
        await env.advance(HOUR / 2)
        await opt_in(env.client, EMPLOYERS, "Acme")
        assert mailer.sent == {}
        await env.advance(HOUR / 2)
        assert await ending(env) == "sent"
    assert list(mailer.sent.values()) == ["Ada, you are on the shortlist of Acme"]


async def test_a_message_revokes_the_mail() -> None:
    """[WAIT-5] before the Timer is due."""
    mailer = Mailer()
    async with shortlisted(mailer) as env:
        await opt_in(env.client, EMPLOYERS, "Acme")
        await env.advance(HOUR / 2)
        await env.client.publish("acme/ada", REVOKED, "filled")
        assert await ending(env) == "revoked: filled"
        await env.advance(HOUR)
    assert mailer.sent == {}


async def test_an_employer_who_has_not_opted_in_or_is_out_again_sends_nothing() -> None:
    """An employer has one Flow however often it opts in and out."""
    mailer = Mailer()
    async with shortlisted(mailer) as env:
        await env.advance(HOUR)
        assert await ending(env) == "not sent: the employer has not opted in"
        for _ in range(2):
            await opt_in(env.client, EMPLOYERS, "Acme")
            await env.client.invoke_rpc(EMPLOYERS.opt_out, "employer-Acme")
        assert (await env.client.describe_flow("employer-Acme")).ordinal == 1
        await env.client.start_flow(ShortlistFlow, "acme/bob", Shortlisting("Acme", "Bob"))
        await env.advance(HOUR)
    assert mailer.sent == {}


async def test_a_mail_is_sent_once_although_the_step_runs_twice() -> None:
    """[STEP-9]"""
    mailer = Mailer()
    async with shortlisted(mailer) as env:
        await opt_in(env.client, EMPLOYERS, "Acme")
        env.duplicate_next_delivery()
        await env.advance(HOUR)
        assert await ending(env) == "sent"
    assert len(mailer.sent) == 1
