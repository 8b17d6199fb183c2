"""The benchmark's figures: quantiles, medians, shares and the comparison of two stored results."""

from pathlib import Path

import pytest

from dextools.bench.compare import ratios
from dextools.bench.flushes import FlushCount
from dextools.bench.measurement import CpuSeconds, LoadResult, Run, median_run, quantile
from dextools.bench.rows import Environment, Row, encode_row, read_rows, row_of, with_flushes, with_ratios
from dextools.bench.systems import DEXD, FLOOR, PIPELINE, System
from dextools.bench.workloads import WORKLOADS

ENVIRONMENT = Environment(commit="abc1234", cores=2, versions={"python": "3.11.7"})
APPEND = FLOOR[0]


def run_of(flows: int, *, steps: int = 1, latencies_ms: tuple[float, ...] = (1.0,)) -> Run:
    load = LoadResult(flows=flows, steps=flows * steps, window_s=2.0, latencies_ms=list(latencies_ms))
    return Run(load=load, cpu=CpuSeconds(server=0.5, client=0.25))


def row(letter: str, system: System, flows: int, **load: object) -> Row:
    return row_of(WORKLOADS[letter], system, [run_of(flows, **load)], ENVIRONMENT)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fraction", "expected"), [(0.0, 1.0), (0.5, 2.0), (0.51, 3.0), (0.75, 3.0), (0.99, 4.0), (1.0, 4.0)]
)
def test_quantile_is_the_smallest_value_that_the_fraction_does_not_exceed(fraction: float, expected: float) -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], fraction) == expected


def test_quantile_of_nothing_is_zero() -> None:
    assert quantile([], 0.5) == 0.0


def test_one_fast_and_one_slow_run_do_not_decide_the_figure() -> None:
    assert median_run([run_of(10), run_of(90), run_of(50)]).load.flows == 50


def test_throughput_counts_what_the_workload_counts() -> None:
    assert row("A", DEXD, 100).flows_per_s == 50.0
    assert row("A", DEXD, 100).steps_per_s is None
    assert row("B", DEXD, 100, steps=5).steps_per_s == 250.0


def test_processor_time_is_told_per_step_and_only_of_processes_that_exist() -> None:
    assert row("B", DEXD, 100, steps=5).cpu_us_per_step == {"server": 1000.0, "client": 500.0}


def test_product_is_reported_as_a_share_of_pipeline_and_floor() -> None:
    product, pipeline, append = with_ratios(
        [
            row("A", DEXD, 40, latencies_ms=(3.0,)),
            row("A", PIPELINE, 80, latencies_ms=(2.0,)),
            row("A", APPEND, 160),
        ]
    )
    assert product.share_of == {"pipeline": 0.5, "append": 0.25}
    assert product.p50_over_pipeline == 1.5
    assert pipeline.share_of["append"] == 0.5
    assert append.share_of == {}


def test_product_alone_has_no_shares() -> None:
    (product,) = with_ratios([row("A", DEXD, 40)])
    assert product.share_of == {}
    assert product.p50_over_pipeline is None


def test_stored_rows_come_back_as_they_were(tmp_path: Path) -> None:
    rows = with_ratios([row("A", DEXD, 40), row("A", PIPELINE, 80)])
    rows[0] = with_flushes(rows[0], FlushCount(fsyncs_per_flow=2.0, device_flushes_per_flow=None))
    stored = tmp_path / "bench.jsonl"
    stored.write_text("".join(encode_row(each) + "\n" for each in rows))
    assert read_rows(stored) == rows


def test_comparison_gives_new_over_old_for_rows_that_both_have() -> None:
    old = [row("A", DEXD, 40, latencies_ms=(4.0,)), row("F", DEXD, 10)]
    new = [row("A", DEXD, 60, latencies_ms=(2.0,)), row("B", DEXD, 10, steps=5)]
    ((compared, values),) = ratios(old, new)
    assert compared.workload == "A"
    assert values == {"throughput": 1.5, "p50_ms": 0.5, "p99_ms": 0.5, "share of pipeline": None}
