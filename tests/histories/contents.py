"""What a frozen log shows of values that are kept elsewhere too: in the index of search, or among the large ones."""

import hashlib

from dexd.core import commands as c
from dexd.core.blobs import BlobReference
from dexd.core.ids import FlowId, RequestId
from dexd.core.index_values import IndexType, IndexWrite
from dexd.core.values import Decision, DecisionKind, StepPlan, Wait, WaitKind
from tests.histories.act import BEGIN_WAITING, NEXT_WAITING, Act, channel

FIRST_VALUES = (
    IndexWrite("city", IndexType.KEYWORD, "O'Brien"),
    IndexWrite("notes", IndexType.FULL_TEXT, "two boxes, fragile"),
    IndexWrite("tags", IndexType.KEYWORD_ARRAY, ("new", "urgent")),
    IndexWrite("amount", IndexType.INT, 2**53 + 1),
    IndexWrite("weight", IndexType.DOUBLE, 0.1),
    IndexWrite("is_paid", IndexType.BOOL, False),
    IndexWrite("due", IndexType.DATETIME, 1_700_000_000_000_001),
)


def large(content: str) -> bytes:
    """What stands for a value that lies in the blob store; nobody reads it here."""
    data = content.encode() * 10_000
    return BlobReference(hashlib.sha256(data).digest(), len(data)).to_value()


async def index_values(act: Act) -> None:
    """Values of every type at a start, changed by a wait_for, an execute and a client; kept over a roll-over."""
    worker = await act.worker()
    attributes = tuple((write.key, b"1") for write in FIRST_VALUES)
    await act.start("indexed", BEGIN_WAITING, attributes=attributes, indexed=FIRST_VALUES)
    await act.complete(
        worker,
        worker.calls[0],
        wait=Wait(WaitKind.ALL_OF, (channel("go"),)),
        writes=(("city", b'"Bern"'), ("weight", None)),
        indexed=(IndexWrite("city", IndexType.KEYWORD, "Bern"), IndexWrite("weight", IndexType.DOUBLE)),
    )
    paid = (IndexWrite("is_paid", IndexType.BOOL, value=True),)
    write = c.SetAttribute(FlowId("indexed"), None, "is_paid", b"true", RequestId("pay"), b"digest", paid)
    await act.rig.answer(write)
    await act.rig.answer(c.ContinueAsNew(FlowId("indexed"), None, RequestId("continue"), b"digest"))
    await act.publish("indexed", "go", b"1")
    await act.complete(
        worker,
        worker.calls[1],
        decision=Decision(DecisionKind.GO_TO, (NEXT_WAITING,)),
        writes=(("amount", b"-5"),),
        indexed=(IndexWrite("amount", IndexType.INT, -5),),
    )
    await act.complete(worker, worker.calls[2], wait=Wait(WaitKind.ALL_OF, (channel("go"),)))


async def large_values(act: Act) -> None:
    """References as input, message, Attribute and local; one content is used twice."""
    worker = await act.worker()
    await act.start("large", StepPlan("Begin", large("input"), True), attributes=(("paper", large("paper")),))
    wait = Wait(WaitKind.ALL_OF, (channel("pages"),))
    await act.complete(worker, worker.calls[0], wait=wait, locals=(("draft", large("paper")),))
    await act.publish("large", "pages", large("page"), large("more"))
    await act.decide(worker, worker.calls[1], DecisionKind.GO_TO, NEXT_WAITING)
    more = Wait(WaitKind.ALL_OF, (channel("pages", 2, 2),))
    await act.complete(worker, worker.calls[2], wait=more, writes=(("paper", large("new paper")),))
