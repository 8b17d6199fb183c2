"""Code in docs runs and prints what the page says (quality.md, "Code in docs is executed in tests").

A `python` block is a whole program; the `text` block after it is its output. A `console` block holds `dex` commands
after `$` and their output, in which `...` stands for anything; all of a page run in order against one server and one
worker with the example Flows. `sh` and `json` blocks are not run.
"""

import doctest
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dextools.local_processes import start_worker
from tests.docs.fenced_blocks import ROOT, Block, blocks_of, pages
from tests.support.server_process import ServerProcess

DEFAULT_ADDRESSES = ("127.0.0.1:8801", "localhost:8801")
DEX = Path(sys.executable).with_name("dex")

WITH_PROGRAMS = [page for page in pages() if any(block.language == "python" for block in blocks_of(page))]
WITH_COMMANDS = [page for page in pages() if any(block.language == "console" for block in blocks_of(page))]

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as process:
        yield process


def programs(page: Path) -> Iterator[tuple[Block, str]]:
    """Each program of a page with the output that follows it."""
    blocks = blocks_of(page)
    for index, block in enumerate(blocks):
        if block.language == "python":
            following = blocks[index + 1] if index + 1 < len(blocks) else Block("", "", 0)
            assert following.language == "text", f"{page.name}:{block.line} does not say what it prints"
            yield block, following.text


def commands(block: Block) -> Iterator[tuple[list[str], str]]:
    """Each command of a console block with its expected output."""
    for part in block.text.removeprefix("$ ").split("\n$ "):
        command, _, output = part.partition("\n")
        yield shlex.split(command), output


@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=lambda page: page.name)
def test_programs_in_docs_print_what_the_page_says(page: Path, server: ServerProcess, tmp_path: Path) -> None:
    """[SDK-1] the snippets use the SDK as it is."""
    for block, expected in programs(page):
        program = tmp_path / f"{page.stem}_{block.line}.py"
        # The programs of the page dial the default address; the test's server has another port.
        text = block.text.replace("AsyncWorker(registry)", "AsyncWorker(registry, None, WORKER)")
        text = text.replace("AsyncClient(registry)", "AsyncClient(registry, None, CLIENT)")
        for address in DEFAULT_ADDRESSES:
            text = text.replace(address, server.address)
        program.write_text(
            "from dexsdk import ClientOptions, WorkerOptions\n"
            f"CLIENT = ClientOptions(server_address={server.address!r})\n"
            f"WORKER = WorkerOptions(server_address={server.address!r})\n" + text
        )
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        ran = subprocess.run(
            [sys.executable, str(program)], capture_output=True, text=True, timeout=60, env=environ, check=False
        )
        assert (ran.returncode, ran.stdout) == (0, expected), f"{page.name}:{block.line}\n{ran.stderr}"


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_commands_in_docs_print_what_the_page_says(page: Path, server: ServerProcess, tmp_path: Path) -> None:
    """[SURF-21] the shown calls of `dex` and their output."""
    checker = doctest.OutputChecker()
    with start_worker(server.address, tmp_path / "worker.log"):
        for block in blocks_of(page):
            for command, expected in commands(block) if block.language == "console" else ():
                assert command[0] == "dex", f"{page.name}:{block.line} runs {command[0]}"
                environ = {**os.environ, "DEX_SERVER": server.address}
                ran = subprocess.run(
                    [DEX, *command[1:]], capture_output=True, text=True, timeout=60, env=environ, check=False
                )
                assert ran.returncode == 0, f"{page.name}:{block.line} {command}\n{ran.stderr}"
                flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
                assert checker.check_output(expected, ran.stdout, flags), f"{page.name}:{block.line}\n{ran.stdout}"


def test_some_docs_hold_code() -> None:
    """The suite above is not vacuous."""
    assert {page.name for page in WITH_PROGRAMS} >= {"README.md", "tutorial.md", "pull-workers.md"}
    assert {page.name for page in WITH_COMMANDS} >= {"tutorial.md"}
