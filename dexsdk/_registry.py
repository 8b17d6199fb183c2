"""The Flows of a program, validated and compiled once [REG-1]."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dexpb.v1 import frames
from dexsdk._codec import Codec, CodecRegistry
from dexsdk._flow_compiler import compile_flow
from dexsdk._registered import Handler, RegisteredFlow
from dexsdk._sub_flow_frames import sub_flow_frame
from dexsdk.attribute import AnyAttribute
from dexsdk.attribute_index import IndexType
from dexsdk.channel import AnyChannel
from dexsdk.errors import FlowDefinitionError
from dexsdk.flow import AnyFlow
from dexsdk.rpc import RpcMark, rpc_mark
from dexsdk.step import Step, StepRef
from dexsdk.step_execution import StepExecutionId
from dexsdk.sub_flow import SubFlow


@dataclass(frozen=True, slots=True)
class RegisteredRpc:
    """An RPC method found in a registry."""

    flow: RegisteredFlow
    name: str
    handler: Handler


class Registry:
    """The Flows that a Worker serves and a Client calls."""

    def __init__(
        self,
        flows: Sequence[AnyFlow],
        codec_registry: CodecRegistry | None = None,
        *,
        allow_async_handlers: bool = False,
    ) -> None:
        """Validate and compile the Flows.

        Args:
            flows: One instance per Flow type.
            codec_registry: Own codecs; canonical JSON for everything by default.
            allow_async_handlers: Whether handlers may be coroutines; only an AsyncWorker serves them [REG-2].

        Raises:
            FlowDefinitionError: with all faults of all Flows.
        """
        self.codecs = codec_registry or CodecRegistry()
        self.allow_async_handlers = allow_async_handlers
        self._by_type: dict[str, RegisteredFlow] = {}
        faults: list[str] = []
        for flow in flows:
            registered, flow_faults = compile_flow(flow, self.codecs, allow_async_handlers=allow_async_handlers)
            faults += flow_faults
            if registered is None:
                continue
            if registered.flow_type in self._by_type:
                faults.append(f"Flow type {registered.flow_type!r} is registered twice")
            self._by_type[registered.flow_type] = registered
            registered.encode_child = self._encode_child
        faults += index_conflicts(self.flows)
        if faults:
            raise FlowDefinitionError(*faults)
        classes = Counter(type(entry.flow) for entry in self.flows)
        # By identity, because a Flow need not be hashable; the registry keeps them, so that identities stay theirs.
        self._by_reference: dict[int, RegisteredFlow] = {id(entry.flow): entry for entry in self.flows}
        self._by_reference |= {id(type(entry.flow)): entry for entry in self.flows if classes[type(entry.flow)] == 1}

    @property
    def index_keys(self) -> tuple[frames.IndexKey, ...]:
        """Every index key with its type, each once [ATTR-10]."""
        return tuple({indexing.key: indexing.announced for flow in self.flows for indexing in flow.indexings}.values())

    @property
    def flows(self) -> tuple[RegisteredFlow, ...]:
        """All Flows in the order of registration."""
        return tuple(self._by_type.values())

    def find(self, flow_type: str) -> RegisteredFlow | None:
        """Find a Flow by its type."""
        return self._by_type.get(flow_type)

    def resolve_flow(self, flow: Any) -> RegisteredFlow:
        """Find a Flow by its registered instance, or by a class with exactly one registered instance [FLOW-10].

        Raises:
            FlowDefinitionError: there is no such Flow, or the class has several.
        """
        resolved = self._by_reference.get(id(flow))
        if resolved is not None:
            return resolved
        count = sum(type(known.flow) is flow for known in self.flows)
        raise FlowDefinitionError(f"{count} registered Flows are named by {_shown(flow)}, not exactly one")

    def resolve_rpc(self, method: Callable[..., Any]) -> RegisteredRpc:
        """Find an RPC by a method bound to its registered Flow, or taken from that Flow's class [RPC-1, FLOW-10].

        Raises:
            FlowDefinitionError: it is no RPC of a registered Flow.
        """
        mark = rpc_mark(method)
        if mark is None:
            raise FlowDefinitionError(f"{_shown(method)} is not marked with @rpc")
        owner = getattr(method, "__self__", None)
        flow = self.resolve_flow(owner) if owner is not None else self._owner_of(method, mark)
        return RegisteredRpc(flow, mark.name, flow.rpcs[mark.name])

    def _encode_child(self, sub_flow: SubFlow) -> frames.SubFlow:
        return sub_flow_frame(sub_flow, self.resolve_flow)

    def index_writes(self, attribute: AnyAttribute, value: Any, place: str) -> list[frames.IndexWrite]:
        """Give the index value that goes with a write, if the Attribute has an index [ATTR-9].

        Raises:
            FlowDefinitionError: no registered Flow declares the Attribute.
            ValueTooLargeError: it is larger than an index value may be [LIM-2].
        """
        if attribute.index is None:
            return []
        owner = next((flow for flow in self.flows if flow.definitions.get(attribute.name) is attribute), None)
        if owner is None:
            raise FlowDefinitionError(f"Attribute {attribute.name!r} is in no registered Flow's persistence schema")
        return [owner.index_write(attribute, value, place)]

    def codec_of(self, definition: AnyAttribute | AnyChannel) -> Codec[Any]:
        """Give the codec of a definition that some registered Flow declares [FLOW-4].

        Raises:
            FlowDefinitionError: no registered Flow declares it.
        """
        for flow in self.flows:
            if flow.definitions.get(definition.name) is definition:
                return flow.codec_of(definition)
        kind = type(definition).__name__
        raise FlowDefinitionError(f"{kind} {definition.name!r} is in no registered Flow's persistence schema")

    def step_execution_id(self, step: StepExecutionId) -> str:
        """Give the ID of a Step execution as it travels [ID-6].

        Raises:
            FlowDefinitionError: a class names no registered Step, or Steps of several types.
        """
        return f"{self.step_type_of(step.step_type)}-{step.number}"

    def step_type_of(self, step: str | StepRef[Any]) -> str:
        """Give the type of a Step, however it is named.

        Raises:
            FlowDefinitionError: a class names no registered Step, or Steps of several types.
        """
        if isinstance(step, str):
            return step
        if isinstance(step, Step):
            return step.get_step_type()
        types = {entry.step_type for flow in self.flows for entry in flow.steps.values() if type(entry.step) is step}
        if len(types) != 1:
            raise FlowDefinitionError(f"{_shown(step)} names {len(types)} registered Step types, not exactly one")
        return types.pop()

    def _owner_of(self, method: Callable[..., Any], mark: RpcMark) -> RegisteredFlow:
        owners = [
            flow
            for flow in self.flows
            if mark.name in flow.rpcs and getattr(flow.rpcs[mark.name].function, "__func__", None) is method
        ]
        if len(owners) != 1:
            raise FlowDefinitionError(f"{len(owners)} registered Flows have the RPC {mark.name!r}, not exactly one")
        return owners[0]


def index_conflicts(flows: Sequence[RegisteredFlow]) -> list[str]:
    """Find index keys that two Attributes give different types [ATTR-10]."""
    faults: list[str] = []
    first: dict[str, tuple[str, IndexType]] = {}
    for flow in flows:
        for indexing in flow.indexings:
            flow_type, known = first.setdefault(indexing.key, (flow.flow_type, indexing.type))
            if known is not indexing.type:
                faults.append(
                    f"index key {indexing.key!r} is {known.name} in Flow {flow_type!r} and {indexing.type.name} in "
                    f"Flow {flow.flow_type!r}"
                )
    return faults


def _shown(thing: Any) -> str:
    name = getattr(thing, "__qualname__", None)
    return name if isinstance(name, str) else f"an instance of {type(thing).__qualname__}"
