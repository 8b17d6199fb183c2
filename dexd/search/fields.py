"""Which fields a query may name, and what values they have [SEARCH-3]."""

from collections.abc import Mapping
from enum import Enum

import msgspec

from dexd.core.index_values import IndexType
from dexd.core.values import FlowStatus


class Kind(Enum):
    """What values a field has, which decides what it may be compared with."""

    TEXT = "text"
    WORDS = "words"
    INT = "int"
    DOUBLE = "double"
    BOOL = "bool"
    INSTANT = "instant"


EXPECTED: Mapping[Kind, str] = {
    Kind.TEXT: "a string in quotes",
    Kind.WORDS: "a string of words in quotes",
    Kind.INT: "a number",
    Kind.DOUBLE: "a number",
    Kind.BOOL: "true or false",
    Kind.INSTANT: "an RFC 3339 instant in quotes, as '2026-03-01T12:00:00Z'",
}
"""What a literal must be to be compared with a field."""


class StepStatus(Enum):
    """How the active Steps of a Flow stand, as StepStatus says it."""

    WAITING = "waiting"
    BACKOFF = "backoff"
    RUNNING = "running"
    QUEUED = "queued"
    WAITING_LIMIT = "waiting_limit"


class Field(msgspec.Struct, frozen=True):
    """A field of the catalog."""

    name: str
    kind: Kind
    is_many: bool = False
    """Whether it has any number of values; all others have one or none."""
    domain: tuple[str, ...] = ()
    """The only values it can have, if they are known."""
    fraction_digits: int = 0
    """Of an INSTANT: digits of the second that a value has."""
    is_index_key: bool = False


FLOW_ID = Field("FlowId", Kind.TEXT)
RUN_ID = Field("RunId", Kind.TEXT)
FLOW_TYPE = Field("FlowType", Kind.TEXT)
STATUS = Field(
    "Status", Kind.TEXT, domain=tuple(status.name for status in FlowStatus if status.name != "CONTINUED_AS_NEW")
)
START_TIME = Field("StartTime", Kind.INSTANT, fraction_digits=3)
CLOSE_TIME = Field("CloseTime", Kind.INSTANT, fraction_digits=3)
PARENT_FLOW_ID = Field("ParentFlowId", Kind.TEXT)
SCHEDULE_ID = Field("ScheduleId", Kind.TEXT)
ACTIVE_STEP_TYPES = Field("ActiveStepTypes", Kind.TEXT, is_many=True)
STEP_STATUS = Field("StepStatus", Kind.TEXT, is_many=True, domain=tuple(status.value for status in StepStatus))
LAST_ERROR = Field("LastError", Kind.TEXT)

SYSTEM_FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (
        FLOW_ID,
        RUN_ID,
        FLOW_TYPE,
        STATUS,
        START_TIME,
        CLOSE_TIME,
        PARENT_FLOW_ID,
        SCHEDULE_ID,
        ACTIVE_STEP_TYPES,
        STEP_STATUS,
        LAST_ERROR,
    )
}

VOLATILE_FIELDS = (ACTIVE_STEP_TYPES.name, STEP_STATUS.name, LAST_ERROR.name)
"""What changes with every Step, and is brought up to date when somebody asks."""

GROUP_FIELDS: Mapping[str, Field] = {field.name: field for field in (STATUS, FLOW_TYPE, STEP_STATUS)}
"""What counts can be grouped by [SEARCH-8]."""

_KINDS = {
    IndexType.KEYWORD: Kind.TEXT,
    IndexType.FULL_TEXT: Kind.WORDS,
    IndexType.KEYWORD_ARRAY: Kind.TEXT,
    IndexType.INT: Kind.INT,
    IndexType.DOUBLE: Kind.DOUBLE,
    IndexType.BOOL: Kind.BOOL,
    IndexType.DATETIME: Kind.INSTANT,
}


def index_field(key: str, type_: IndexType) -> Field:
    """The field of an index key."""
    return Field(key, _KINDS[type_], type_ is IndexType.KEYWORD_ARRAY, fraction_digits=6, is_index_key=True)
