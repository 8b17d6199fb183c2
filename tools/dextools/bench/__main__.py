"""``python -m dextools.bench A B F``: measures workloads, one JSON line per system and workload."""

import argparse
import asyncio
from pathlib import Path

from dextools.bench.parked import PARKED, measure_parked
from dextools.bench.rows import encode_row, this_environment
from dextools.bench.suite import Effort, measure
from dextools.bench.workloads import WORKLOADS

SYSTEMS = ("dexd", "pipeline", "floor")


def main() -> None:
    arguments = _parser().parse_args()
    effort = Effort(
        window_s=arguments.seconds,
        repeats=arguments.repeats,
        systems=frozenset(arguments.systems),
        profiles=arguments.profile,
    )
    asyncio.run(_measure_all(arguments.workloads, effort, arguments.out))


def _parser() -> argparse.ArgumentParser:
    titles = {letter: workload.title for letter, workload in WORKLOADS.items()}
    titles |= {letter: f"restart on {parked:,} Flows that wait, then wake 10,000" for letter, parked in PARKED.items()}
    letters = "\n".join(f"  {letter}  {title}" for letter, title in titles.items())
    parser = argparse.ArgumentParser(
        prog="python -m dextools.bench",
        description="Measures the product beside the bare pipeline and the floor of the same machine.",
        epilog=f"workloads:\n{letters}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("workloads", nargs="+", choices=sorted({**WORKLOADS, **PARKED}), metavar="WORKLOAD")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS, help="what takes part (all)")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one run's window (5)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each system; the median counts (3)")
    parser.add_argument("--out", type=Path, help="file to which the JSON lines are appended as well")
    parser.add_argument("--profile", type=Path, help="directory for reports of where time goes; makes figures worse")
    return parser


async def _measure_all(letters: list[str], effort: Effort, out: Path | None) -> None:
    environment = this_environment()
    for letter in letters:
        if letter in PARKED:
            rows = [await measure_parked(letter, environment)]
        else:
            rows = await measure(WORKLOADS[letter], effort, environment)
        for row in rows:
            line = encode_row(row)
            print(line, flush=True)
            if out is not None:
                _append(out, line)


def _append(out: Path, line: str) -> None:
    with out.open("a") as file:
        file.write(line + "\n")


if __name__ == "__main__":
    main()
