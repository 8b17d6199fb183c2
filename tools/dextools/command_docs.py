"""Reads a typer application for documentation: its commands, arguments and options.

It looks at the functions that were registered, whose annotations are ours, and not at what typer makes of them, which
differs from release to release.
"""

import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any, get_args, get_origin

import msgspec
import typer
from typer.models import ArgumentInfo, OptionInfo


class ParameterDoc(msgspec.Struct, frozen=True):
    """One argument or option."""

    name: str
    """Name of the function's parameter."""
    shown: str
    """How it is written on the command line, e.g. `--id ID`."""
    is_argument: bool
    help: str


class CommandDoc(msgspec.Struct, frozen=True):
    """One command with its full path."""

    path: str
    help: str
    parameters: tuple[ParameterDoc, ...]


def command_docs(app: typer.Typer, path: str) -> Iterator[CommandDoc]:
    """Give every command of an application, in the order of registration."""
    for command in app.registered_commands:
        function = command.callback
        if function is not None:
            name = command.name or function.__name__.replace("_", "-")
            yield CommandDoc(f"{path} {name}", inspect.getdoc(function) or "", tuple(_parameters(function)))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from command_docs(group.typer_instance, f"{path} {group.name}")


def parameter_doc(name: str, annotation: Any, default: Any = None) -> ParameterDoc:
    """Describe a parameter from its annotation, which holds typer's own description of it."""
    kind, info = get_args(annotation)[:2]
    if isinstance(info, ArgumentInfo):
        return ParameterDoc(name, info.metavar or name.upper(), True, info.help or "")
    shown = ", ".join(_declared(info) or (f"--{name.replace('_', '-')}",))
    if _plain(kind) is not bool:
        shown += f" {info.metavar or _choices(kind) or 'VALUE'}"
    return ParameterDoc(name, shown, False, f"{info.help or ''}{_default_text(default)}")


def _parameters(function: Any) -> Iterator[ParameterDoc]:
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if _is_described(parameter.annotation):
            yield parameter_doc(parameter.name, parameter.annotation, parameter.default)


def _declared(info: OptionInfo) -> tuple[str, ...]:
    """Names given to the option; inside Annotated, typer keeps the first one where a default would stand."""
    first = (info.default,) if isinstance(info.default, str) else ()
    return (*first, *(info.param_decls or ()))


def _is_described(annotation: Any) -> bool:
    return get_origin(annotation) is Annotated and isinstance(get_args(annotation)[1], OptionInfo | ArgumentInfo)


def _plain(kind: Any) -> Any:
    """The type without its None."""
    return next((member for member in get_args(kind) if member is not type(None)), kind)


def _choices(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(member.value) for member in kind)
    return "NUMBER" if kind in (int, float) else ""


def _default_text(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return " Required."
    if default is None or default is False or default == "":
        return ""
    return f" Default: `{default.value if isinstance(default, Enum) else default}`."
