"""The command ``dexd``: serve, show or check the configuration, tell the version [SURF-10].

stdout carries results only, its first line while serving is the ready line [SURF-11]; logs and problems go to stderr.
"""

import os
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final

import structlog
import typer

from dexd.config import LoadedConfig, load_config, render_config
from dexd.errors import ConfigError, exit_code_of
from dexd.observe.logs import LogFormat, LogLevel, configure_logs
from dexd.server import run_server

_NAMES_OF_HELP: Final = {"help_option_names": ["-h", "--help"]}

app: Final = typer.Typer(
    name="dexd",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings=_NAMES_OF_HELP,
)
config_app: Final = typer.Typer(
    help="The effective configuration.", no_args_is_help=True, context_settings=_NAMES_OF_HELP
)
app.add_typer(config_app, name="config")

ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="TOML file; ./dexd.toml is read if it exists.")
]
DataDir = Annotated[str | None, typer.Option("--data-dir", metavar="DIR", help="Same as store.data_dir.")]
Listen = Annotated[str | None, typer.Option("--listen", metavar="HOST:PORT", help="Same as api.listen; port 0: any.")]
Assignments = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Any setting; may be repeated.")
]


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(version("dexd"))
        raise typer.Exit


@app.callback()
def root(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Durable execution server."""


@app.command()
def serve(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    listen: Listen = None,
    assignments: Assignments = None,
    log_format: Annotated[LogFormat, typer.Option(help="How log lines on stderr look.")] = LogFormat.CONSOLE,
    log_level: Annotated[LogLevel, typer.Option(help="Least important line that is written.")] = LogLevel.INFO,
) -> None:
    """Serve until SIGINT or SIGTERM."""
    configure_logs(log_format, log_level)
    loaded = _load(config, data_dir, listen, assignments)
    try:
        run_server(loaded.config, announce=lambda line: print(line, flush=True))  # noqa: T201 - the ready line is stdout's
    except Exception as error:  # the last line of defence: every end has a reason and an exit code
        raise typer.Exit(_report(error)) from error


@config_app.command("show")
def show_config(
    config: ConfigFile = None, data_dir: DataDir = None, listen: Listen = None, assignments: Assignments = None
) -> None:
    """Print every setting with its effective value and where it came from, as TOML."""
    typer.echo(render_config(_load(config, data_dir, listen, assignments)))


@config_app.command("check")
def check_config(
    config: ConfigFile = None, data_dir: DataDir = None, listen: Listen = None, assignments: Assignments = None
) -> None:
    """Check every setting; exit 2 and list all faults if there are any."""
    _load(config, data_dir, listen, assignments)
    typer.echo("configuration is valid")


@app.command("version")
def show_version() -> None:
    """Print the version."""
    typer.echo(version("dexd"))


def main() -> None:
    """Entry point of the command and of ``python -m dexd``."""
    app()


def _load(config: Path | None, data_dir: str | None, listen: str | None, assignments: list[str] | None) -> LoadedConfig:
    flags = {"store.data_dir": data_dir, "api.listen": listen}
    try:
        return load_config(config, os.environ, assignments or (), flags)
    except ConfigError as error:
        for fault in error.faults:
            typer.echo(f"dexd: {fault}", err=True)
        raise typer.Exit(exit_code_of(error)) from error


def _report(error: Exception) -> int:
    """Say why the server ended; a stack trace only for bugs, where it is the way to the cause."""
    code = exit_code_of(error)
    structlog.get_logger().error("server_failed", reason=str(error), exit_code=int(code), exc_info=code == 1)
    return code
