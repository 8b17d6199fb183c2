"""``python -m dextools.bench.compare OLD NEW``: ratios of two stored results."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dextools.bench.rows import Row, read_rows

RATIOS = ("throughput", "p50_ms", "p99_ms", "share of pipeline")
"""Columns: new over old. Only the last one compares runs of different machines or hours fairly."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dextools.bench.compare", description="Prints new over old for every row that both files have."
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    arguments = parser.parse_args()
    Console().print(_table(ratios(read_rows(arguments.old), read_rows(arguments.new))))


def ratios(old: Iterable[Row], new: Iterable[Row]) -> list[tuple[Row, dict[str, float | None]]]:
    """New over old, for each row that both have. Of several rows with one key in a file the last one counts."""
    before = {row.key: row for row in old}
    after = {row.key: row for row in new}
    return [(row, _ratios(before[key], row)) for key, row in after.items() if key in before]


def _ratios(old: Row, new: Row) -> dict[str, float | None]:
    pairs = zip(_figures(old), _figures(new), strict=True)
    return {
        name: None if earlier is None or later is None or earlier == 0 else later / earlier
        for name, (earlier, later) in zip(RATIOS, pairs, strict=True)
    }


def _figures(row: Row) -> tuple[float | None, ...]:
    return row.throughput, row.p50_ms, row.p99_ms, row.share_of.get("pipeline")


def _table(compared: list[tuple[Row, dict[str, float | None]]]) -> Table:
    table = Table("workload", "system", *RATIOS, title="new / old")
    for row, values in compared:
        cells = ["-" if value is None else f"{value:.2f}" for value in values.values()]
        table.add_row(row.workload, row.part or row.system, *cells)
    return table


if __name__ == "__main__":
    main()
