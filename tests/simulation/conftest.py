"""Which seeds the simulation runs."""

import pytest

SEEDS_DEFAULT = 400
"""Half of them about all kinds of faults, half about churn of workers and connections."""
SEEDS_LONG = 10_000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sim-seed", type=int, default=None, help="run this one seed of the simulation, verbosely")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chunk" not in metafunc.fixturenames:
        return
    seed = metafunc.config.getoption("--sim-seed", default=None)
    if seed is not None:
        metafunc.parametrize("chunk", [range(seed, seed + 1)], ids=[f"seed-{seed}"])
        return
    is_long = metafunc.definition.get_closest_marker("long") is not None
    count, size = (SEEDS_LONG, 500) if is_long else (SEEDS_DEFAULT, 20)
    chunks = [range(first, first + size) for first in range(0, count, size)]
    metafunc.parametrize("chunk", chunks, ids=[f"seeds-{chunk.start}-{chunk.stop - 1}" for chunk in chunks])
