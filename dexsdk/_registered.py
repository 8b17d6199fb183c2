"""Flows as the registry has compiled them: every name resolved, every codec at hand.

Built by the registry only, after validation; the invoker and the clients read it on every call.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dexpb.v1 import frames
from dexsdk._attribute_indexing import Indexing, indexing_of
from dexsdk._call import Definition
from dexsdk._codec import Codec, CodecRegistry, placed
from dexsdk._step_options import OptionsResolver
from dexsdk._value_checks import UnfitValueError
from dexsdk.errors import FlowDefinitionError
from dexsdk.flow import Flow
from dexsdk.options import StepOptions
from dexsdk.step import Step


@dataclass(frozen=True, slots=True)
class Handler:
    """One user function that the worker calls."""

    function: Callable[..., Any]
    is_async: bool
    takes_input: bool
    input_codec: Codec[Any]
    output_codec: Codec[Any] | None = None
    """Codec of an RPC's declared output."""
    timeout_ms: int | None = None
    """An RPC's own timeout."""
    locks: tuple[str, ...] = ()
    """Attribute keys that an RPC has locked [LOCK-1]."""
    is_transactional: bool = False
    preload: tuple[str, ...] = ()
    """Attributes and maps to fetch before an RPC's handler is called [ATTR-7]."""


@dataclass(frozen=True, slots=True)
class RegisteredStep:
    """A Step of a registered Flow."""

    step: Step[Any]
    step_type: str
    input_annotation: Any
    has_wait_for: bool
    """Whether the Step overrides wait_for."""
    has_options: bool
    """Whether the Step overrides get_step_options."""
    wait_for: Handler
    """Also present when it is not overridden: an execution scheduled by older code may still ask for it."""
    execute: Handler

    @property
    def input_codec(self) -> Codec[Any]:
        """Codec of the input of both methods."""
        return self.execute.input_codec


