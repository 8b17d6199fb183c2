"""The built wheel holds the whole product and works in a clean environment."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.architecture.source_tree import PACKAGE_ROOTS, REPOSITORY

# The wheel is built once and used by all tests here, so they run in one worker process.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel"), pytest.mark.timeout(600)]

SHIPPED_SUFFIXES = {".lark", ".py", ".pyi", ".proto", ".typed"}
BUILD_INPUTS = ("dexd", "dexsdk", "proto", "tools", "migrations", "pyproject.toml", "setup.py", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy, since setuptools packs whatever an earlier build left in the tree."""
    source = tmp_path_factory.mktemp("source")
    for name in BUILD_INPUTS:
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(REPOSITORY / name, source / name)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", source / "dist", source)
    (built,) = (source / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel with its dependencies into a new environment and return the folder of its commands."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=True)
    run(environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    return environment / "bin"


def test_wheel_holds_every_module_and_migration(wheel: Path) -> None:
    expected = {f"dexd/migrations/{path.name}" for path in (REPOSITORY / "migrations").glob("*.sql")}
    assert expected, "there is no schema to ship"
    expected |= {f"dexd/migrations/{path.name}" for path in (REPOSITORY / "migrations").glob("*.py")}
    for package, root in PACKAGE_ROOTS.items():
        for path in root.rglob("*"):
            if path.suffix in SHIPPED_SUFFIXES:
                expected.add(f"{package}/{path.relative_to(root).as_posix()}")
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert shipped == expected


def test_installed_commands_show_their_help(scripts: Path) -> None:
    assert "flow" in run(scripts / "dex", "--help")
    assert "serve" in run(scripts / "dexd", "--help")


def test_installed_server_starts_and_stops(scripts: Path, tmp_path: Path) -> None:
    """The first line announces the server, and SIGTERM ends it with exit code 0 [SURF-11, SURF-12]."""
    command: list[str | Path] = [scripts / "dexd", "serve", "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, env=clean_environment()) as server:
        try:
            assert server.stdout is not None
            ready = json.loads(server.stdout.readline())
            assert ready["event"] == "server_ready"
            assert ready["pid"] == server.pid
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=60) == 0
        finally:
            server.kill()


def clean_environment() -> dict[str, str]:
    """Return the environment without what would let the checkout shine through."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DEXD_"))}


def run(*command: str | Path) -> str:
    """Run a command away from the checkout and return what it printed; its failure fails the test with its output."""
    finished = subprocess.run(
        command,
        cwd=tempfile.gettempdir(),
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout
