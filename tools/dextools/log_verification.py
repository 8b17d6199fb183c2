"""Checks a whole log offline: order, replay, snapshots, projections [SURF-23, INV-8].

Everything is compared with what folding the events from the first one gives, because the events are the truth and all
else is derived from them.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from dexd.codec.event_codec import is_of_run
from dexd.codec.state_codec import from_snapshot, stream_from_snapshot, to_snapshot, to_stream_snapshot
from dexd.core.events import Event, FlowClosed, FlowContinued, FlowStarted
from dexd.core.flow.carrying import to_carried
from dexd.core.flow.evolve import evolve
from dexd.core.flow.parking import is_quiet
from dexd.core.flow.state import RunState, StepPhase
from dexd.core.flow.transitions import is_flow_transition, is_step_transition
from dexd.core.ids import RunId, StepExecutionId
from dexd.core.outcome import RecordedEvent
from dexd.core.streams import StreamKind, StreamState, evolve_stream, summary_of
from dexd.core.values import FlowStatus
from dexd.engine.batch import row_of_stream
from dexd.engine.parking_lot import parking_row
from dexd.engine.pending_timers import timer_rows
from dexd.engine.search_rows import index_rows
from dexd.log.errors import LogDamagedError
from dexd.log.event_log import EventLog, RunRow, Snapshot, StoredEvent, StoredRun, StoredStream
from dexd.log.parking import ChildWait
from dexd.log.search_sql import STEP_KEYS
from dextools.log_inspection import PAGE_EVENTS, listed_runs, listed_streams, recorded_events, recorded_stream_events

FAULTS_MAX = 1_000
"""Faults listed by name; a log that has more is not repaired by reading about them."""


class Fault(msgspec.Struct, frozen=True):
    """Something that must not be."""

    where: str
    """The run, or the sequence number, it was found at."""
    text: str


@dataclass
class LogReport:
    """What was checked and what was found."""

    events: int = 0
    runs: int = 0
    streams: int = 0
    """Streams that are not runs', as those of schedules."""
    snapshots: int = 0
    parked: int = 0
    """Open runs that are on disk only while the server runs."""
    parked_waits: int = 0
    missing_events: int = 0
    """Sequence numbers that no event has: those of removed runs [KEEP-1]."""
    first_missing: int = 0
    fault_count: int = 0
    faults: list[Fault] = field(default_factory=list)
    """The first of them."""
    carried: dict[RunId, bytes] = field(default_factory=dict)
    """What runs that are looked at later must begin with, as a digest."""

    def miss(self, expected_seq: int, found_seq: int) -> None:
        """Note the numbers that are skipped."""
        if found_seq > expected_seq:
            self.missing_events += found_seq - expected_seq
            self.first_missing = self.first_missing or expected_seq

    def add(self, where: str, text: str) -> None:
        """Note a fault."""
        self.fault_count += 1
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(Fault(where, text))


def verify_log(log: EventLog, advance: Callable[[int], None]) -> LogReport:
    """Check everything.

    Args:
        log: What to check.
        advance: Told now and then how many more events were read; every event is read twice.
    """
    report = LogReport()
    removed = log.removed_events
    leaving = frozenset(log.streams_leaving())
    of_runs: set[int] = set()
    last_versions = _verify_order(log, report, leaving, of_runs, advance)
    # On the log of a running server more may be removed while it is read.
    if not removed <= report.missing_events <= log.removed_events:
        missing = f"{report.missing_events} sequence numbers are missing, the first is {report.first_missing}"
        report.add("log", f"{missing}; {removed} events were removed")
    for row in listed_runs(log):
        if row.stream_id not in last_versions:
            report.add(row.run_id, "the projection lists the run, the log has no event of it")
    for kind in StreamKind:
        for stream in listed_streams(log, kind):
            if stream.stream_id not in last_versions:
                report.add(f"{kind} {stream.name!r}", "the projection lists it, the log has no event of it")
    for stream_id, version in last_versions.items():
        if stream_id in of_runs:
            report.runs += 1
            _verify_run(log, stream_id, report)
        else:
            report.streams += 1
            _verify_stream(log, stream_id, report)
        advance(version)
    counts = log.parked_counts()
    if (counts.runs, counts.waits) != (report.parked, report.parked_waits):
        text = f"{counts} are parked according to the index, {report.parked} runs with {report.parked_waits} waits"
        report.add("log", f"{text} according to the runs")
    return report


