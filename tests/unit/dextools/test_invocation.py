"""Global options of `dex` [SURF-20]."""

import json
from importlib.metadata import version
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from dextools.cli.app import build_app
from dextools.cli.errors import CommandError, ExitCode
from dextools.cli.invocation import DEFAULT_SERVER, Invocation, group, verb


def echo_app() -> typer.Typer:
    """`tool part show TEXT` answers with what it was given."""

    def show(call: Invocation, text: Annotated[str, typer.Argument()], reason: str = "") -> None:
        if text == "fail":
            raise CommandError("no such \x1b[0m thing", ExitCode.NOT_FOUND, metadata={"id": "7"})
        call.output.fields({"text": text, "reason": reason, "server": call.server, "timeout": call.timeout})

    app, part = typer.Typer(), typer.Typer()
    group(app)
    group(part)
    verb(part, "show")(show)
    app.add_typer(part, name="part")
    return app


def shown(*arguments: str, **environment: str) -> dict[str, object]:
    result = CliRunner().invoke(echo_app(), arguments, env=environment)
    assert result.exit_code == 0, result.output
    document: dict[str, object] = json.loads(result.stdout)
    return document


@pytest.mark.parametrize(
    "arguments",
    [
        ("--json", "--server", "h:1", "part", "show", "x"),
        ("part", "--json", "--server", "h:1", "show", "x"),
        ("part", "show", "--json", "--server", "h:1", "x"),
        ("part", "show", "x", "--server", "h:1", "--json"),
        ("--json", "part", "--server", "h:0", "show", "x", "--server=h:1"),
    ],
)
def test_global_options_work_before_and_after_the_verb(arguments: tuple[str, ...]) -> None:
    """[SURF-20] the one nearest to the end wins."""
    assert shown(*arguments)["server"] == "h:1"


def test_the_server_comes_from_the_option_then_the_environment_then_the_default() -> None:
    """[SURF-20] --server > DEX_SERVER > 127.0.0.1:8801."""
    assert shown("part", "show", "x", "--json", DEX_SERVER="")["server"] == DEFAULT_SERVER
    assert shown("part", "show", "x", "--json", DEX_SERVER="env:2")["server"] == "env:2"
    assert shown("--server", "h:1", "part", "show", "x", "--json", DEX_SERVER="env:2")["server"] == "h:1"


def test_dex_tells_its_version() -> None:
    result = CliRunner().invoke(build_app(), ("--version",))
    assert (result.exit_code, result.stdout) == (0, f"{version('dexd')}\n")


@pytest.mark.parametrize("address", ["nonsense", "nonsense:port", ":8801", "h:123456"])
def test_an_address_without_host_or_port_is_wrong_usage(address: str) -> None:
    """[SURF-20]"""
    result = CliRunner().invoke(echo_app(), ("--server", address, "part", "show", "x"))
    assert result.exit_code == ExitCode.USAGE
    assert f"server {address!r} must be HOST:PORT" in result.stderr


@pytest.mark.parametrize("address", ["h:1", "[::1]:8801", "unix:/run/dexd.sock", "dns:///h:1"])
def test_addresses_that_grpc_has_a_scheme_for_are_taken(address: str) -> None:
    assert shown("--server", address, "part", "show", "x", "--json")["server"] == address


def test_an_option_value_that_looks_like_a_global_option_stays_a_value() -> None:
    """[SURF-20] global options are parsed, not searched for."""
    assert shown("part", "show", "--json", "--", "--json")["text"] == "--json"
    assert shown("part", "show", "--json", "--reason=--server", "x")["reason"] == "--server"


def test_a_failure_is_json_on_stderr_with_its_exit_code() -> None:
    """[SURF-20] stdout stays empty, the problem is machine-readable."""
    result = CliRunner().invoke(echo_app(), ["part", "show", "fail", "--json"])
    assert (result.exit_code, result.stdout) == (3, "")
    assert json.loads(result.stderr) == {
        "error": {"code": "NOT_FOUND", "message": "no such \x1b[0m thing", "metadata": {"id": "7"}}
    }


def test_a_failure_for_people_is_escaped() -> None:
    """[SURF-20] texts of the server are data too."""
    result = CliRunner().invoke(echo_app(), ["part", "show", "fail"])
    assert result.stderr == "dex: no such \\x1b[0m thing\n"


def test_a_wrong_command_line_is_exit_code_2() -> None:
    """[SURF-20] usage."""
    assert CliRunner().invoke(echo_app(), ["part", "show"]).exit_code == 2
    assert CliRunner().invoke(echo_app(), ["part", "show", "x", "--no-such"]).exit_code == 2
