"""A document that is too large to travel inline."""

from dexsdk import FlowStatus
from dexsdk.testing import start_env
from examples.large_document import CORRECTIONS, DOCUMENT, LINE, LINE_COUNT, LargeDocumentFlow

FLOW = LargeDocumentFlow()
TEXT = LINE * 10_000


async def test_a_large_document_is_counted_corrected_and_given_back() -> None:
    """[BLOB-2, ATTR-7] coroutines read it like any other value."""
    async with start_env(FLOW) as env:
        await env.client.start_flow(LargeDocumentFlow, "document", TEXT)
        assert await env.client.get_attribute("document", LINE_COUNT) == 10_000
        assert await env.client.invoke_rpc(FLOW.head, "document", 8) == "All work"
        await env.client.publish("document", CORRECTIONS, ("dull", "bright"))
        result = await env.client.wait_for_flow("document")
        assert result.status is FlowStatus.COMPLETED
        assert result.single_output(str) == TEXT.replace("dull", "bright")
        assert await env.client.get_attribute("document", DOCUMENT) == TEXT.replace("dull", "bright")


async def test_the_history_shows_what_stands_for_the_document() -> None:
    """[BLOB-2, HIST-4] its digest and size, not the document."""
    async with start_env(FLOW) as env:
        await env.client.start_flow(LargeDocumentFlow, "document", TEXT)
        history = await env.client.get_history("document")
        (scheduled,) = [event for event in history.events if event.data.get("step_execution_id") == "ImportStep-1"][:1]
        assert scheduled.data["input"]["$blob"]["size"] == len(TEXT) + 10_000 + 2


async def test_a_document_survives_a_crash_of_the_server() -> None:
    """[BLOB-1] it is in the store before anything refers to it."""
    async with start_env(FLOW) as env:
        await env.client.start_flow(LargeDocumentFlow, "document", TEXT)
        env.crash_server()
        env.recover_server()
        assert await env.client.invoke_rpc(FLOW.head, "document", 8) == "All work"
