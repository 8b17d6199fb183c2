"""What can be measured, and how its processes are started."""

import sys
from pathlib import Path

import msgspec

from dextools.bench.workloads import LoadPlan


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


def profiled(argv: tuple[str, ...], out: Path) -> tuple[str, ...]:
    """The same program under the sampling profiler, which writes its report to ``out``."""
    python, flag, module, *arguments = argv
    return (python, flag, "dextools.bench.profiled", str(out), module, *arguments)


class System(msgspec.Struct, frozen=True, kw_only=True):
    """Programs that run a workload together; the client is the one that drives it."""

    name: str
    part: str = ""
    """Which part of the floor."""
    server: tuple[str, ...] = ()
    """Command line; ``{directory}`` stands for the directory of the run. Empty for a system without a server."""
    worker: str = ""
    """Module of the worker process; empty for a system without workers."""
    client: str
    """Module of the client process."""

    def server_argv(self, directory: Path) -> tuple[str, ...]:
        return tuple(argument.format(directory=directory) for argument in self.server)

    def worker_argv(self, address: str) -> tuple[str, ...]:
        return _module(self.worker, address)

    def client_argv(self, address: str, plan: LoadPlan) -> tuple[str, ...]:
        described = msgspec.json.encode(plan).decode()
        return _module(self.client, address, described) if self.server else _module(self.client, described)


DEXD = System(
    name="dexd",
    server=_module("dexd", "serve", "--data-dir", "{directory}/data", "--listen", "127.0.0.1:0"),
    worker="dextools.bench.product.worker",
    client="dextools.bench.product.client",
)

PIPELINE = System(
    name="pipeline",
    server=_module("dextools.bench.pipeline.server", "{directory}"),
    worker="dextools.bench.pipeline.worker",
    client="dextools.bench.pipeline.client",
)

FLOOR = (
    System(name="floor", part="append", client="dextools.bench.floor.append"),
    System(
        name="floor",
        part="echo",
        server=_module("dextools.bench.floor.echo_server"),
        client="dextools.bench.floor.echo_client",
    ),
    System(name="floor", part="encode", client="dextools.bench.floor.encode"),
)
