"""Generate the message modules, stubs and typings of `dexpb.v1` from the `.proto` files beside them (`make proto`).

Usage: `python proto/generate.py [OUT]`. OUT defaults to this folder, which updates the committed files in place; the
drift test passes a temporary folder and compares.
"""

import sys
import sysconfig
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

PROTO_ROOT = Path(__file__).resolve().parent
"""Import root of the `.proto` files; the path below it is the Python package, hence `dexpb/v1/x.proto`."""


def generate(out: Path) -> int:
    """Write all generated files below `out`; return the compiler's exit code."""
    sources = sorted(str(path.relative_to(PROTO_ROOT)) for path in PROTO_ROOT.rglob("*.proto"))
    scripts = Path(sysconfig.get_path("scripts"))
    arguments = [
        "protoc",
        f"--proto_path={PROTO_ROOT}",
        f"--proto_path={files('grpc_tools') / '_proto'}",
        f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
        f"--python_out={out}",
        f"--mypy_out={out}",
        f"--grpc_python_out={out}",
        f"--mypy_grpc_out={out}",
        *sources,
    ]
    return int(protoc.main(arguments))


if __name__ == "__main__":
    sys.exit(generate(Path(sys.argv[1]) if len(sys.argv) > 1 else PROTO_ROOT))