class RegisteredFlow:
    """A Flow of a registry; the scope of its calls."""

    def __init__(
        self,
        flow: Flow[Any],
        flow_type: str,
        *,
        start: RegisteredStep | None,
        steps: Mapping[str, RegisteredStep],
        rpcs: Mapping[str, Handler],
        definitions: Mapping[str, Definition],
        codecs: CodecRegistry,
        timeout_handler: Handler | None = None,
    ) -> None:
        self.flow = flow
        self.flow_type = flow_type
        self.start = start
        self.steps = steps
        self.rpcs = rpcs
        self.timeout_handler = timeout_handler
        """``handle_timeout``, if the Flow overrides it."""
        self.encode_child: Callable[[Any], frames.SubFlow] | None = None
        """How the registry, which knows the other Flows, encodes a child."""
        self.definitions = definitions
        self.codecs = codecs
        self._indexing_by_identity = {
            id(definition): indexing
            for definition in definitions.values()
            if (indexing := indexing_of(definition)) is not None
        }
        self._codec_by_identity = {
            id(definition): codecs.resolve(definition.value_type) for definition in definitions.values()
        }
        classes = Counter(type(entry.step) for entry in steps.values())
        self._step_by_reference = {id(entry.step): entry for entry in steps.values()} | {
            id(type(entry.step)): entry for entry in steps.values() if classes[type(entry.step)] == 1
        }
        self._options = OptionsResolver(flow_type, self.resolve_step, definitions)

    def codec_of(self, definition: Definition) -> Codec[Any]:
        """Give the codec of a declared definition.

        Raises:
            FlowDefinitionError: it is not in the Flow's persistence schema [FLOW-4].
        """
        try:
            return self._codec_by_identity[id(definition)]
        except KeyError:
            kind = type(definition).__name__
            raise FlowDefinitionError(
                f"Flow {self.flow_type!r}: {kind} {definition.name!r} is not in its persistence schema"
            ) from None

    @property
    def indexings(self) -> tuple[Indexing, ...]:
        """How its Attributes are indexed."""
        return tuple(self._indexing_by_identity.values())

    def index_write(self, definition: Definition, value: Any, place: str) -> frames.IndexWrite:
        """Give the index value of a declared Attribute with an index as it travels [ATTR-9].

        Raises:
            ValueTooLargeError: it is larger than an index value may be [LIM-2].
        """
        return self._indexing_by_identity[id(definition)].write(value, place)

    def resolve_step(self, step: Any) -> RegisteredStep:
        """Find a Step by its registered instance, or by a class with exactly one registered instance [FLOW-10].

        Raises:
            FlowDefinitionError: there is no such Step, or the class has several.
        """
        known = self._step_by_reference.get(id(step))
        if known is not None:
            return known
        if not isinstance(step, type):
            raise FlowDefinitionError(
                f"Flow {self.flow_type!r}: this instance of {type(step).__qualname__} is no registered Step"
            )
        count = sum(type(entry.step) is step for entry in self.steps.values())
        raise FlowDefinitionError(
            f"Flow {self.flow_type!r}: {count} Steps of class {step.__qualname__} are registered, "
            "a class names a Step only if there is exactly one"
        )

    def step_type_of(self, step: Any) -> str:
        """Give the type of a Step; errors as ``resolve_step``."""
        return self.resolve_step(step).step_type

    def encode_movement(self, step: Any, input: Any, options: StepOptions | None) -> frames.Movement:
        """Give a movement as it travels, with the options that hold for this execution [STEP-8].

        Raises:
            FlowDefinitionError: the Step is not registered, or the input does not fit it [DEC-8, TYPE-2].
            ValueMappingError: the input cannot be encoded.
        """
        registered = self._step_by_reference.get(id(step)) or self.resolve_step(step)
        data = self._encode_input(registered, input)
        has_options = options is not None or registered.has_options
        resolved = self.encode_options(registered, options) if has_options else None
        return frames.Movement(registered.step_type, data, registered.has_wait_for, resolved)

    def encode_sub_flow(self, sub_flow: Any) -> frames.SubFlow:
        """Give a child Flow of the same registry as it travels [SUB-1].

        Raises:
            FlowDefinitionError: it is not registered, has no start Step, or does not fit.
            ValueMappingError: its input cannot be encoded.
        """
        assert self.encode_child is not None, "the registry says how"
        return self.encode_child(sub_flow)

    def encode_options(self, step: RegisteredStep, override: StepOptions | None) -> frames.StepOptions | None:
        """Give the options that hold for an execution as they travel [STEP-8]; None is the server's defaults.

        Raises:
            FlowDefinitionError: a recovery Step does not fit [OPT-4].
        """
        return self._options.resolve(step, override)

    def encode_start_input(self, input: Any) -> bytes:
        """Encode the input of the Flow, which is that of its start Step [FLOW-2].

        Raises:
            FlowDefinitionError: it does not fit, or the Flow has no start Step and it is not None [FLOW-3].
            ValueMappingError: it cannot be encoded.
        """
        if self.start is not None:
            return self._encode_input(self.start, input)
        if input is not None:
            raise FlowDefinitionError(f"Flow {self.flow_type!r} has no start Step, its input must be None")
        return b""

    def start_descriptor(self) -> frames.StepDescriptor | None:
        """Give what the server must know of the start Step; None without one."""
        if self.start is None:
            return None
        options = self.encode_options(self.start, None)
        return frames.StepDescriptor(self.start.step_type, self.start.has_wait_for, options)

    def descriptor(self) -> frames.FlowDescriptor:
        """Give what a worker announces of the Flow [WIRE-4]."""
        step_types = (*self.steps, *(() if self.timeout_handler is None else (frames.TIMEOUT_HANDLER,)))
        terms = tuple(
            frames.RpcDescriptor(name, rpc.locks, rpc.is_transactional)
            for name, rpc in self.rpcs.items()
            if rpc.locks or rpc.is_transactional
        )
        return frames.FlowDescriptor(self.flow_type, self.start_descriptor(), step_types, tuple(self.rpcs), terms)

    def timeout_handler_options(self, options: StepOptions | None) -> frames.StepOptions | None:
        """Give options of ``handle_timeout`` as they travel; its recovery Step takes None [TIME-3].

        Raises:
            FlowDefinitionError: the recovery Step does not fit, or the Flow has no handler.
        """
        if options is None:
            return None
        if self.timeout_handler is None:
            raise FlowDefinitionError(
                f"Flow {self.flow_type!r} does not override handle_timeout, which timeout_handler_options are for"
            )
        return self._options.resolve_for_timeout(options)

    def _encode_input(self, registered: RegisteredStep, input: Any) -> bytes:
        try:
            return registered.execute.input_codec.encode(input)
        except UnfitValueError as error:
            raise placed(error, f"Flow {self.flow_type!r}, Step {registered.step_type!r}, input") from error
