"""Queries against the fields there are [SEARCH-3..6]."""

import pytest

from dexd.search.checking import check
from dexd.search.evaluation import Facts, holds
from dexd.search.fields import SYSTEM_FIELDS
from dexd.search.syntax import QueryError
from tests.unit.search.queries import KEYS

FLOW: Facts = {
    "FlowId": "order-1",
    "RunId": "r1",
    "FlowType": "Order",
    "Status": "RUNNING",
    "StartTime": 1_000,
    "StepStatus": ("running", "waiting"),
    "ActiveStepTypes": ("Ship",),
    "LastError": "ValueError: no stock",
    "city": "O'Brien",
    "notes": "Deliver to the B\u00e4ckerei, back-door!",
    "tags": ("new", "vip"),
    "n": 2**53 + 1,
    "d": 1.5,
    "b": False,
    "at": 1_772_366_400_000_001,
}


def finds(query: str, facts: Facts = FLOW) -> bool:
    return holds(check(query, KEYS).predicate, facts)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "FlowId = 'order-1' AND RunId = 'r1' AND FlowType IN ('Bill', 'Order')",
        "Status = 'RUNNING' AND Status != 'FAILED' AND Status > 'FAILED' AND Status LIKE 'RUN%'",
        "StartTime = '1970-01-01T00:00:01Z' AND StartTime < '1970-01-01T00:00:01.0001Z'",
        "StartTime > '1970-01-01T00:00:00.9999999Z' AND StartTime >= '1970-01-01T01:00:01+01:00'",
        "NOT StartTime = '1970-01-01T00:00:01.0001Z' AND StartTime != '1970-01-01T00:00:01.0001Z'",
        "LastError = 'ValueError: no stock' AND LastError LIKE 'ValueError: %'",
        "city = 'O''Brien' AND city < 'P' AND city >= 'O'",
        "n = 9007199254740993 AND n > 9007199254740992.0 AND n != 9007199254740992",
        "d = 1.5 AND d < 2 AND d > 1",
        "b = false AND b != TRUE AND b IN (true, false)",
        "at = '2026-03-01T12:00:00.000001Z' AND at < '2026-03-01T12:00:00.0000011Z'",
    ],
)
def test_search_3_fields_have_values_of_their_kind(query: str) -> None:
    assert finds(query)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tags = 'vip'", True),
        ("tags IN ('x', 'vip')", True),
        ("tags != 'x'", True),
        ("tags != 'vip'", False),
        ("tags LIKE 'v%'", True),
        ("StepStatus = 'waiting' AND StepStatus = 'running'", True),
        ("StepStatus != 'waiting'", False),
        ("ActiveStepTypes = 'Ship' AND ActiveStepTypes != 'Bill'", True),
    ],
)
def test_search_4_many_values_mean_some_element(query: str, expected: bool) -> None:
    assert finds(query) is expected


@pytest.mark.parametrize(
    "field", ["city", "tags", "notes", "StepStatus", "ActiveStepTypes", "LastError", "ParentFlowId"]
)
def test_search_4_a_comparison_with_a_missing_value_is_false(field: str) -> None:
    """`!=` included, so that NOT finds rows without a value."""
    literal = "'waiting'" if field == "StepStatus" else "'x'"
    for comparison in (f"{field} = {literal}", f"{field} != {literal}", f"{field} IN ({literal})"):
        assert not finds(comparison, {})
        assert finds(f"NOT ({comparison})", {})
    assert finds(f"{field} IS NULL AND NOT {field} IS NOT NULL", {})


@pytest.mark.parametrize("field", ["n", "d", "at", "CloseTime", "b"])
def test_search_4_also_for_numbers_and_instants(field: str) -> None:
    literal = {"n": "1", "d": "1", "b": "true"}.get(field, "'2026-01-01T00:00:00Z'")
    operators = ["=", "!="] if field == "b" else ["=", "!=", "<", "<=", ">", ">="]
    for operator in operators:
        assert finds(f"NOT ({field} {operator} {literal})", {})


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("O''Brien", True),
        ("O%", True),
        ("o%", False),
        ("%''%", True),
        ("O_Brien", False),
        ("%", True),
        ("O%n%n", False),
        ("%O''Brien%", True),
    ],
)
def test_search_5_like(pattern: str, expected: bool) -> None:
    """`%` is any run of characters, everything else is literal; case counts."""
    assert finds(f"city LIKE '{pattern}'") is expected


