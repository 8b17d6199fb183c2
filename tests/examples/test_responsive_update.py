"""Edits that are accepted at once and published later."""

import asyncio
from datetime import timedelta

import pytest

from dexsdk import FlowNotActiveError, LongPollTimeoutError
from dexsdk.testing import start_env
from examples.responsive_update import PUBLISHED, TEXT, DocumentFlow, edit, wait_until_published

FLOW = DocumentFlow()
HOUR = 3_600.0


async def test_an_edit_is_answered_before_the_work_behind_it_begins() -> None:
    """[RPC-10] no time has passed, and nothing is published yet."""
    async with start_env(FLOW, auto_skip=False) as env:
        await env.client.start_flow(DocumentFlow, "text", HOUR)
        assert await env.client.invoke_rpc(FLOW.edit, "text", "one") == 1
        assert await env.client.invoke_rpc(FLOW.edit, "text", "two") == 2
        assert await env.client.get_attribute("text", PUBLISHED) is None
        with pytest.raises(LongPollTimeoutError):
            await wait_until_published(env.client, "text", 1, patience=0)


async def test_who_waits_for_a_revision_gets_it_when_it_is_published() -> None:
    """[WAITAPI-5] a wait is met by the commit that publishes, not before and not by an older one."""
    async with start_env(FLOW, auto_skip=False) as env:
        await env.client.start_flow(DocumentFlow, "text", HOUR)
        await env.client.invoke_rpc(FLOW.edit, "text", "one")
        second = await env.client.invoke_rpc(FLOW.edit, "text", "two")
        waiting = asyncio.create_task(wait_until_published(env.client, "text", second))
        await env.advance(timedelta(hours=1))
        assert await env.client.get_attribute("text", PUBLISHED) == 1
        assert not waiting.done()
        await env.advance(timedelta(hours=1))
        assert await waiting == 2
        assert await env.client.get_attribute("text", TEXT) == "two"


async def test_edits_that_pile_up_are_published_together() -> None:
    """[CHAN-4] who waits for one of them sees a newer one."""
    async with start_env(FLOW) as env:
        await env.client.start_flow(DocumentFlow, "text", HOUR)
        for number in range(10):
            await env.client.invoke_rpc(FLOW.edit, "text", f"edit {number}")
        assert await wait_until_published(env.client, "text", 2) == 10
        assert await env.client.get_attribute("text", TEXT) == "edit 9"


async def test_edits_at_the_same_moment_get_revisions_of_their_own() -> None:
    """[LOCK-1, LOCK-4] whoever meets the lock is refused, and tries again."""
    async with start_env(FLOW, auto_skip=False) as env:
        await env.client.start_flow(DocumentFlow, "text", HOUR)
        revisions = await asyncio.gather(*(edit(env.client, FLOW, "text", f"edit {number}") for number in range(5)))
        assert sorted(revisions) == [1, 2, 3, 4, 5]


async def test_who_waits_is_told_when_the_document_goes_away() -> None:
    """[WAITAPI-5] a Flow that closes unmatched ends the wait."""
    async with start_env(FLOW, auto_skip=False) as env:
        await env.client.start_flow(DocumentFlow, "text", HOUR)
        waiting = asyncio.create_task(wait_until_published(env.client, "text", 1))
        await env.client.stop_flow("text")
        with pytest.raises(FlowNotActiveError):
            await waiting
