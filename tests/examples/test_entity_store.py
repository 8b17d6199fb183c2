"""A Flow without Steps that stores entities."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from dexsdk import FlowNotActiveError, FlowStatus, RpcLockConflictError, WorkerInvocationError
from dexsdk.testing import SyncEnvironment, start_env, start_env_sync
from examples.entity_store import CHANGES, CONTACTS, AddressBookFlow, Change, Contact, books_with

BOOK = AddressBookFlow()
ADA = Contact("Ada", "1")


@pytest.fixture
def env() -> Iterator[SyncEnvironment]:
    with start_env_sync(BOOK, auto_skip=False) as env:
        env.client.start_flow(AddressBookFlow, "book")
        yield env


def test_entries_are_created_read_updated_and_deleted(env: SyncEnvironment) -> None:
    """[FLOW-3, RPC-10, ATTR-3] each call sees what the one before has written."""
    env.client.invoke_rpc(BOOK.create, "book", ADA)
    env.client.invoke_rpc(BOOK.create, "book", Contact("Äñ/1", "2"))
    assert env.client.invoke_rpc(BOOK.names, "book") == ["Ada", "Äñ/1"]
    assert env.client.invoke_rpc(BOOK.update, "book", Change("Ada", phone="3")) == Contact("Ada", "3")
    assert env.client.invoke_rpc(BOOK.update, "book", Change("Ada", notes="x")) == Contact("Ada", "3", "x")
    assert env.client.invoke_rpc(BOOK.read, "book", "Ada") == Contact("Ada", "3", "x")
    env.client.invoke_rpc(BOOK.delete, "book", "Ada")
    assert env.client.invoke_rpc(BOOK.names, "book") == ["Äñ/1"]
    assert env.client.get_attribute("book", CONTACTS, "Ada") is None


def test_a_call_that_is_refused_changes_nothing(env: SyncEnvironment) -> None:
    """[RPC-3] the caller gets the handler's error."""
    env.client.invoke_rpc(BOOK.create, "book", ADA)
    with pytest.raises(WorkerInvocationError, match="there already"):
        env.client.invoke_rpc(BOOK.create, "book", Contact("Ada", "9"))
    with pytest.raises(WorkerInvocationError, match="not in the book"):
        env.client.invoke_rpc(BOOK.update, "book", Change("Bob", phone="9"))
    with pytest.raises(WorkerInvocationError, match="not in the book"):
        env.client.invoke_rpc(BOOK.delete, "book", "Bob")
    assert env.client.invoke_rpc(BOOK.read, "book", "Ada") == ADA


async def test_two_who_create_the_same_entry_at_once_do_not_both_succeed() -> None:
    """[LOCK-4] without the lock each would see the book without the other's entry [RPC-6]."""
    async with start_env(BOOK, auto_skip=False) as env:
        await env.client.start_flow(AddressBookFlow, "book")
        calls = (env.client.invoke_rpc(BOOK.create, "book", Contact("Ada", phone)) for phone in "12")
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes if outcome is not None] == [RpcLockConflictError]
        assert await env.client.get_attribute("book", CHANGES) == 1


def test_the_book_stays_open_for_years_and_survives_crashes(env: SyncEnvironment) -> None:
    """[FLOW-7] nothing ends a Flow without Steps but a stop."""
    env.client.invoke_rpc(BOOK.create, "book", ADA)
    env.advance(timedelta(days=3_650))
    env.crash_server()
    env.recover_server()
    assert env.client.invoke_rpc(BOOK.read, "book", "Ada") == ADA
    assert env.client.describe_flow("book").status is FlowStatus.RUNNING


def test_a_closed_book_can_be_read_and_not_written(env: SyncEnvironment) -> None:
    """[RPC-4]"""
    env.client.invoke_rpc(BOOK.create, "book", ADA)
    env.client.stop_flow("book")
    assert env.client.invoke_rpc(BOOK.read, "book", "Ada") == ADA
    with pytest.raises(FlowNotActiveError):
        env.client.invoke_rpc(BOOK.delete, "book", "Ada")


async def test_a_book_is_found_by_words_of_its_entries() -> None:
    """[ATTR-9, SEARCH-5] as soon as they are written, and no longer than they are there."""
    async with start_env(BOOK, auto_skip=False) as env:
        for flow_id in ("one", "two"):
            await env.client.start_flow(AddressBookFlow, flow_id)
            await env.client.invoke_rpc(BOOK.create, flow_id, Contact("O'Brien", "1", f"likes engine {flow_id}"))
        assert await books_with(env.client, "ENGINE o'brien") == ["one", "two"]
        assert await books_with(env.client, "one likes") == ["one"]
        await env.client.invoke_rpc(BOOK.delete, "one", "O'Brien")
        assert await books_with(env.client, "likes") == ["two"]
