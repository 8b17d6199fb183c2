"""An address book as one Flow that has no Steps at all: its state is an AttributeMap, its interface are RPCs.

Shows a Flow without start Step, which stays open and costs nothing while nobody calls it, and RPCs that create, read,
update and delete, and a full-text index by which a book is found. A handler that raises changes nothing, and its caller
gets the error. Those that write lock an Attribute; who comes at the same moment is refused with RpcLockConflictError
and may try again. Start a server (`dexd serve`), then `python -m examples.entity_store`.
"""

import uuid
from dataclasses import dataclass, replace

from dexsdk import (
    AsyncClient,
    Attribute,
    AttributeIndex,
    AttributeMap,
    Context,
    Flow,
    IndexType,
    PersistenceSchema,
    RPCResult,
    StepList,
    WorkerInvocationError,
    rpc,
)
from examples.local_worker import run, serving


@dataclass(frozen=True)
class Contact:
    """One entry of the book."""

    name: str
    phone: str
    notes: str = ""


@dataclass(frozen=True)
class Change:
    """A new phone number or new notes for somebody; None leaves what is there."""

    name: str
    phone: str | None = None
    notes: str | None = None


CONTACTS = AttributeMap("contacts", Contact)
CHANGES = Attribute("changes", int)
"""How often the book was changed. Whoever changes it locks this, so that nobody does so at the same moment."""
CONTENT = Attribute("content", str, AttributeIndex(IndexType.FULL_TEXT))
"""Everybody's name and notes, by whose words search finds the book."""


class AddressBookFlow(Flow[None]):
    """Contacts by name."""

    def get_steps(self) -> StepList[None]:
        return StepList.empty()

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(CONTACTS, CHANGES, CONTENT)

    @rpc(lock_attributes=(CHANGES.lock(),))
    def create(self, context: Context, contact: Contact) -> RPCResult[None]:
        """Add somebody who is not there yet."""
        if contact.name in CONTACTS.get_all_instance_keys(context):
            raise ValueError(f"{contact.name} is there already")
        CONTACTS.set(context, contact.name, contact)
        _count_change(context)
        return RPCResult(None)

    @rpc
    def read(self, context: Context, name: str) -> RPCResult[Contact]:
        """Give somebody's entry."""
        return RPCResult(_entry(context, name))

    @rpc
    def names(self, context: Context) -> RPCResult[list[str]]:
        """List who is in the book."""
        return RPCResult(CONTACTS.get_all_instance_keys(context))

    @rpc(lock_attributes=(CHANGES.lock(),))
    def update(self, context: Context, change: Change) -> RPCResult[Contact]:
        """Change somebody's entry; gives the new one."""
        entry = _entry(context, change.name)
        entry = replace(
            entry,
            phone=entry.phone if change.phone is None else change.phone,
            notes=entry.notes if change.notes is None else change.notes,
        )
        CONTACTS.set(context, change.name, entry)
        _count_change(context)
        return RPCResult(entry)

    @rpc(lock_attributes=(CHANGES.lock(),))
    def delete(self, context: Context, name: str) -> RPCResult[None]:
        """Remove somebody."""
        _entry(context, name)
        CONTACTS.delete(context, name)
        _count_change(context)
        return RPCResult(None)


def _count_change(context: Context) -> None:
    CHANGES.set(context, CHANGES.get(context, default=0) + 1)
    entries = [CONTACTS.get(context, name) for name in CONTACTS.get_all_instance_keys(context)]
    CONTENT.set(context, "\n".join(f"{entry.name} {entry.notes}" for entry in entries) or None)


def _entry(context: Context, name: str) -> Contact:
    try:
        return CONTACTS.get(context, name)
    except KeyError:
        raise LookupError(f"{name} is not in the book") from None


async def books_with(client: AsyncClient, words: str) -> list[str]:
    """Find books in which all these words occur, in any case and order."""
    page = await client.search_flows("content = '{}'".format(words.replace("'", "''")))
    return [flow.flow_id for flow in page.flows]


async def play(server: str) -> None:
    """Add two people, change one, remove the other."""
    book = AddressBookFlow()
    async with serving(book, server) as client:
        flow_id = f"book-{uuid.uuid4().hex[:8]}"
        await client.start_flow(AddressBookFlow, flow_id)
        await client.invoke_rpc(book.create, flow_id, Contact("Ada", "0170 1"))
        await client.invoke_rpc(book.create, flow_id, Contact("Bob", "0170 2"))
        await client.invoke_rpc(book.update, flow_id, Change("Ada", notes="likes engines"))
        await client.invoke_rpc(book.delete, flow_id, "Bob")
        names = await client.invoke_rpc(book.names, flow_id)
        ada = await client.invoke_rpc(book.read, flow_id, "Ada")
        print(flow_id, names, ada)
        try:
            await client.invoke_rpc(book.read, flow_id, "Bob")
        except WorkerInvocationError as error:
            print(error.worker_error_type, "-", error.worker_error_detail)


if __name__ == "__main__":
    run(play, __doc__)
