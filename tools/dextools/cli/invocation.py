"""What every verb is given, and what the global options mean [SURF-20].

`verb` registers a function as a typer command and adds the global options to its own, so that `dex --json flow list`,
`dex flow --json list` and `dex flow list --json` are one. The option nearest to the end wins; then `DEX_SERVER`; then
the default.
"""

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from dextools.cli.connection import Connection, connect
from dextools.cli.errors import CommandError, usage_error
from dextools.cli.output import Output

DEFAULT_SERVER = "127.0.0.1:8801"
_ADDRESS = re.compile(r"(unix|dns|ipv[46]):.+|.+:\d{1,5}")
"""HOST:PORT, or what gRPC has a scheme for."""

DEFAULT_TIMEOUT = 30.0
"""Seconds for one call. A verb that waits for a Flow waits without end unless --timeout is given."""

GLOBAL_OPTIONS: Mapping[str, Any] = {
    "server": Annotated[
        str | None,
        typer.Option(
            help=f"Address of the server, {DEFAULT_SERVER} if neither this nor DEX_SERVER is set.",
            metavar="HOST:PORT",
            rich_help_panel="Global options",
        ),
    ],
    "token_file": Annotated[
        Path | None,
        typer.Option(
            help="File with a bearer token, sent with every call; dexd itself asks for none.",
            metavar="FILE",
            rich_help_panel="Global options",
        ),
    ],
    "json": Annotated[
        bool | None,
        typer.Option("--json", help="Print JSON instead of tables.", rich_help_panel="Global options"),
    ],
    "timeout": Annotated[
        float | None,
        typer.Option(
            help=f"Seconds until the call is given up, default {DEFAULT_TIMEOUT:g}.",
            metavar="SECONDS",
            min=0.0,
            rich_help_panel="Global options",
        ),
    ],
}
"""Name to type and option; all are None when not given."""


class Invocation:
    """One `dex` call: its output, and its connection once a verb asks for it."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self.output = Output(as_json=bool(options.get("json")))

    @property
    def server(self) -> str:
        """Address of the server.

        Raises:
            CommandError: it has no port, so that gRPC would choose one of its own.
        """
        address = str(self._options.get("server") or os.environ.get("DEX_SERVER") or DEFAULT_SERVER)
        if not _ADDRESS.fullmatch(address):
            raise usage_error(f"server {address!r} must be HOST:PORT, such as {DEFAULT_SERVER}")
        return address

    @property
    def timeout(self) -> float | None:
        """Seconds that the caller allows, None when not said."""
        return self._options.get("timeout")

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Connect for the length of the block."""
        timeout = DEFAULT_TIMEOUT if self.timeout is None else self.timeout
        with connect(self.server, timeout, self._options.get("token_file")) as connection:
            yield connection


def verb(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command; its first parameter receives the Invocation."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(context: typer.Context, **arguments: Any) -> None:
            invocation = Invocation(_merged(context, arguments))
            try:
                function(invocation, **arguments)
            except CommandError as error:
                raise _failed(invocation, error) from None
            except UnicodeEncodeError:
                # Bytes of the command line that are not UTF-8 arrive as lone surrogates, which no message can carry.
                raise _failed(invocation, usage_error("an argument is not valid UTF-8")) from None

        _, *own = inspect.signature(function, eval_str=True).parameters.values()
        _set_signature(run, own)
        app.command(name)(run)
        return function

    return register


def group(app: typer.Typer, own: Sequence[inspect.Parameter] = ()) -> None:
    """Let a group of verbs take the global options too, and options of its own that act by themselves."""

    def remember(context: typer.Context, **arguments: Any) -> None:
        context.obj = _merged(context, arguments)

    remember.__doc__ = app.info.help
    _set_signature(remember, own)
    app.callback()(remember)


def _failed(invocation: Invocation, error: CommandError) -> typer.Exit:
    invocation.output.fail(error)
    return typer.Exit(error.exit_code)


def _merged(context: typer.Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Take the global options out of the arguments and lay them over those of the enclosing groups."""
    outer: dict[str, Any] = dict(context.parent.obj or {}) if context.parent is not None else {}
    given = {name: arguments.pop(name) for name in GLOBAL_OPTIONS}
    outer.update((name, value) for name, value in given.items() if value is not None)
    return outer


def _set_signature(function: Callable[..., None], own: Sequence[inspect.Parameter]) -> None:
    """Give typer the parameters to read: the context, the verb's own and the global ones."""
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in GLOBAL_OPTIONS.items()
    ]
    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    signature = inspect.Signature([context, *keyword_only, *added])
    function.__signature__ = signature  # type: ignore[attr-defined] # typer and inspect read it
    function.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    function.__dict__.pop("__wrapped__", None)
