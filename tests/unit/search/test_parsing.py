"""Text to syntax [SEARCH-1, SEARCH-2]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dexd.search.parsing import parse
from dexd.search.syntax import (
    Among,
    Compared,
    Condition,
    Conjunction,
    Disjunction,
    Like,
    Literal,
    Missing,
    Name,
    Negation,
    Operator,
    Query,
    QueryError,
)


def condition(text: str) -> str:
    """The condition of a query, fully bracketed."""
    found = parse(text).condition
    assert found is not None
    return shown(found)


def shown(node: Condition) -> str:
    match node:
        case Compared():
            return f"{node.field.text}{node.operator.value}{node.literal.value}"
        case Among():
            return f"{node.field.text} in {[literal.value for literal in node.literals]}"
        case Like():
            return f"{node.field.text} like {node.pattern.value}"
        case Missing():
            return f"{node.field.text} missing"
        case Negation():
            return f"!{shown(node.operand)}"
        case Conjunction():
            return f"({' & '.join(map(shown, node.operands))})"
        case Disjunction():
            return f"({' | '.join(map(shown, node.operands))})"


@pytest.mark.parametrize("text", ["", " \t\n"])
def test_search_1_empty_text_means_all(text: str) -> None:
    assert parse(text) == Query()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", "a=1"),
        ("a = 1 OR b = 2 AND NOT c = 3", "(a=1 | (b=2 & !c=3))"),
        ("NOT a = 1 AND b = 2", "(!a=1 & b=2)"),
        ("not (a = 1 and b = 2)", "!(a=1 & b=2)"),
        ("(a = 1 OR b = 2) AND c = 3", "((a=1 | b=2) & c=3)"),
        ("a=1 AND (b=2 AND (c=3 AND d=4))", "(a=1 & b=2 & c=3 & d=4)"),
        ("a=1 OR (b=2 OR c=3)", "(a=1 | b=2 | c=3)"),
        ("NOT NOT a = 1", "a=1"),
        ("NOT NOT NOT a = 1", "!a=1"),
        ("a IN (1, 'x')", "a in [1, 'x']"),
        ("a LIKE 'x%'", "a like x%"),
        ("a IS NULL", "a missing"),
        ("a IS NOT NULL", "!a missing"),
        ("aNd_ = 1 aNd iN_ in (TRUE, false)", "(aNd_=1 & iN_ in [True, False])"),
    ],
)
def test_search_1_precedence_and_forms(text: str, expected: str) -> None:
    """NOT binds tightest, then AND, then OR; keywords ignore case, field names do not."""
    assert condition(text) == expected


@pytest.mark.parametrize("operator", Operator)
def test_search_1_operators(operator: Operator) -> None:
    assert parse(f"a{operator.value}1").condition == Compared(Name("a", 0), operator, Literal(1, 1 + len(operator)))


def test_search_1_order_is_a_list_with_directions() -> None:
    query = parse("ORDER by a, b desc, `c d` ASC")
    assert query.condition is None
    assert [(term.field.text, term.is_descending) for term in query.order] == [
        ("a", False),
        ("b", True),
        ("c d", False),
    ]


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'it''s'", "it's"),
        ('"say ""hi"""', 'say "hi"'),
        ("'\"'", '"'),
        ("''", ""),
        ("'a\nb\0c'", "a\nb\0c"),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("007", 7),
        ("1.5", 1.5),
        ("-2e3", -2000.0),
        ("0.1E-2", 0.001),
        ("tRuE", True),
        ("FALSE", False),
    ],
)
def test_search_2_literals(literal: str, value: object) -> None:
    found = parse(f"a = {literal}").condition
    assert isinstance(found, Compared)
    assert found.literal.value == value
    assert type(found.literal.value) is type(value)


@pytest.mark.parametrize(
    ("quoted", "name"), [("`a b`", "a b"), ("`a``b`", "a`b"), ("`AND`", "AND"), ("`\u00e9`", "\u00e9")]
)
def test_search_2_unusual_field_names_stand_in_backquotes(quoted: str, name: str) -> None:
    assert condition(f"{quoted} = 1") == f"{name}=1"


@pytest.mark.parametrize(
    ("text", "position", "expectation"),
    [
        ("a = 1 AND", 9, "expected NOT, a field or '('"),
        ("a == 1", 3, "expected a string in quotes, a number or true or false"),
        ("and = 1", 0, "expected NOT, ORDER BY, a field, '(' or the end"),
        ("a = 'x", 4, "expected a closing '"),
        ("\u00e9 = 1", 0, "backquotes"),
        ("\U0001f600a = 1", 0, "backquotes"),
        ("'\U0001f600' = 1", 0, "expected NOT"),
        ("a='\U0001f600' b", 6, "expected AND, OR, ORDER BY or the end"),
        ("a not in (1)", 2, "expected a comparison operator, IN, LIKE or IS"),
        ("a LIKE 5", 7, "expected a string in quotes"),
        ("a in ()", 6, "expected a string in quotes"),
        ("x=1 order y", 10, "expected BY"),
        ("a = 1e400", 4, "expected a finite one"),
        ("a = 9223372036854775808", 4, "expected -2^63 to 2^63-1"),
        (f"a = {'9' * 5_000}", 4, "expected -2^63 to 2^63-1"),
        ("a=1; DROP TABLE runs", 3, "has no meaning"),
        (f"{'x' * 50} y", 51, "is not expected; expected a comparison operator"),
        ("a = 1 " + "y" * 50, 6, repr("y" * 40 + "...")),
    ],
)
def test_search_6_errors_name_position_and_expectation(text: str, position: int, expectation: str) -> None:
    with pytest.raises(QueryError) as raised:
        parse(text)
    assert raised.value.position == position
    assert expectation in str(raised.value)
    assert f"at position {position}" in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "a = '" + "x" * 16_384 + "'",
        "a IN (" + ",".join(["1"] * 1_001) + ")",
        "ORDER BY " + ",".join("abcdefghi"),
    ],
)
def test_search_9_limits(text: str) -> None:
    with pytest.raises(QueryError, match="at most"):
        parse(text)


def test_search_9_a_list_of_1000_and_a_text_of_16_kib_are_allowed() -> None:
    found = parse("a IN (" + ",".join(["1"] * 1_000) + ")").condition
    assert isinstance(found, Among)
    assert len(found.literals) == 1_000
    parse("a = '" + "x" * (16_384 - 6) + "'")


def test_nesting_is_bounded_and_brackets_alone_are_none() -> None:
    parse("(" * 5_000 + "a=1" + ")" * 5_000)
    parse("NOT " * 4_000 + "a=1")
    nested = "a=1"
    for depth in range(17):
        nested = f"(b=1 {('AND', 'OR')[depth % 2]} {nested})"
    with pytest.raises(QueryError, match="17 deep"):
        parse(nested)


_PIECES = (
    *("a", "`b c`", "=", "!=", "<", ">=", "1", "-2.5", "'x'", '"y"', "AND", "or", "NOT", "(", ")", "IN", "LIKE", "IS"),
    *("NULL", "ORDER", "BY", "asc", "DESC", ",", "true", "'", "\\", "%", "\0", " ", "\u2028"),
)


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(_PIECES), max_size=30).map(" ".join)))
def test_search_6_any_text_is_a_query_or_a_query_error(text: str) -> None:
    position = 0
    try:
        parse(text)
    except QueryError as error:
        position = error.position
    assert 0 <= position <= len(text)