def _verify_order(
    log: EventLog, report: LogReport, leaving: frozenset[int], of_runs: set[int], advance: Callable[[int], None]
) -> dict[int, int]:
    """Check that numbers ascend and time never runs back [TIMER-6]; gives the last version of each retained stream.

    Adds to `of_runs` the streams of runs.

    Removed runs leave gaps in the numbers, and may be half gone; imported ones have instants of another log.
    """
    last_versions: dict[int, int] = {}
    imported = frozenset(log.imported_streams())
    expected_seq, last_at = 1, 0
    for stored in _whole_log(log, advance):
        where = f"seq {stored.seq}"
        if stored.seq < expected_seq:
            report.add(where, f"expected sequence number {expected_seq} or a later one")
        report.miss(expected_seq, stored.seq)
        expected_seq = stored.seq + 1
        report.events += 1
        if stored.stream_id in leaving:
            continue
        if stored.stream_id not in imported:
            if stored.at < last_at:
                report.add(where, f"its instant {stored.at} is before that of the event before it, {last_at}")
            last_at = stored.at
        version = last_versions.get(stored.stream_id, 0) + 1
        if stored.version != version:
            report.add(where, f"stream {stored.stream_id} has version {stored.version}, expected {version}")
        if version == 1 and is_of_run(stored):
            of_runs.add(stored.stream_id)
        last_versions[stored.stream_id] = stored.version
    last_seq = log.last_seq
    if last_seq < expected_seq - 1:
        report.add("log", f"its last sequence number is {last_seq}, the last event has {expected_seq - 1}")
    report.miss(expected_seq, last_seq + 1)
    return last_versions


def _verify_run(log: EventLog, stream_id: int, report: LogReport) -> None:
    """Fold a run from its first event, and compare its snapshot on the way and its row at the end."""
    state: RunState | None = None
    found: StoredRun | None = None
    try:
        for recorded in recorded_events(log, stream_id):
            if state is None and isinstance(recorded.event, FlowStarted):
                found = log.run_by_id(recorded.event.run_id)
            state = _checked_fold(state, recorded, report)
            if found is not None and found.snapshot is not None and found.snapshot.version == recorded.version:
                _verify_snapshot(found.snapshot, state, report)
    except (LogDamagedError, LookupError, TypeError, ValueError) as error:
        # What a broken log does to decoding and to the fold.
        last = 0 if state is None else state.version
        report.add(f"stream {stream_id}", f"replay stops after event {last}: {error!r}")
        return
    assert state is not None, "the stream has events"
    if found is None:
        report.add(state.run_id, "the log has events of the run, the projection does not list it")
        return
    if found.snapshot is not None and found.snapshot.version > state.version:
        report.add(state.run_id, f"its snapshot is of event {found.snapshot.version}, its last is {state.version}")
    for name, stored, folded in _differences(found.row, state):
        report.add(state.run_id, f"the projection says {name} is {stored!r}, replay says {folded!r}")
    _verify_timers(log, state, report)
    _verify_index(log, state, report)
    _verify_parking(log, found, state, report)


