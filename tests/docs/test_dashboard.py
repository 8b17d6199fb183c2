"""The Grafana dashboard shows the metrics that exist, all of them, and nothing else [OBS-1]."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from dexd.observe.metric_table import METRIC_TABLE, Kind, Metric
from dextools.dashboard import GRID_COLUMNS, LEFT_OUT
from dextools.docgen import DOCS

HISTOGRAM_SERIES = ("_bucket", "_sum", "_count")

_NAME = re.compile(r"\bdexd_\w+")
_GROUPING = re.compile(r"\bby \(([^)]*)\)")
_LEGEND_LABEL = re.compile(r"{{(\w+)}}")


def document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DOCS / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return loaded


def panels() -> Iterator[dict[str, Any]]:
    return (panel for panel in document()["panels"] if panel["type"] != "row")


def targets() -> list[tuple[str, str]]:
    """Expressions and legends."""
    return [(target["expr"], target["legendFormat"]) for panel in panels() for target in panel["targets"]]


def series_names() -> dict[str, Metric]:
    """The metric of each name that a query may use: a histogram has three, and none of its own."""
    names: dict[str, Metric] = {}
    for metric in METRIC_TABLE:
        suffixes = HISTOGRAM_SERIES if metric.kind is Kind.HISTOGRAM else ("",)
        names.update({metric.name + suffix: metric for suffix in suffixes})
    return names


def test_obs_1_queries_name_metrics_that_exist() -> None:
    variables = [variable["query"] for variable in document()["templating"]["list"]]
    named = {
        name for text in (*variables, *(expression for expression, _ in targets())) for name in _NAME.findall(text)
    }
    assert named <= set(series_names())


def test_obs_1_every_metric_is_on_a_panel_or_deliberately_not() -> None:
    shown = {series_names()[name].name for expression, _ in targets() for name in _NAME.findall(expression)}
    assert shown.isdisjoint(LEFT_OUT)
    assert shown | set(LEFT_OUT) == {metric.name for metric in METRIC_TABLE}


@pytest.mark.parametrize(("expression", "legend"), targets())
def test_labels_in_queries_and_legends_are_those_of_their_metrics(expression: str, legend: str) -> None:
    metrics = [series_names()[name] for name in _NAME.findall(expression)]
    known = {label for metric in metrics for label in metric.labels}
    grouped = {label for group in _GROUPING.findall(expression) for label in group.split(", ")}
    assert grouped - {"le"} <= known
    assert ("le" in grouped) is ("_bucket" in expression)
    assert set(_LEGEND_LABEL.findall(legend)) <= (grouped or known)
    assert expression.count("(") == expression.count(")")


@pytest.mark.parametrize(("expression", "_legend"), targets())
def test_counters_are_shown_as_rates_and_gauges_as_they_are(expression: str, _legend: str) -> None:
    for name in _NAME.findall(expression):
        is_rated = f"rate({name}{{" in expression
        assert is_rated is (series_names()[name].kind is not Kind.GAUGE)


def test_panels_have_numbers_and_places_of_their_own() -> None:
    everything = document()["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    for one, other in combinations([panel["gridPos"] for panel in everything], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= GRID_COLUMNS for panel in everything)
    assert all(panel["description"] for panel in panels())
