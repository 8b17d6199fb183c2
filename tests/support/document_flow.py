"""A Flow that carries one large text everywhere that values go: input, message, Attribute, RPC, Step, output."""

from dexsdk import (
    Attribute,
    Channel,
    Context,
    Flow,
    PersistenceSchema,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    Wait,
    go_to,
    graceful_complete,
    rpc,
)

INBOX = Channel("inbox", str)
DOCUMENT = Attribute("document", str)
SHELF = Channel("shelf", str)
"""Nobody consumes from it."""


class Receive(Step[str]):
    """Waits for a message beside its input, and remembers both."""

    def wait_for(self, context: Context, input: str) -> Wait:
        context.set_step_execution_local("size", len(input))
        return Wait.until(INBOX.for_one())

    def execute(self, context: Context, input: str) -> StepDecision:
        assert context.get_step_execution_local("size", int) == len(input)
        (message,) = INBOX.results(context)
        DOCUMENT.set(context, message)
        return go_to(Publish, input)


class Publish(Step[str]):
    """Gives what was remembered as the output of the Flow."""

    def execute(self, context: Context, input: str) -> StepDecision:
        assert DOCUMENT.get(context) == input
        return graceful_complete(DOCUMENT.get(context))


class DocumentFlow(Flow[str]):
    """Completes with its input, once it got the same as a message."""

    def get_steps(self) -> StepList[str]:
        return StepList.start_step(Receive()).other_steps(Publish())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(INBOX, SHELF, DOCUMENT)

    @rpc
    def echo(self, context: Context, text: str) -> RPCResult[str]:
        """Give the text back; it stays nowhere."""
        return RPCResult.of(text)

    @rpc
    def shelved(self, context: Context) -> RPCResult[list[int]]:
        """Give the lengths of the messages that nobody consumes."""
        return RPCResult.of([len(message.value) for message in SHELF.pending(context)])


DOCUMENT_FLOW = DocumentFlow()
