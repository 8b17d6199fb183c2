"""Random rows and random queries over them, for tests that compare two ways to find the same."""

from collections.abc import Sequence
from random import Random

from dexd.core.index_values import IndexKeyTypes, IndexType
from dexd.log.event_log import IndexRow, RunRow
from dexd.log.search_sql import STEP_KEYS
from dexd.search.predicates import Scalar

KEYS: IndexKeyTypes = {
    "city": IndexType.KEYWORD,
    "odd key`": IndexType.KEYWORD,
    "notes": IndexType.FULL_TEXT,
    "tags": IndexType.KEYWORD_ARRAY,
    "n": IndexType.INT,
    "d": IndexType.DOUBLE,
    "b": IndexType.BOOL,
    "at": IndexType.DATETIME,
}
TEXTS = (
    "",
    "a",
    "A",
    "a%b",
    "a_b",
    "O'Brien",
    "foo-bar",
    "%",
    "x' OR '1'='1",
    "\u00e9",
    "e\u0301",
    "a\0b",
    "a\0",
    "\\",
    "\\%",
    "*?[a]",
    "[",
    "\U0010ffff",
    "a\U0010ffff",
    "a\U0010ffffz",
    "\ud7ff\ue000",
    "foo bar",
    "FOO",
    "b\u00e4r Foo-baz",
    "zz z\u00e9",
)
_FIELDS = (
    *("city", "`odd key```", "tags", "FlowId", "notes", "n", "d", "b", "Status", "StepStatus", "at", "StartTime"),
    *("CloseTime", "LastError", "ParentFlowId", "ActiveStepTypes", "ScheduleId", "FlowType", "RunId"),
)
_NUMBERS = ("0", "1", "-5", "1.5", "9223372036854775807", "9007199254740993", "1e300")
_INSTANTS = (
    "1970-01-01T00:00:00Z",
    "1970-01-01T00:00:01Z",
    "1970-01-01T00:00:00.0000011Z",
    "2017-07-14T04:40:00+02:00",
    "1970-01-01T00:00:03.0105Z",
)


def some_runs(random: Random, count: int) -> list[RunRow]:
    """Executions of few Flow IDs, some open."""
    runs: list[RunRow] = []
    for stream_id in range(1, count + 1):
        flow_id = random.choice([f"f{stream_id}", "same", "a/b", "O'Brien"])
        status = random.choice([1, 1, 2, 3, 4, 5])
        runs.append(
            RunRow(
                stream_id,
                f"r{stream_id}",
                flow_id,
                sum(run.flow_id == flow_id for run in runs) + 1,
                random.choice(["A", "B"]),
                status,
                random.choice([1_000, 2_000, 3_000 + stream_id]),
                0 if status == 1 else 5_000 + stream_id,
                parent_flow_id=random.choice(["", "p"]),
                schedule_id=random.choice(["", "s"]),
                last_error=random.choice(["", "E: x", "F: y\0z"]),
            )
        )
    return runs


def some_index_rows(random: Random, runs: Sequence[RunRow]) -> list[IndexRow]:
    """Values of some keys for some runs."""
    rows = []
    for run in runs:
        values: dict[str, tuple[Scalar, ...]] = {
            "city": (random.choice(TEXTS),),
            "odd key`": (random.choice(TEXTS),),
            "notes": (" ".join(random.choices(TEXTS, k=3)),),
            "tags": tuple(random.choices(TEXTS, k=random.randint(1, 3))),
            "n": (random.choice([0, 1, -5, 2**63 - 1, 2**53 + 1]),),
            "d": (random.choice([0.0, 1.0, 1.5, 2.0**53]),),
            "b": (random.random() < 0.5,),
            "at": (random.choice([0, 1_500_000_000_000_000, 1]),),
            STEP_KEYS["StepStatus"]: tuple(random.sample(["waiting", "running", "queued"], random.randint(1, 2))),
            STEP_KEYS["ActiveStepTypes"]: ("S",),
        }
        rows += [
            IndexRow(run.stream_id, key, value, key == "notes")
            for key, value in values.items()
            if random.random() < 0.6
        ]
    return rows


def some_query(random: Random) -> str:
    """A query that parses; it need not fit its fields."""
    query = _condition(random, 3)
    if random.random() < 0.5:
        order = random.sample(_FIELDS, random.randint(1, 3))
        query += " ORDER BY " + ", ".join(f"{field} {random.choice(['', 'asc', 'DESC'])}" for field in order)
    return query


def _condition(random: Random, depth: int) -> str:
    kind = random.random()
    if depth == 0 or kind < 0.4:
        return _comparison(random)
    if kind < 0.6:
        return f"NOT {random.choice([_comparison(random), f'({_condition(random, depth - 1)})'])}"
    operator = random.choice(["and", "OR"])
    return f"({_condition(random, depth - 1)}) {operator} {_condition(random, depth - 1)}"


def _comparison(random: Random) -> str:
    field, kind = random.choice(_FIELDS), random.random()
    if kind < 0.4:
        return f"{field} {random.choice(['=', '!=', '<', '<=', '>', '>='])} {_literal(random, field)}"
    if kind < 0.55:
        return f"{field} IN ({', '.join(_literal(random, field) for _ in range(random.randint(1, 4)))})"
    if kind < 0.8:
        return f"{field} LIKE {_quoted(_pattern(random), chr(39))}"
    return f"{field} IS {random.choice(['', 'NOT '])}NULL"


def _literal(random: Random, field: str) -> str:
    match field:
        case "n" | "d":
            return random.choice(_NUMBERS)
        case "b":
            return random.choice(["true", "FALSE"])
        case "Status":
            return random.choice(["'RUNNING'", '"FAILED"', "'COMPLETED'"])
        case "FlowType":
            return random.choice(["'A'", "'B'", "'C'"])
        case "StepStatus":
            return random.choice(["'waiting'", "'queued'"])
        case "at" | "StartTime" | "CloseTime":
            return _quoted(random.choice(_INSTANTS), "'")
        case _:
            return _quoted(random.choice((*TEXTS, "f3", "same", "S", "E: x", "p", "s")), random.choice("'\""))


def _pattern(random: Random) -> str:
    first, second = (random.choice((*TEXTS, "f", "E", "o")).replace("\\", "\\\\").replace("%", "\\%") for _ in range(2))
    return random.choice(
        [f"{first}%", f"%{first}", f"%{first}%", first, f"{first}%{second}", "%", f"{first}%%{second}%"]
    )


def _quoted(text: str, quote: str) -> str:
    return quote + text.replace(quote, quote * 2) + quote
