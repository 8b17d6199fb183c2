"""Query text to syntax, by the grammar beside this file [SEARCH-1, SEARCH-2]."""

import math
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib import resources
from itertools import chain
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args

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
    OrderTerm,
    Query,
    QueryError,
)

QUERY_BYTES_MAX = 16 * 1024
"""UTF-8 bytes of a query [SEARCH-9]."""

IN_LITERALS_MAX = 1_000
"""Literals of one IN list [SEARCH-9]."""

NESTING_MAX = 16
"""How deep AND, OR and NOT may stand inside each other; what stands side by side is not counted."""

ORDER_FIELDS_MAX = 8
"""Fields of ORDER BY."""

_INT64 = range(-(2**63), 2**63)

_TERMINALS = {
    "OPERATOR": "a comparison operator",
    "_IN": "IN",
    "_LIKE": "LIKE",
    "_IS": "IS",
    "_NULL": "NULL",
    "_NOT": "NOT",
    "_AND": "AND",
    "_OR": "OR",
    "_ORDER": "ORDER BY",
    "_BY": "BY",
    "ASC": "ASC",
    "DESC": "DESC",
    "NAME": "a field",
    "QUOTED_NAME": "a field",
    "STRING": "a string in quotes",
    "INTEGER": "a number",
    "FLOAT": "a number",
    "TRUE": "true or false",
    "FALSE": "true or false",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "$END": "the end",
}


@lru_cache(maxsize=64)
def parse(text: str) -> Query:
    """Read a query; blank text finds everything.

    Raises:
        QueryError: it is too long, or no query.
    """
    size = len(text.encode(errors="surrogatepass"))
    if size > QUERY_BYTES_MAX:
        raise QueryError(0, f"the query has {size} bytes, at most {QUERY_BYTES_MAX} are allowed")
    try:
        # The transformer runs while it parses, so that nothing recurses however deep the text is nested.
        query = _parser().parse(text)
    except UnexpectedToken as error:
        token = error.token
        at_end = token.type == "$END"
        found = "the query ends" if at_end else f"{_shown(token)} is not expected"
        raise QueryError(
            len(text) if at_end else token.start_pos or 0, f"{found}; expected {_wanted(error.accepts or ())}"
        ) from error
    except UnexpectedCharacters as error:
        position: Any = error.pos_in_stream
        raise QueryError(position, _bad_character(text[position])) from error
    assert isinstance(query, Query), "the transformer gives nothing else"
    return query


@cache
def _parser() -> Lark:
    grammar = resources.files("dexd.search").joinpath("grammar.lark").read_text(encoding="utf-8")
    # The basic lexer knows keywords everywhere, so that none is a field name by accident.
    return Lark(grammar, start="query", parser="lalr", lexer="basic", transformer=_Builder())


def _wanted(terminals: Iterable[str]) -> str:
    names = list(dict.fromkeys(text for name, text in _TERMINALS.items() if name in set(terminals)))
    return ", ".join(names[:-1]) + (" or " if names[:-1] else "") + names[-1]


def _shown(token: str) -> str:
    return repr(str(token) if len(token) <= 40 else f"{token[:40]}...")


def _bad_character(character: str) -> str:
    if character in "'\"`":
        return f"the text that begins with {character} does not end; expected a closing {character}"
    return f"the character {character!r} has no meaning here; texts stand in quotes, unusual field names in backquotes"


@v_args(inline=True)
class _Builder(Transformer[Token, Query]):
    """One method for each rule of the grammar."""

    def query(self, condition: Condition | None, order: tuple[OrderTerm, ...] | None) -> Query:
        return Query(condition, order or ())

    def disjunction(self, *operands: Condition) -> Condition:
        if len(operands) == 1:
            return operands[0]
        flat = tuple(chain.from_iterable(o.operands if isinstance(o, Disjunction) else (o,) for o in operands))
        return Disjunction(flat, _deeper(flat))

    def conjunction(self, *operands: Condition) -> Condition:
        if len(operands) == 1:
            return operands[0]
        flat = tuple(chain.from_iterable(o.operands if isinstance(o, Conjunction) else (o,) for o in operands))
        return Conjunction(flat, _deeper(flat))

    def negation(self, operand: Condition) -> Condition:
        # Two negations are none, because a comparison is true or false and never unknown [SEARCH-4].
        return operand.operand if isinstance(operand, Negation) else Negation(operand, _deeper((operand,)))

    def group(self, condition: Condition) -> Condition:
        return condition

    def compared(self, field: Name, operator: Token, literal: Token) -> Compared:
        return Compared(field, Operator(operator), _literal(literal))

    def among(self, field: Name, *literals: Token) -> Among:
        if len(literals) > IN_LITERALS_MAX:
            raise QueryError(field.position, f"{len(literals)} values of IN, at most {IN_LITERALS_MAX} are allowed")
        return Among(field, tuple(map(_literal, literals)))

    def like(self, field: Name, pattern: Literal) -> Like:
        return Like(field, pattern)

    def missing(self, field: Name) -> Missing:
        return Missing(field)

    def present(self, field: Name) -> Negation:
        return Negation(Missing(field), 1)

    def ordering(self, *terms: OrderTerm) -> tuple[OrderTerm, ...]:
        if len(terms) > ORDER_FIELDS_MAX:
            raise QueryError(
                terms[0].field.position, f"{len(terms)} fields of ORDER BY, at most {ORDER_FIELDS_MAX} are allowed"
            )
        return terms

    def order_term(self, field: Name, direction: Token | None) -> OrderTerm:
        return OrderTerm(field, direction is not None and direction.type == "DESC")

    def field(self, token: Token) -> Name:
        text = str(token)
        return Name(text[1:-1].replace("``", "`") if token.type == "QUOTED_NAME" else text, token.start_pos or 0)

    def text(self, token: Token) -> Literal:
        return _literal(token)


def _deeper(operands: Sequence[Condition]) -> int:
    depth = 1 + max(getattr(operand, "depth", 0) for operand in operands)
    if depth > NESTING_MAX:
        raise QueryError(0, f"AND, OR and NOT stand {depth} deep in each other, at most {NESTING_MAX} are allowed")
    return depth


def _literal(token: Token) -> Literal:
    text, position = str(token), token.start_pos or 0
    match token.type:
        case "STRING":
            return Literal(text[1:-1].replace(text[0] * 2, text[0]), position)
        case "INTEGER":
            # Python refuses to convert texts of thousands of digits, which are out of range anyway.
            number = int(text) if len(text) <= 20 else 2**63
            if number not in _INT64:
                raise QueryError(position, "the number is outside of 64 bits; expected -2^63 to 2^63-1")
            return Literal(number, position)
        case "FLOAT":
            real = float(text)
            if not math.isfinite(real):
                raise QueryError(position, "the number is too large; expected a finite one")
            return Literal(real, position)
        case _:
            return Literal(token.type == "TRUE", position)
