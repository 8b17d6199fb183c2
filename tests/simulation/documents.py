"""Clients of documents, and what must come out and resolve [BLOB-1..4]."""

import asyncio
from random import Random

from dexd.blobs.memory_store import MemoryBlobStore
from dexd.core.blobs import references_in
from dexd.core.flow.state import RunState
from dexd.core.values import FlowStatus
from dexpb.v1.blobs import make_reference
from tests.simulation.acknowledged import Acknowledged
from tests.simulation.answers import value
from tests.simulation.document_programs import FLOW_TYPE, fetch
from tests.simulation.requests import Requests
from tests.simulation.retention import KeptLog


async def drive_document(requests: Requests, random: Random, flow_id: str) -> None:
    """A text that grows page by page; some pages are equal, also to those of other Flows."""
    pages = [f"{random.choice([flow_id, 'common'])} page {random.randint(0, 3)} " * 20 for _ in range(5)]
    pages = pages[: random.randint(1, 5)]
    requests.acknowledged.documents[flow_id] = value("".join(pages))
    await requests.start(flow_id, FLOW_TYPE, pages[0])
    for page in pages[1:]:
        await asyncio.sleep(random.uniform(0, 6))
        await requests.publish(flow_id, "pages", page)
    await requests.publish(flow_id, "pages", "end")


def check_document(last: RunState, told: Acknowledged, where: str) -> None:
    """What came out is what went in."""
    expected = told.documents.get(last.flow_id)
    if expected is not None and last.status is FlowStatus.COMPLETED:
        [done] = last.completions
        assert done.value == make_reference(expected), f"{where}: another text came out"


def check_blobs(store: MemoryBlobStore, log: KeptLog, world: str) -> None:
    """Every reference of a retained run resolves, and is known to keep its value [BLOB-1, BLOB-4]."""
    leaving = frozenset(log.streams_leaving())
    for stored in log.read_all(1, len(log.everything)):
        if stored.stream_id in leaving:
            continue
        for reference in references_in(stored.payload):
            where = f"{world}: stream {stored.stream_id} event {stored.version}"
            assert store.size_of(reference.digest) == reference.size, f"{where} refers to what is not there [BLOB-4]"
            fetch(reference.to_value(), store)
            assert log.blobs_in_use([reference.digest]), f"{where} does not keep its large value [BLOB-4]"
