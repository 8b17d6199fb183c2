"""Validates one Flow and compiles it, going on after a fault so that all are reported at once [REG-1]."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dexsdk._attribute_indexing import indexing_of
from dexsdk._call import Definition
from dexsdk._codec import Codec, CodecRegistry
from dexsdk._locks import lock_keys, preload_names
from dexsdk._names import owned_name_fault
from dexsdk._registered import Handler, RegisteredFlow, RegisteredStep
from dexsdk._signature import (
    annotation_text,
    generic_argument,
    input_annotation,
    is_coroutine,
    optional_input_annotation,
    output_annotation,
)
from dexsdk.attribute import Attribute, AttributeMap
from dexsdk.channel import Channel, ChannelMap
from dexsdk.errors import FlowDefinitionError
from dexsdk.flow import Flow
from dexsdk.rpc import RPC_TIMEOUT_MS_MAX, RpcMark, RPCResult, rpc_mark
from dexsdk.schema import PersistenceSchema
from dexsdk.step import Step, StepList


def compile_flow(
    flow: object, codecs: CodecRegistry, *, allow_async_handlers: bool
) -> tuple[RegisteredFlow | None, list[str]]:
    """Compile a Flow.

    Returns:
        The compiled Flow, or None, and all faults in the order of the definition.
    """
    if not isinstance(flow, Flow):
        return None, [f"{flow!r} is no Flow instance"]
    flow_type = flow.get_flow_type()
    compiler = _FlowCompiler(f"Flow {flow_type!r}", codecs, allow_async_handlers=allow_async_handlers)
    compiler.check_name(flow_type, "Flow type")
    step_list = flow.get_steps()
    steps = compiler.compile_steps(flow, step_list)
    timeout_handler = compiler.compile_timeout_handler(flow)
    definitions = compiler.compile_schema(flow.get_persistence_schema())
    rpcs = compiler.compile_rpcs(flow, definitions)
    if compiler.faults:
        return None, compiler.faults
    start = next((entry for entry in steps.values() if entry.step is step_list.start), None)
    registered = RegisteredFlow(
        flow,
        flow_type,
        start=start,
        steps=steps,
        rpcs=rpcs,
        definitions=definitions,
        codecs=codecs,
        timeout_handler=timeout_handler,
    )
    compiler.check_options(registered)
    return registered, compiler.faults


class _FlowCompiler:
    """Collects the faults of one Flow while its parts are compiled."""

    def __init__(self, place: str, codecs: CodecRegistry, *, allow_async_handlers: bool) -> None:
        self._place = place
        self._codecs = codecs
        self._allow_async_handlers = allow_async_handlers
        self.faults: list[str] = []

    def check_name(self, name: object, what: str) -> None:
        """Report an illegal or reserved name [ID-1, ID-3]."""
        fault = owned_name_fault(name, what)
        if fault is not None:
            self._report(fault)

    def compile_steps(self, flow: Flow[Any], step_list: StepList[Any]) -> dict[str, RegisteredStep]:
        """Compile the Steps; types are unique, and the start Step takes what the Flow says [ID-4, TYPE-2]."""
        steps: dict[str, RegisteredStep] = {}
        listed: tuple[object, ...] = step_list.all
        for step in listed:
            if not isinstance(step, Step):
                self._report(f"{step!r} in its Step list is no Step instance")
                continue
            step_type = step.get_step_type()
            self.check_name(step_type, "Step type")
            if step_type in steps:
                self._report(f"Step type {step_type!r} is listed twice")
                continue
            with self._faults_at(f"Step {step_type!r}"):
                steps[step_type] = self._compile_step(step, step_type)
        self._check_flow_input(flow, step_list, steps)
        return steps

    def compile_rpcs(self, flow: Flow[Any], definitions: Mapping[str, Definition]) -> dict[str, Handler]:
        """Compile the methods marked with ``@rpc``; names are unique [RPC-1]."""
        rpcs: dict[str, Handler] = {}
        for attribute in _method_names(type(flow)):
            mark = rpc_mark(getattr(type(flow), attribute, None))
            if mark is None:
                continue
            self.check_name(mark.name, "RPC name")
            if mark.name in rpcs:
                self._report(f"RPC name {mark.name!r} is used twice")
                continue
            with self._faults_at(f"RPC {mark.name!r}"):
                rpcs[mark.name] = self._compile_rpc(getattr(flow, attribute), mark, definitions)
        return rpcs

    def compile_timeout_handler(self, flow: Flow[Any]) -> Handler | None:
        """Compile ``handle_timeout`` if the Flow overrides it [TIME-3]."""
        if type(flow).handle_timeout is Flow.handle_timeout:
            return None
        try:
            takes_input, _ = optional_input_annotation(flow.handle_timeout)
            if takes_input:
                raise FlowDefinitionError("takes the context and nothing else")
            return self._handler(flow.handle_timeout, self._codecs.resolve(type(None)), "it", takes_input=False)
        except FlowDefinitionError as error:
            for fault in error.faults:
                self._report(f"handle_timeout: {fault}")
            return None

    def compile_schema(self, schema: PersistenceSchema) -> dict[str, Definition]:
        """Check the schema; names are unique across all kinds, values can travel [FLOW-4]."""
        definitions: dict[str, Definition] = {}
        attributes: tuple[object, ...] = schema.attributes
        channels: tuple[object, ...] = schema.channels
        for entry in (*attributes, *channels):
            if not isinstance(entry, Attribute | AttributeMap | Channel | ChannelMap):
                self._report(f"{entry!r} in its persistence schema is no definition")
                continue
            kind = type(entry).__name__
            self.check_name(entry.name, f"{kind} name")
            if entry.name in definitions:
                self._report(f"the name {entry.name!r} stands twice in its persistence schema")
                continue
            definitions[entry.name] = entry
            with self._faults_at(f"{kind} {entry.name!r}"):
                self._codecs.resolve(entry.value_type)
                indexing_of(entry)
        return definitions

    def check_options(self, flow: RegisteredFlow) -> None:
        """Resolve each Step's options once, so that a wrong recovery Step is found now and not in a failure [OPT-4]."""
        for step in flow.steps.values():
            try:
                flow.encode_options(step, None)
            except FlowDefinitionError as error:
                self.faults.extend(error.faults)

    def _compile_step(self, step: Step[Any], step_type: str) -> RegisteredStep:
        annotation = _located("execute", input_annotation, step.execute)
        codec = self._codecs.resolve(annotation)
        declared = generic_argument(type(step), Step)
        if declared is not None and declared != annotation:
            raise FlowDefinitionError(
                f"derives from Step[{annotation_text(declared)}], but execute takes {annotation_text(annotation)}"
            )
        has_wait_for = type(step).wait_for is not Step.wait_for
        if has_wait_for:
            self._check_same_input(step, annotation)
        wait_for = self._handler(step.wait_for, codec, "wait_for")
        execute = self._handler(step.execute, codec, "execute")
        has_options = type(step).get_step_options is not Step.get_step_options
        return RegisteredStep(step, step_type, annotation, has_wait_for, has_options, wait_for, execute)

    def _check_same_input(self, step: Step[Any], annotation: Any) -> None:
        waited = _located("wait_for", input_annotation, step.wait_for)
        if waited != annotation:
            raise FlowDefinitionError(
                f"wait_for takes {annotation_text(waited)}, but execute takes {annotation_text(annotation)}"
            )

    def _compile_rpc(self, method: Callable[..., Any], mark: RpcMark, definitions: Mapping[str, Definition]) -> Handler:
        takes_input, annotation = optional_input_annotation(method)
        if mark.timeout_ms is not None and not 0 < mark.timeout_ms <= RPC_TIMEOUT_MS_MAX:
            raise FlowDefinitionError(
                f"timeout is {mark.timeout_ms} ms, allowed are above 0 to {RPC_TIMEOUT_MS_MAX} ms"
            )
        output = output_annotation(method, RPCResult)
        output_codec = None if output is None else self._codecs.resolve(output)
        codec = self._codecs.resolve(annotation)
        self._check_coroutine(method, "handler")
        return Handler(
            method,
            is_coroutine(method),
            takes_input,
            codec,
            output_codec,
            mark.timeout_ms,
            lock_keys(mark.lock_attributes, definitions, "lock_attributes"),
            mark.is_transactional,
            preload_names(mark.preload, definitions, "preload"),
        )

    def _handler(
        self, function: Callable[..., Any], codec: Codec[Any], name: str, *, takes_input: bool = True
    ) -> Handler:
        self._check_coroutine(function, name)
        return Handler(function, is_coroutine(function), takes_input, codec)

    def _check_coroutine(self, function: Callable[..., Any], name: str) -> None:
        if is_coroutine(function) and not self._allow_async_handlers:
            raise FlowDefinitionError(f"{name} is a coroutine, which needs Registry(..., allow_async_handlers=True)")

    def _check_flow_input(self, flow: Flow[Any], step_list: StepList[Any], steps: dict[str, RegisteredStep]) -> None:
        declared = generic_argument(type(flow), Flow)
        start = next((entry for entry in steps.values() if entry.step is step_list.start), None)
        if declared is None or (start is None and step_list.start is not None):
            return  # It does not say, or the start Step has a fault of its own.
        if start is None:
            if declared is not type(None):
                self._report(
                    f"derives from Flow[{annotation_text(declared)}], but without start Step its input is None"
                )
        elif declared != start.input_annotation:
            self._report(
                f"derives from Flow[{annotation_text(declared)}], but its start Step {start.step_type!r} takes "
                f"{annotation_text(start.input_annotation)}"
            )

    @contextmanager
    def _faults_at(self, part: str) -> Iterator[None]:
        try:
            yield
        except FlowDefinitionError as error:
            for fault in error.faults:
                self._report(f"{part}: {fault}")

    def _report(self, fault: str) -> None:
        self.faults.append(f"{self._place}: {fault}")


def _located(method: str, read: Callable[[Callable[..., Any]], Any], handler: Callable[..., Any]) -> Any:
    try:
        return read(handler)
    except FlowDefinitionError as error:
        raise FlowDefinitionError(*(f"{method}: {fault}" for fault in error.faults)) from error


def _method_names(cls: type) -> list[str]:
    """List attribute names in the order of definition, inherited ones first; ``dir`` would sort them."""
    return list(dict.fromkeys(name for ancestor in reversed(cls.__mro__) for name in vars(ancestor)))
