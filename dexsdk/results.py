"""What calls give back: plain frozen data.

What every wait for a Flow gives is made of structs, since making a frozen dataclass takes ten times as long.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec

from dexsdk._codec import CodecRegistry, decode_value
from dexsdk.status import FlowErrorType, FlowStatus, StopOutcome

T = TypeVar("T")


@dataclass(frozen=True)
class RecoveryError:
    """The failure that a recovery Step, or an execute after a failed wait_for, sees [OPT-4]."""

    error_type: str
    """Class name of the exception, or the server's own reason, e.g. METHOD_TIMEOUT."""
    detail: str


@dataclass(frozen=True)
class FlowInfo:
    """How an execution, or one run of it, stands."""

    flow_id: str
    run_id: str
    flow_type: str
    status: FlowStatus
    started_at: datetime
    closed_at: datetime | None
    ordinal: int
    """Number of the execution among those of the Flow ID, from 1."""
    first_run_id: str
    """First run of the execution."""
    history_events: int
    parent_flow_id: str | None = None
    """The Flow that began it as a SubFlow [SUB-3]."""
    schedule_id: str | None = None
    """The schedule that began it [SCHED-2]."""


@dataclass(frozen=True)
class SearchFlowEntry(FlowInfo):
    """An execution that a search found [SEARCH-7]."""

    indexed_attributes: Mapping[str, Any] = field(default_factory=dict)
    """Index values by key: str, list of str, int, float, bool or datetime."""


@dataclass(frozen=True)
class SearchFlowsPage:
    """Executions in the order of the search [SEARCH-8]."""

    flows: list[SearchFlowEntry]
    next_page_token: str
    """For the page behind this one, with the same query; empty on the last page."""


@dataclass(frozen=True)
class FlowCount:
    """How many executions a query finds [SEARCH-8]."""

    total: int
    groups: Mapping[str, int]
    """How many have each value of ``group_by``, the largest first; one with several values counts in each."""


class StepCompletion(msgspec.Struct, frozen=True):
    """One completion output of a Flow [DEC-7]."""

    step_type: str
    step_execution_id: str
    value: bytes
    """The encoded output, or what stands for a large one until it is decoded."""
    codecs: CodecRegistry
    load: Callable[[bytes], bytes] | None = None
    """Gives a large output from where it lies; None when nothing is there to be loaded."""

    def decode(self, value_type: type[T]) -> T:
        """Give the output as a value; a large one is fetched now, by a Client's calls and in handlers [BLOB-2].

        Raises:
            ValueMappingError: it does not fit the type.
            DexServiceError: it is large and cannot be fetched.
        """
        data = self.value if self.load is None else self.load(self.value)
        value: T = decode_value(self.codecs.resolve(value_type), data, f"output of {self.step_execution_id!r}")
        return value

    def __eq__(self, other: object) -> bool:
        """Whether it is the same output; how it would be decoded does not count."""
        return isinstance(other, StepCompletion) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"StepCompletion(step_type={self.step_type!r}, step_execution_id={self.step_execution_id!r})"

    @property
    def _identity(self) -> tuple[str, str, bytes]:
        return self.step_type, self.step_execution_id, self.value


class FlowResult(msgspec.Struct, frozen=True):
    """How an execution ended, or how it stands while it runs."""

    status: FlowStatus
    error_type: FlowErrorType | None = None
    error_message: str | None = None
    completions: tuple[StepCompletion, ...] = ()
    """In the order in which they were accepted."""

    @property
    def is_terminal(self) -> bool:
        """Whether the execution is closed."""
        return self.status.is_terminal

    def single_output(self, value_type: type[T]) -> T:
        """Give the only output [DEC-7].

        Raises:
            ValueError: the Flow is not closed, or has no or several outputs.
        """
        if not self.is_terminal or len(self.completions) != 1:
            raise ValueError(
                f"single_output needs a closed Flow with one output, it is {self.status.value} "
                f"with {len(self.completions)}"
            )
        return self.completions[0].decode(value_type)


@dataclass(frozen=True)
class HistoryEvent:
    """One entry of a run's history [HIST-2]."""

    event_id: int
    """Gap-free from 1 in each run."""
    run_id: str
    at: datetime
    kind: str
    data: dict[str, Any]


@dataclass(frozen=True)
class HistoryPage:
    """Part of a run's history [HIST-5]."""

    events: tuple[HistoryEvent, ...]
    next_event_id: int | None
    """Where the next page begins; None when nothing follows yet."""


@dataclass(frozen=True)
class PendingMessage(Generic[T]):
    """A message that nobody has consumed [CHAN-8]."""

    message_id: str
    """Unique in the run; later messages have greater IDs [ID-13]."""
    value: T
    published_at: datetime


@dataclass(frozen=True)
class StopResult:
    """What a stop request did [STOP-2]."""

    outcome: StopOutcome
    status: FlowStatus
    """The status after the call."""


@dataclass(frozen=True)
class HealthInfo:
    """Answer of a health check."""

    condition: str
    """SERVING, or why not."""
    hostname: str
    duration: timedelta
    """How long the answer took."""
