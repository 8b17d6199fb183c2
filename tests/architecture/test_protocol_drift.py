"""The committed protocol modules are what `make proto` writes, and the declared dependencies can load them."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.source_tree import PACKAGE_ROOTS, REPOSITORY

PROTOCOL = PACKAGE_ROOTS["dexpb"] / "v1"

GENERATOR_VERSION = re.compile(
    r"^# Protobuf Python Version: .*$"
    r"|(?<=_runtime_version\.Domain\.PUBLIC,)\s+\d+,\s+\d+,\s+\d+,"
    r"|(?<=^GRPC_GENERATED_VERSION = ).*$",
    re.MULTILINE,
)
"""What differs between two releases of the generators although the protocol is the same."""


def generated_files(root: Path) -> dict[str, str]:
    """Return the generated files below `root` by name, without the versions of the generators."""
    return {path.name: GENERATOR_VERSION.sub("", path.read_text()) for path in sorted(root.glob("*_pb2*.py*"))}


def test_generated_protocol_modules_are_current(tmp_path: Path) -> None:
    subprocess.run([sys.executable, REPOSITORY / "proto" / "generate.py", tmp_path], check=True, capture_output=True)
    fresh = generated_files(tmp_path / "dexpb" / "v1")
    committed = generated_files(PROTOCOL)
    assert fresh, "nothing was generated"
    assert committed.keys() == fresh.keys(), "run `make proto`"
    stale = [name for name in fresh if fresh[name] != committed[name]]
    assert not stale, f"run `make proto`: {stale} differ from what the .proto files say"


@pytest.mark.parametrize(
    ("distribution", "stated_by", "pattern"),
    [
        ("grpcio", "flow_service_pb2_grpc.py", r"GRPC_GENERATED_VERSION = '([\d.]+)'"),
        ("protobuf", "flow_service_pb2.py", r"# Protobuf Python Version: ([\d.]+)"),
    ],
)
def test_dependency_bound_admits_no_runtime_older_than_generator(
    distribution: str, stated_by: str, pattern: str
) -> None:
    """A generated module refuses to be imported by an older runtime, so pip must not choose one."""
    stated = re.search(pattern, (PROTOCOL / stated_by).read_text())
    assert stated
    requirements = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = [line.partition(">=")[2] for line in requirements if line.startswith(f"{distribution}>=")]
    assert [version_of(bound) >= version_of(stated[1]) for bound in bounds] == [True]


def version_of(text: str) -> tuple[int, ...]:
    """Return a dotted version as numbers that compare."""
    return tuple(int(part) for part in text.split("."))
