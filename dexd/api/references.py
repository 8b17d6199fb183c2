"""Which references to large values are accepted from whom [BLOB-3].

A client may refer to what was uploaded under the key of its session. A worker may as well, and its results may refer to
what came with their call. Hardly any message has a reference, so that all of this costs one search for their mark.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec

from dexd.blobs.store import BlobMissingError, BlobStore
from dexd.codec.value_sizes import oversized_value
from dexd.codec.wire import OUTPUT_TOO_LARGE
from dexd.core.blobs import REFERENCE_MARK, BlobReference, references_in
from dexd.core.commands import CompleteCall, FailCall, OpenSession, WorkerCommand
from dexd.core.config import INLINE_VALUE_BYTES_MAX
from dexd.core.effects import AssignCall, DeliverPart, SessionEffect
from dexd.core.rejections import Code, Rejection
from dexd.core.values import Failure, Token
from dexd.engine.ports import Clock

CALLS_MAX: Final = 100_000
"""Calls whose references are remembered; as many as there can be logical streams."""

_encode = msgspec.msgpack.Encoder().encode


class Ledger(Protocol):
    """What the log knows of large values; a part of EventLog."""

    def refers_to(self, chain_id: str, digest: bytes) -> bool:
        """See EventLog."""
        ...

    def was_uploaded(self, session: bytes, digest: bytes) -> bool:
        """See EventLog."""
        ...


class References:
    """Decides about references in requests and results; one for all sessions, because calls move between them."""

    def __init__(self, store: BlobStore, ledger: Ledger, clock: Clock) -> None:
        self._store = store
        self._ledger = ledger
        self._clock = clock
        self._handed_out: OrderedDict[Token, frozenset[bytes]] = OrderedDict()
        """Digests that came with calls whose results are awaited."""
        self._resumed: OrderedDict[Token, None] = OrderedDict()
        """Calls that were handed out by another life of this server; what came with them is in the log."""

    def refuse_request(self, body: bytes, session: bytes) -> Rejection | None:
        """Refuse a client's request if it has a reference that its session has not uploaded."""
        if body.find(REFERENCE_MARK) < 0:
            return None
        for reference in references_in(body):
            if not self._is_there(reference) or not self._ledger.was_uploaded(session, reference.digest):
                return not_uploaded(reference)
        return None

    def is_text(self, reference: BlobReference) -> bool:
        """Whether a large value is a JSON string, which its first byte tells; no if it is not stored any more."""
        try:
            return self._store.read(reference.digest, 0, 1) == b'"'
        except BlobMissingError:
            return False

    def check_results(self, message: bytes, commands: list[WorkerCommand], session: bytes) -> list[WorkerCommand]:
        """Let every result fail whose references its worker may not use, or that has too large values beside them.

        Gives the commands to decide about.
        """
        if len(message) > INLINE_VALUE_BYTES_MAX:
            commands = [_without_excess(command) for command in commands]
        if message.find(REFERENCE_MARK) >= 0:
            commands = [self._checked(command, session) for command in commands]
        if self._handed_out or self._resumed:
            for command in commands:
                if type(command) is CompleteCall or type(command) is FailCall:
                    self._handed_out.pop(command.token, None)
                    self._resumed.pop(command.token, None)
        return commands

    def note_handed_out(self, blocks: Iterable[bytes], effects: Sequence[SessionEffect]) -> None:
        """Remember the references that leave with calls; `blocks` are what the effects are encoded as."""
        if all(block.find(REFERENCE_MARK) < 0 for block in blocks):
            return
        for effect in effects:
            if isinstance(effect, AssignCall):
                self._note(effect.call.token, _encode(effect.call))
            elif isinstance(effect, DeliverPart):
                self._note(effect.token, _encode((effect.data, effect.messages)))

    def note_resumed(self, command: OpenSession) -> None:
        """Remember calls that a worker presents and that this server knows nothing of [WIRE-10]."""
        for call in command.running:
            if call.token not in self._handed_out:
                self._resumed[call.token] = None
        _bound(self._resumed)

    def _note(self, token: Token, encoded: bytes) -> None:
        digests = frozenset(reference.digest for reference in references_in(encoded))
        if digests:
            self._handed_out[token] = self._handed_out.get(token, frozenset()) | digests
            _bound(self._handed_out)

    def _checked(self, command: WorkerCommand, session: bytes) -> WorkerCommand:
        if type(command) is not CompleteCall:
            return command
        for reference in references_in(_encode((command.response, command.sub_flows))):
            if not self._may_use(command.token, reference, session):
                refusal = not_uploaded(reference)
                failure = Failure(str(refusal.code), refusal.message)
                return FailCall(command.session, command.stream, command.token, failure)
        return command

    def _may_use(self, token: Token, reference: BlobReference, session: bytes) -> bool:
        if not self._is_there(reference):
            return False
        digest = reference.digest
        return (
            digest in self._handed_out.get(token, ())
            or self._ledger.was_uploaded(session, digest)
            or (token in self._resumed and self._ledger.refers_to(token.run_id, digest))
        )

    def _is_there(self, reference: BlobReference) -> bool:
        """Whether it names what is stored; a wrong size would deceive every limit.

        What is about to be referred to is no orphan, however long ago it was uploaded.
        """
        is_stored = self._store.size_of(reference.digest) == reference.size
        return is_stored and self._store.want(reference.digest, self._clock.now())


def not_uploaded(reference: BlobReference) -> Rejection:
    """Refuse a reference that nobody gave to its sender."""
    name = reference.digest.hex()
    message = f"the large value {name} of {reference.size} bytes was neither uploaded in this session nor handed to it"
    return Rejection(Code.BLOB_NOT_UPLOADED, message, {"digest": name, "size": str(reference.size)})


def _without_excess(command: WorkerCommand) -> WorkerCommand:
    """[LIM-1] A value that should have been uploaded is no result; trying again would not make it smaller [LIM-3]."""
    excess = oversized_value(command) if type(command) is CompleteCall else None
    if excess is None or type(command) is not CompleteCall:
        return command
    what, size = excess
    detail = f"inline {what} has size {size}, the limit is {INLINE_VALUE_BYTES_MAX}; upload it and send its reference"
    failure = Failure(OUTPUT_TOO_LARGE, detail, non_retryable=True)
    return FailCall(command.session, command.stream, command.token, failure)


def _bound(remembered: "OrderedDict[Token, frozenset[bytes]] | OrderedDict[Token, None]") -> None:
    while len(remembered) > CALLS_MAX:
        remembered.popitem(last=False)
