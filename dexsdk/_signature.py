"""What can be read off the signatures of handlers: their input's annotation, and whether they are coroutines."""

import inspect
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from dexsdk.errors import FlowDefinitionError


def input_annotation(handler: Callable[..., Any]) -> Any:
    """Give the type of a bound handler's ``input``, the parameter after ``context`` [TYPE-3].

    Raises:
        FlowDefinitionError: the signature is not ``(context, input)``, or the annotation is missing or unknown.
    """
    parameters = _positional_parameters(handler)
    if len(parameters) != 2:
        raise FlowDefinitionError(f"takes {len(parameters)} parameters, not (context, input)")
    return _resolved(handler, parameters[1])


def optional_input_annotation(handler: Callable[..., Any]) -> tuple[bool, Any]:
    """Say whether a bound RPC handler takes an input, and of what type; None without one.

    Raises:
        FlowDefinitionError: the signature is not ``(context[, input])``, or the annotation is missing or unknown.
    """
    parameters = _positional_parameters(handler)
    if len(parameters) not in {1, 2}:
        raise FlowDefinitionError(f"takes {len(parameters)} parameters, not (context) or (context, input)")
    if len(parameters) == 1:
        return False, type(None)
    return True, _resolved(handler, parameters[1])


def output_annotation(handler: Callable[..., Any], result_class: type) -> Any:
    """Give T of a handler annotated to return ``result_class[T]``, or None where it does not say [TYPE-3]."""
    function = inspect.unwrap(handler)
    annotation = getattr(function, "__annotations__", {}).get("return")
    try:
        returned = _evaluate(function, annotation)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return None
    for member in (returned, *typing.get_args(returned)):
        if typing.get_origin(member) is result_class:
            argument = typing.get_args(member)[0]
            return None if isinstance(argument, TypeVar) else argument
    return None


def generic_argument(cls: type, generic: type) -> Any:
    """Give T of a class that derives from ``generic[T]``, or None where it does not say."""
    for ancestor in cls.__mro__:
        for base in ancestor.__dict__.get("__orig_bases__", ()):
            if typing.get_origin(base) is generic:
                argument = typing.get_args(base)[0]
                return None if argument is Any or isinstance(argument, TypeVar | typing.ForwardRef) else argument
    return None


def is_coroutine(handler: Callable[..., Any]) -> bool:
    """Say whether calling the handler gives a coroutine."""
    return inspect.iscoroutinefunction(handler)


def annotation_text(annotation: Any) -> str:
    """Give an annotation as it stands in error texts."""
    if annotation is type(None):
        return "None"
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)


def _positional_parameters(handler: Callable[..., Any]) -> list[inspect.Parameter]:
    """List what the worker must pass; parameters with defaults beyond that are the handler's own affair."""
    parameters = list(inspect.signature(handler).parameters.values())
    keyword_only = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if keyword_only:
        raise FlowDefinitionError(f"needs the keyword {keyword_only[0]!r}, handlers are called with positions only")
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return [p for p in parameters if p.kind in positional and (p.default is p.empty or p.name == "input")]


def _resolved(handler: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    if parameter.annotation is parameter.empty:
        raise FlowDefinitionError(f"parameter {parameter.name!r} has no annotation")
    try:
        annotation = _evaluate(inspect.unwrap(handler), parameter.annotation)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise FlowDefinitionError(
            f"annotation {parameter.annotation!r} of {parameter.name!r} cannot be resolved: {error}"
        ) from error
    if isinstance(annotation, TypeVar):
        raise FlowDefinitionError(f"parameter {parameter.name!r} is annotated with the type variable {annotation}")
    return annotation


def _evaluate(function: Any, annotation: Any) -> Any:
    """Evaluate one annotation alone: those of context and return may name what only a type checker can see."""

    def stub() -> None: ...

    stub.__annotations__ = {"annotation": annotation}
    hints = typing.get_type_hints(stub, globalns=getattr(function, "__globals__", {}), include_extras=True)
    return hints["annotation"]