@pytest.mark.parametrize(
    ("pattern", "text"), [("\\%", "%"), ("a\\\\%", "a\\b"), ("\\x", "\\x"), ("x\\", "x\\"), ("a\\%%", "a%b")]
)
def test_search_5_backslash_makes_percent_and_backslash_literal(pattern: str, text: str) -> None:
    assert finds(f"city LIKE '{pattern}'", {"city": text})
    assert not finds(f"city LIKE '{pattern}'", {"city": f"y{text}"})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("notes = 'DOOR deliver'", True),
        ("notes = 'b\u00e4ckerei back'", True),
        ("notes = 'backerei'", False),
        ("notes = 'door window'", False),
        ("notes = '\"back\" OR NEAR(x) *'", False),
        ("notes = '---'", True),
        ("notes IN ('window', 'door')", True),
        ("notes != 'window'", True),
        ("notes != 'door'", False),
        ("notes LIKE 'b\u00c4ck%'", True),
        ("notes LIKE 'ack%'", False),
    ],
)
def test_search_5_full_text_is_found_by_words(query: str, expected: bool) -> None:
    """All words occur, in any case and order; LIKE 'abc%' is a word prefix."""
    assert finds(query) is expected


@pytest.mark.parametrize(
    ("query", "position", "expectation"),
    [
        ("status = 'RUNNING'", 0, "did you mean Status?"),
        ("FlowId = 'a' AND nothing = 1", 17, "Expected FlowId, RunId"),
        (f"`{'x' * 300}` = 1", 0, "..."),
        ("Status = 'RUNING'", 9, "expected RUNNING, COMPLETED, FAILED, CANCELED, TERMINATED"),
        ("StepStatus IN ('waiting', 'asleep')", 26, "waiting_limit"),
        ("n = '1'", 4, "expected a number"),
        ("n = true", 4, "expected a number"),
        ("d > 'x'", 4, "expected a number"),
        ("b = 1", 4, "expected true or false"),
        ("city = 5", 7, "expected a string in quotes"),
        ("StartTime > 5", 12, "expected an RFC 3339 instant"),
        ("StartTime > '2026-02-30T00:00:00Z'", 12, "expected an RFC 3339 instant"),
        ("at = 'yesterday'", 5, "expected an RFC 3339 instant"),
        ("tags < 'a'", 0, "expected =, !=, IN or IS NULL"),
        ("notes > 'a'", 0, "expected =, !=, IN or IS NULL"),
        ("b < true", 0, "expected =, !=, IN or IS NULL"),
        ("n LIKE 'a'", 7, "expected =, !=, <, <=, >, >=, IN or IS NULL"),
        ("notes LIKE 'a b%'", 11, "expected the beginning of one word"),
        ("notes LIKE '%b'", 11, "expected the beginning of one word"),
        ("notes LIKE 'b'", 11, "expected the beginning of one word"),
        ("ORDER BY tags", 9, "expected a field with one short value"),
        ("ORDER BY notes", 9, "expected a field with one short value"),
    ],
)
def test_search_6_what_does_not_fit_is_refused(query: str, position: int, expectation: str) -> None:
    with pytest.raises(QueryError) as raised:
        check(query, KEYS)
    assert raised.value.position == position
    assert expectation in str(raised.value)


def test_search_3_every_system_field_is_known_without_any_key() -> None:
    for name in SYSTEM_FIELDS:
        check(f"{name} IS NULL", {})


def test_a_field_orders_only_once_and_nothing_orders_by_default_newest_first() -> None:
    checked = check("ORDER BY n DESC, FlowId, n", KEYS)
    assert [(key.field.name, key.is_descending) for key in checked.order] == [("n", True), ("FlowId", False)]
    assert [(key.field.name, key.is_descending) for key in check("", KEYS).order] == [("StartTime", True)]


def test_volatile_queries_are_told_from_others() -> None:
    """[SEARCH-7] Only those have rows brought up to date first."""
    assert not check("FlowId = 'a' AND Status = 'RUNNING' ORDER BY StartTime", KEYS).is_volatile
    for query in ("StepStatus IS NULL", "ORDER BY LastError", "NOT (n = 1 OR ActiveStepTypes = 'a')"):
        assert check(query, KEYS).is_volatile
