"""What search reads of runs, as rows: index values with the events that change them, what Steps do when somebody asks.

Index values are written in the transaction of their event [ATTR-11]. What Steps do changes with every event, so it is
written for all runs that have changed since, in one batch, when a search looks at it, before it is answered [SEARCH-7];
and when a run leaves memory. In between a run costs nothing here.
"""

from collections.abc import Iterable

from dexd.core.flow.state import RunState, StepExecution, StepPhase
from dexd.core.index_values import IndexKeyTypes, IndexType, IndexWrite
from dexd.core.terms import ActiveStepSearchMode
from dexd.engine.batch import OpenBatch
from dexd.engine.index_keys import IndexKeys
from dexd.log.event_log import IndexRow
from dexd.log.search_sql import STEP_KEYS
from dexd.search.fields import ACTIVE_STEP_TYPES, STEP_STATUS, StepStatus

_STATUSES = {
    StepPhase.READY: StepStatus.QUEUED,
    StepPhase.RUNNING: StepStatus.RUNNING,
    StepPhase.BACKOFF: StepStatus.BACKOFF,
    StepPhase.WAITING: StepStatus.WAITING,
}
_STATUS_KEY = STEP_KEYS[STEP_STATUS.name]
_TYPES_KEY = STEP_KEYS[ACTIVE_STEP_TYPES.name]

_UNKNOWN = -1
"""Version of rows that a life before this one wrote, if any."""


class SearchRows:
    """Knows which rows of open runs are up to date."""

    __slots__ = ("_versions", "default_mode", "keys")

    def __init__(self, runs: Iterable[RunState], keys: IndexKeys, default_mode: ActiveStepSearchMode) -> None:
        """Begin with runs that were just recovered, whose rows may be of any age."""
        self.keys = keys
        self.default_mode = default_mode
        self._versions: dict[int, int] = {run.stream_id: _UNKNOWN for run in runs if run.is_open}
        """Version of the run that its rows show; a run without rows is not in it."""

    def run_came(self, run: RunState) -> None:
        """A parked run is in memory again; its rows are as it left them, and nothing has happened to it since."""
        self._versions[run.stream_id] = run.version

    def run_parks(self, run: RunState, batch: OpenBatch) -> None:
        """A run is about to leave memory: what it does must stand in the log as long as it is away."""
        if self._versions.get(run.stream_id) != run.version:
            self._write(run, batch)

    def run_left(self, stream_id: int) -> None:
        """A run is not in memory any more."""
        self._versions.pop(stream_id, None)

    def index_changed(self, run: RunState, changed: Iterable[IndexWrite], batch: OpenBatch) -> None:
        """Write the index values of these keys as they are now."""
        for entry in changed:
            self.keys.learn({entry.key: entry.type}, batch)
            batch.note_index(index_row(run, entry.key, self.keys.types))

    def run_started(self, run: RunState, batch: OpenBatch) -> None:
        """A run began, perhaps with everything that another one had."""
        self.index_changed(run, run.indexed.values(), batch)

    def run_closed(self, stream_id: int, batch: OpenBatch) -> None:
        """No Step is active any more."""
        if self._versions.pop(stream_id, None) is not None:
            for key in STEP_KEYS.values():
                batch.note_index(IndexRow(stream_id, key, ()))

    def changed(self, runs: Iterable[RunState]) -> list[RunState]:
        """The open runs among these whose rows are behind."""
        versions = self._versions
        return [run for run in runs if run.is_open and versions.get(run.stream_id) != run.version]

    def bring_up_to_date(self, runs: Iterable[RunState], batch: OpenBatch) -> None:
        """Write the rows of all runs that are behind."""
        for run in self.changed(runs):
            self._write(run, batch)

    def _write(self, run: RunState, batch: OpenBatch) -> None:
        for row in step_rows(run, self.default_mode):
            batch.note_index(row)
        if run.last_error is not None:
            batch.note_run(run)
        self._versions[run.stream_id] = run.version


def index_rows(run: RunState, types: IndexKeyTypes) -> list[IndexRow]:
    """All index values of a run."""
    rows = [index_row(run, key, types) for key in run.indexed]
    return [row for row in rows if row.values]


def index_row(run: RunState, key: str, types: IndexKeyTypes) -> IndexRow:
    """The value of a key; one of another type than the key's cannot be found by it, so there is none [ATTR-10]."""
    entry = run.indexed.get(key)
    known = types.get(key)
    value = None if entry is None or entry.type is not known else entry.value
    values = () if value is None else value if isinstance(value, tuple) else (value,)
    return IndexRow(run.stream_id, key, values, known is IndexType.FULL_TEXT)


def step_rows(run: RunState, default_mode: ActiveStepSearchMode) -> list[IndexRow]:
    """What the Steps of a run do; rows without values take away what was there."""
    statuses = dict.fromkeys(_STATUSES[step.phase].value for step in run.steps.values())
    types = dict.fromkeys(step.step_type for step in run.steps.values() if _is_shown(step, run, default_mode))
    return [
        IndexRow(run.stream_id, _STATUS_KEY, tuple(sorted(statuses))),
        IndexRow(run.stream_id, _TYPES_KEY, tuple(sorted(types))),
    ]


def _is_shown(step: StepExecution, run: RunState, default_mode: ActiveStepSearchMode) -> bool:
    """Whether ActiveStepTypes shows the Step [CFG-1]."""
    mode = None if run.config is None else run.config.active_step_search_mode
    match default_mode if mode is None else mode:
        case ActiveStepSearchMode.ALL:
            return True
        case ActiveStepSearchMode.WITH_WAIT_FOR:
            return step.has_wait_for
        case ActiveStepSearchMode.DISABLED:
            return False
