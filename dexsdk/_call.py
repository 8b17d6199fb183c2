"""One handler invocation: the snapshot it works on and the effects it buffers [GEN-5, GEN-6].

Attribute, Channel and Context read and write here; the invoker turns what is left into the response. Which Flow the
call belongs to is known only through Scope, so that definitions do not depend on the registry.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Protocol

import msgspec

from dexpb.v1 import frames
from dexpb.v1.blobs import REFERENCE_BYTES, is_reference
from dexsdk._blobs import Blobs
from dexsdk._codec import Codec, CodecRegistry, placed
from dexsdk._fetching import FetchSource, fetch_messages, fetch_value
from dexsdk._value_checks import UnfitValueError
from dexsdk.errors import ValueMappingError

_METHOD_NAMES = {
    frames.METHOD_WAIT_FOR: "wait_for",
    frames.METHOD_EXECUTE: "execute",
    frames.METHOD_RPC: "handler",
}


class Definition(Protocol):
    """An Attribute, AttributeMap, Channel or ChannelMap."""

    @property
    def name(self) -> str:
        """The declared name."""
        ...

    @property
    def value_type(self) -> Any:
        """The declared type of its values."""
        ...


class Scope(Protocol):
    """What a call needs to know of its registered Flow."""

    @property
    def flow_type(self) -> str:
        """The Flow type."""
        ...

    @property
    def codecs(self) -> CodecRegistry:
        """Codecs of values without a declared type."""
        ...

    def codec_of(self, definition: Definition) -> Codec[Any]:
        """Give the codec of a declared definition; FlowDefinitionError for an undeclared one [FLOW-4]."""
        ...

    def index_write(self, definition: Definition, value: Any, place: str) -> frames.IndexWrite:
        """Give the index value of a declared Attribute with an index; ValueTooLargeError if it is too large [LIM-2]."""
        ...

    def step_type_of(self, step: Any) -> str:
        """Give the type of a registered Step; FlowDefinitionError for any other [DEC-8]."""
        ...

    def encode_sub_flow(self, sub_flow: Any) -> frames.SubFlow:
        """Give a child Flow of the same registry as it travels; FlowDefinitionError if it does not fit [SUB-1]."""
        ...

    def encode_movement(self, step: Any, input: Any, options: Any) -> frames.Movement:
        """Give a movement to a registered Step as it travels; FlowDefinitionError if it does not fit [DEC-8]."""
        ...


class HeartbeatOutlet(Protocol):
    """Takes the heartbeats of one handler, from any thread, without waiting for anything [HB-2]."""

    def heartbeat(self, value: bytes) -> None:
        """Show life; the value is for the next attempt, ``b""`` is none."""
        ...


class Call(msgspec.Struct, eq=False):
    """The state of one invocation, written by one handler only."""

    assign: frames.Assign
    scope: Scope
    output_codec: Codec[Any] | None = None
    """Codec of an RPC's declared output; None when it is not declared, and for Steps."""
    heartbeats: HeartbeatOutlet | None = None
    """Where heartbeats go; None where nobody listens."""
    source: FetchSource | None = None
    """Where what the call only refers to is fetched; None where nothing is."""
    blobs: Blobs | None = None
    """Where large values are; None where there are none."""
    is_open: bool = True
    """Whether the handler still runs; its context is unusable afterwards [CTX-4]."""
    is_cancellation_requested: bool = False
    loaded: dict[bytes, bytes] = {}
    """Large values that were read, by what stands for them."""
    messages: dict[str, list[tuple[str, bytes, int]]] = {}
    """Pending messages by Channel key, once they were asked for."""
    written: dict[str, bytes | None] = {}
    """Attribute writes by key, in the order of each key's last write; None deletes."""
    indexed: dict[str, frames.IndexWrite] = {}
    """Index values of what is written, by index key; the last write counts."""
    publications: list[tuple[str, bytes]] = []
    canceling: tuple[str, ...] = ()
    """Step types that an RPC cancels."""
    deletions: dict[tuple[str, str], None] = {}
    """Channel key and message ID, each pair once, in call order."""
    locals: dict[str, bytes] = {}
    recorded: dict[str, bytes] = {}

    __repr__ = object.__repr__  # Nothing of a payload may get into a log [ERR-3].

    @property
    def is_rpc(self) -> bool:
        """Whether an RPC handler runs."""
        return self.assign.token.method == frames.METHOD_RPC

    @property
    def place(self) -> str:
        """Flow type, Step or RPC, and method, for error texts [VAL-5]."""
        kind = "RPC" if self.is_rpc else "Step"
        return f"Flow {self.scope.flow_type!r}, {kind} {self.assign.name!r}, {_METHOD_NAMES[self.assign.token.method]}"

    def attribute(self, key: str) -> bytes | None:
        """Give an Attribute's value of the snapshot, fetched at its first read if it is large [ATTR-7]."""
        assign = self.assign
        data = assign.attributes.get(key)
        if data is None and key in assign.references:
            data = assign.attributes[key] = fetch_value(self._source(), assign.token, key, self.place)
        return data

    def preload(self, names: Sequence[str]) -> None:
        """Fetch the values of these Attributes and maps now."""
        for key in (*self.assign.attributes, *self.assign.references):
            if key.partition(frames.MAP_KEY_SEPARATOR)[0] in names:
                self.load(self.attribute(key) or b"")

    def load(self, data: bytes) -> bytes:
        """Give the value that the bytes stand for: themselves, or a large one that is fetched at its first read."""
        if not is_reference(data):
            return data
        if data not in self.loaded:
            if self.blobs is None:
                raise RuntimeError(f"{self.place}: nothing can be fetched here")
            self.loaded[data] = self.blobs.load(data, self.is_wanted)
        return self.loaded[data]

    def is_wanted(self) -> bool:
        """Whether anybody waits for the handler."""
        return not self.is_cancellation_requested

    def pending(self, key: str) -> list[tuple[str, bytes, int]]:
        """Give the messages of a Channel that were there at hand-over and that nobody has consumed, oldest first."""
        if key not in self.messages:
            is_empty = not self.assign.channel_sizes.get(key)
            token = self.assign.token
            self.messages[key] = [] if is_empty else fetch_messages(self._source(), token, key, self.place)
        return [message for message in self.messages[key] if (key, message[0]) not in self.deletions]

    def _source(self) -> FetchSource:
        if self.source is None:
            raise RuntimeError(f"{self.place}: nothing can be fetched here")
        return self.source

    def encode(self, codec: Codec[Any], value: Any, kind: str, name: str = "") -> bytes:
        """Encode a value that the handler gave, at the call that took it; errors as ``encode_value`` [VAL-5]."""
        try:
            return codec.encode(value)
        except UnfitValueError as error:  # The text is only built once it is needed.
            raise placed(error, self._place_of(kind, name)) from error.__cause__

    def decode(self, codec: Codec[Any], data: bytes, kind: str, name: str = "") -> Any:
        """Decode bytes of the snapshot; errors as ``decode_value`` [VAL-5]."""
        if len(data) == REFERENCE_BYTES:  # As nearly no other value has.
            data = self.load(data)
        try:
            return codec.decode(data or b"null")
        except UnfitValueError as error:
            # What the codec raised says where; the step in between adds nothing.
            raise ValueMappingError(self._place_of(kind, name), error.path, error.reason) from error.__cause__

    def _place_of(self, kind: str, name: str) -> str:
        return f"{self.place}, {kind} {name!r}" if name else f"{self.place}, {kind}"


current_call: ContextVar[Call | None] = ContextVar("dexsdk_current_call", default=None)
"""The invocation whose handler runs here; lets ``go_to`` and completions refuse bad values where they are written."""