def _verify_parking(log: EventLog, found: StoredRun, state: RunState, report: LogReport) -> None:
    """A parked run is at rest, its snapshot is of its last event, and its row says when it wakes up [ARCH-11]."""
    if not found.is_parked:
        return
    report.parked += 1
    stored = log.parking_of(state.stream_id)
    report.parked_waits += len(stored.waits)
    if not is_quiet(state):
        report.add(state.run_id, "the projection says that it is parked, but it is at work or has ended")
    if found.snapshot is None or found.snapshot.version != state.version:
        last = "none" if found.snapshot is None else f"of event {found.snapshot.version}"
        report.add(state.run_id, f"it is parked after event {state.version}, its snapshot is {last}")
    expected = parking_row(state)
    if stored.wakes_at != expected.wakes_at:
        text = f"the projection says that it wakes up at {stored.wakes_at}, replay says {expected.wakes_at}"
        report.add(state.run_id, text)
    if sorted(stored.waits, key=_place) != sorted(expected.waits, key=_place):
        report.add(state.run_id, f"the projection says that it waits for {stored.waits}, replay says {expected.waits}")


def _place(wait: ChildWait) -> tuple[str, int]:
    return wait.step_execution_id, wait.number


def _verify_stream(log: EventLog, stream_id: int, report: LogReport) -> None:
    """Fold a stream that is not a run's from its first event, and compare its snapshot on the way and its row."""
    state: StreamState | None = None
    found: StoredStream | None = None
    try:
        for recorded in recorded_stream_events(log, stream_id):
            is_first = state is None
            state = evolve_stream(state, recorded)
            if is_first:
                summary = summary_of(state)
                found = log.stream_by_name(summary.kind, summary.name)
            snapshot = None if found is None or found.row.stream_id != stream_id else found.snapshot
            if snapshot is not None and snapshot.version == recorded.version:
                _verify_stream_snapshot(snapshot, state, report)
    except (LogDamagedError, LookupError, TypeError, ValueError) as error:
        last = 0 if state is None else state.version
        report.add(f"stream {stream_id}", f"replay stops after event {last}: {error!r}")
        return
    assert state is not None, "the stream has events"
    row = row_of_stream(state)
    stored = next(iter(log.list_streams(row.kind, stream_id + 1, 1)), None)
    if stored != row:
        report.add(f"{row.kind} {row.name!r}", f"the projection says {stored}, replay says {row}")


def _verify_stream_snapshot(snapshot: Snapshot, state: StreamState, report: LogReport) -> None:
    report.snapshots += 1
    summary = summary_of(state)
    restored = stream_from_snapshot(summary.kind, snapshot)
    if restored is not None and to_stream_snapshot(state).payload != snapshot.payload:
        where = f"{summary.kind} {summary.name!r}"
        report.add(where, f"its snapshot of event {snapshot.version} differs from replay")


def _verify_timers(log: EventLog, state: RunState, report: LogReport) -> None:
    """Compare the pending timers, Step execution by Step execution."""
    stored = {row.step_execution_id: row.at for row in log.pending_timers(state.stream_id)}
    folded = {row.step_execution_id: row.at for row in timer_rows(state)}
    for step_id in dict.fromkeys((*stored, *folded)):
        if stored.get(step_id) != folded.get(step_id):
            text = f"the projection says {step_id} wakes up at {stored.get(step_id)}, replay says {folded.get(step_id)}"
            report.add(state.run_id, text)


def _verify_index(log: EventLog, state: RunState, report: LogReport) -> None:
    """Compare index values key by key [ATTR-11]; what Steps do is only as of the last search that looked at it."""
    newest = next(row for row in log.run_rows(state.flow_id) if row.ordinal == state.ordinal)
    is_shown = newest.stream_id == state.stream_id
    stored = {row.key: row for row in log.index_rows(state.stream_id)}
    folded = {row.key: row for row in index_rows(state, log.index_keys())} if is_shown else {}
    for key in dict.fromkeys((*stored, *folded)):
        is_of_steps = key in STEP_KEYS.values()
        if is_of_steps and state.is_open and is_shown:
            continue
        if stored.get(key) != folded.get(key):
            report.add(state.run_id, f"the index says {stored.get(key)} of {key!r}, replay says {folded.get(key)}")


