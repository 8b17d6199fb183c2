"""What a checked query is evaluated on: the row of a run and its index rows as plain values."""

from collections.abc import Iterable

from dexd.core.index_values import IndexKeyTypes, IndexType
from dexd.core.values import FlowStatus
from dexd.log.event_log import FoundRun, IndexRow, RunRow
from dexd.log.search_sql import STEP_KEYS
from dexd.search import fields
from dexd.search.evaluation import Facts
from dexd.search.predicates import Scalar

_STEP_FIELDS = {key: name for name, key in STEP_KEYS.items()}


def facts_of(row: RunRow, indexed: Iterable[IndexRow], types: IndexKeyTypes) -> Facts:
    """Give the fields of a run that have values."""
    facts: dict[str, Scalar | tuple[str, ...]] = {
        fields.FLOW_ID.name: row.flow_id,
        fields.RUN_ID.name: row.run_id,
        fields.FLOW_TYPE.name: row.flow_type,
        fields.STATUS.name: FlowStatus(row.status).name,
        fields.START_TIME.name: row.started_at,
    }
    if row.closed_at:
        facts[fields.CLOSE_TIME.name] = row.closed_at
    for field, text in (
        (fields.PARENT_FLOW_ID, row.parent_flow_id),
        (fields.SCHEDULE_ID, row.schedule_id),
        (fields.LAST_ERROR, row.last_error),
    ):
        if text:
            facts[field.name] = text
    for entry in indexed:
        if entry.key in _STEP_FIELDS:
            facts[_STEP_FIELDS[entry.key]] = tuple(map(str, entry.values))
        elif types.get(entry.key) is IndexType.KEYWORD_ARRAY:
            facts[entry.key] = tuple(map(str, entry.values))
        else:
            facts[entry.key] = entry.values[0]
    return facts


def texts_bytes(found: FoundRun) -> int:
    """About how much a row takes in an answer."""
    row = found.listed.row
    size = 200 + len(row.flow_id.encode()) + len(row.error_message.encode()) + len(row.last_error.encode())
    for entry in found.indexed:
        size += len(entry.key)
        for value in entry.values:
            size += len(value.encode()) if isinstance(value, str) else 8
    return size