def _checked_fold(state: RunState | None, recorded: RecordedEvent, report: LogReport) -> RunState:
    """Fold an event, and hold what it did to the transition table [ARCH-2]; also what runs hand to each other."""
    event = type(recorded.event)
    _verify_link(state, recorded.event, report)
    status, phases = (None, {}) if state is None else (state.status, _phases(state, recorded.event))
    folded = evolve(state, recorded)
    if not is_flow_transition(status, event, folded.status):
        report.add(folded.run_id, f"event {recorded.version}, {event.__name__}, is illegal in status {_name(status)}")
    for step_id, before in phases.items():
        step = folded.steps.get(step_id)
        if not is_step_transition(before, event, None if step is None else step.phase):
            text = f"event {recorded.version}, {event.__name__}, is illegal for {step_id} in phase {_name(before)}"
            report.add(folded.run_id, text)
    return folded


def _verify_link(state: RunState | None, event: Event, report: LogReport) -> None:
    """A run begins with the very state that the one before had when it was continued [ROLL-3]."""
    if state is None:
        return
    if isinstance(event, FlowClosed) and event.status is FlowStatus.CONTINUED_AS_NEW:
        report.carried[event.next_run_id] = hashlib.sha256(to_carried(state)).digest()
    elif isinstance(event, FlowContinued):
        # Without the run before, which may have left the log, there is nothing to compare with.
        digest = report.carried.pop(state.run_id, None)
        if digest is not None and digest != hashlib.sha256(event.carried).digest():
            report.add(state.run_id, f"it begins with another state than run {event.previous_run_id} had at its end")


def _phases(state: RunState, event: Event) -> dict[StepExecutionId, StepPhase | None]:
    """Phases of the Step executions that an event concerns: the one it names, or all when the Flow closes."""
    if isinstance(event, FlowClosed):
        return {step_id: step.phase for step_id, step in state.steps.items()}
    step_id: StepExecutionId | None = getattr(event, "step_execution_id", None)
    if step_id is None:
        return {}
    step = state.steps.get(step_id)
    return {step_id: None if step is None else step.phase}


def _name(member: FlowStatus | StepPhase | None) -> str:
    return "none" if member is None else member.name


def _verify_snapshot(snapshot: Snapshot, state: RunState, report: LogReport) -> None:
    report.snapshots += 1
    restored = from_snapshot(snapshot)
    # None is a snapshot of another release's form, which every reader ignores.
    # Bytes are compared, because the order inside dicts is part of behaviour and equality does not see it.
    if restored is not None and to_snapshot(state).payload != snapshot.payload:
        names = [name for name in state.__struct_fields__ if getattr(restored, name) != getattr(state, name)]
        what = ", ".join(names) or "the order of something"
        report.add(state.run_id, f"its snapshot of event {snapshot.version} differs from replay in {what}")


def _differences(row: RunRow, state: RunState) -> Iterator[tuple[str, object, object]]:
    folded: dict[str, object] = {
        "stream_id": state.stream_id,
        "run_id": state.run_id,
        "flow_id": state.flow_id,
        "ordinal": state.ordinal,
        "flow_type": state.flow_type,
        "status": int(state.status),
        "started_at": state.started_at,
        "closed_at": state.closed_at,
        "error_type": int(state.error_type),
        "error_message": state.error_message,
        "start_request_id": state.start_request_id,
        "first_run_id": state.first_run_id,
        "chain_id": "" if state.chain_id == state.run_id else state.chain_id,
    }
    for name, value in folded.items():
        if getattr(row, name) != value:
            yield name, getattr(row, name), value


def _whole_log(log: EventLog, advance: Callable[[int], None]) -> Iterator[StoredEvent]:
    seq = 1
    while page := log.read_all(seq, PAGE_EVENTS):
        yield from page
        seq = page[-1].seq + 1
        advance(len(page))
