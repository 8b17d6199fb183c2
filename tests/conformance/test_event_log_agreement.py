"""Memory and SQLite answer every question alike, whatever was appended before, refused batches included."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from dexd.log.errors import LogError, SequenceConflictError
from dexd.log.event_log import Batch, EventLog, Removal, RunFilter, RunRow, Snapshot, StoredEvent, StreamRow, TimerRow
from dexd.log.memory_log import MemoryLog
from dexd.log.sqlite_log import SqliteLog

STREAMS = st.integers(min_value=1, max_value=6)
FLOW_IDS = st.sampled_from(["a", "ab", "b%", "ß"])
STEP_IDS = st.sampled_from(["A-1", "A-2"])
KINDS = st.sampled_from(["FlowStarted", "StepScheduled", "FlowClosed"])
PAYLOADS = st.binary(max_size=8)


class LogMachine(RuleBasedStateMachine):
    """Does the same to both logs. A refused batch must be refused by both, with the same error."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self._path = Path(self._directory.name) / "log.db"
        self.memory = MemoryLog()
        self.sqlite = SqliteLog.open(self._path)
        self.versions: dict[int, int] = {}
        self.rows: dict[int, RunRow] = {}
        self.gone: set[int] = set()
        """Streams of removed runs, to which nothing is appended any more."""

    @initialize(flow_ids=st.lists(FLOW_IDS, min_size=6, max_size=6), ordinals=st.lists(st.integers(1, 3), min_size=6))
    def choose_runs(self, flow_ids: list[str], ordinals: list[int]) -> None:
        """What names a run never changes, so it is drawn once."""
        self.names = {number: (flow_ids[number - 1], ordinals[number - 1]) for number in range(1, 7)}

    @rule(data=st.data(), streams=st.lists(STREAMS, max_size=8), changed=st.sets(STREAMS), folded=st.sets(STREAMS))
    def append(self, data: st.DataObject, streams: list[int], changed: set[int], folded: set[int]) -> None:
        streams = [stream_id for stream_id in streams if stream_id not in self.gone]
        changed, folded = changed - self.gone, folded - self.gone
        last_seq = self.memory.last_seq
        versions = dict(self.versions)
        events = []
        for seq, stream_id in enumerate(streams, last_seq + 1):
            versions[stream_id] = versions.get(stream_id, 0) + 1
            kind, payload = data.draw(KINDS), data.draw(PAYLOADS)
            events.append(StoredEvent(seq, stream_id, versions[stream_id], 1_000 + seq, kind, 1, payload))
        rows = [self._changed_row(data, stream_id) for stream_id in sorted(changed)]
        snapshots = [Snapshot(stream, versions.get(stream, 0), 1, data.draw(PAYLOADS)) for stream in sorted(folded)]
        timers = [
            TimerRow(stream_id, step_id, data.draw(st.integers(0, 3)))
            for stream_id, step_id in data.draw(st.sets(st.tuples(STREAMS, STEP_IDS)).map(sorted))
            if stream_id not in self.gone
        ]
        others = [
            StreamRow(
                100 + number, "schedule", f"s{number}", 1, 5, data.draw(st.booleans()), data.draw(st.integers(0, 3))
            )
            for number in sorted(data.draw(st.sets(st.integers(1, 3))))
        ]
        self._do(Batch(last_seq, events, rows, snapshots, timers, others))
        self.versions = versions
        self.rows.update((row.stream_id, row) for row in rows)

    @rule(streams=st.sets(STREAMS, min_size=1), expires_at=st.integers(0, 3))
    def remove(self, streams: set[int], expires_at: int) -> None:
        """[KEEP-1, ID-10]"""
        rows = [self.rows.pop(stream_id) for stream_id in sorted(streams & self.rows.keys())]
        removals = [Removal(row.stream_id, row.flow_id, row.ordinal, expires_at) for row in rows]
        self._do(Batch(self.memory.last_seq, (), removals=removals))
        self.gone.update(row.stream_id for row in rows)

    @rule(rows_max=st.integers(1, 5))
    def remove_some(self, rows_max: int) -> None:
        assert self.memory.remove_some(rows_max) == self.sqlite.remove_some(rows_max)

    @rule(until=st.integers(1, 3))
    def forget_ordinals(self, until: int) -> None:
        self._do(Batch(self.memory.last_seq, (), forget_ordinals_until=until))

    @rule(offset=st.integers(-2, 2).filter(bool))
    def append_elsewhere(self, offset: int) -> None:
        expected_seq = self.memory.last_seq + offset
        assert self._refused(Batch(expected_seq, [StoredEvent(expected_seq + 1, 1, 99, 1, "FlowClosed", 1, b"")]))

    @rule(stream_id=STREAMS)
    def append_a_version_twice(self, stream_id: int) -> None:
        version = self.versions.get(stream_id)
        if version is not None and stream_id not in self.gone:
            last_seq = self.memory.last_seq
            new = StoredEvent(last_seq + 1, 7, 1, 1, "FlowStarted", 1, b"")
            old = StoredEvent(last_seq + 2, stream_id, version, 1, "FlowStarted", 1, b"")
            assert self._refused(Batch(last_seq, [new, old]))

    @rule(stream_id=STREAMS)
    def append_a_run_id_twice(self, stream_id: int) -> None:
        row = self.rows.get(stream_id)
        if row is not None:
            last_seq = self.memory.last_seq
            new = StoredEvent(last_seq + 1, 7, 1, 1, "FlowStarted", 1, b"")
            assert self._refused(Batch(last_seq, [new], [msgspec.structs.replace(row, stream_id=7)]))

    @rule(number=st.integers(1, 3), is_closed=st.booleans())
    def append_a_name_twice(self, number: int, is_closed: bool) -> None:
        last_seq = self.memory.last_seq
        row = StreamRow(200, "schedule", f"s{number}", 1, 5, is_closed)
        open_names = {stored.row.name for stored in self.memory.open_streams() if stored.row.stream_id < 200}
        if not is_closed and row.name in open_names:
            assert self._refused(Batch(last_seq, [], streams=[row]))

    @rule(name=st.sampled_from(["s1", "s2", "s9"]), before=st.integers(0, 103), limit=st.integers(0, 3))
    def read_other_streams(self, name: str, before: int, limit: int) -> None:
        for log in (self.memory, self.sqlite):
            assert list(log.open_streams()) == list(self.memory.open_streams())
            assert log.stream_by_name("schedule", name) == self.memory.stream_by_name("schedule", name)
            listed = list(self.memory.list_streams("schedule", before, limit))
            assert list(log.list_streams("schedule", before, limit)) == listed
            assert list(log.list_streams("other", before, limit)) == []
            closed = list(self.memory.closed_streams(limit, (1, before), 9))
            assert list(log.closed_streams(limit, (1, before), 9)) == closed

    @rule()
    def restart(self) -> None:
        self.sqlite.close()
        self.sqlite = SqliteLog.open(self._path)

    @rule(
        selection=st.builds(
            RunFilter,
            flow_type=st.sampled_from(["", "Order"]),
            status=st.integers(0, 2),
            flow_id_prefix=st.sampled_from(["", "a", "b%", "ß", "x"]),
            before_stream_id=st.integers(0, 7),
        ),
        limit=st.integers(0, 7),
    )
    def list_runs(self, selection: RunFilter, limit: int) -> None:
        assert list(self.memory.list_runs(selection, limit)) == list(self.sqlite.list_runs(selection, limit))

    @rule(
        stream_id=STREAMS,
        from_version=st.integers(0, 20),
        limit=st.integers(0, 20),
        types=st.sets(KINDS).map(sorted),
    )
    def read(self, stream_id: int, from_version: int, limit: int, types: list[str]) -> None:
        pages = [list(log.read_stream(stream_id, from_version, limit, types)) for log in (self.memory, self.sqlite)]
        assert pages[0] == pages[1]
        pages = [list(log.read_all(from_version, limit)) for log in (self.memory, self.sqlite)]
        assert pages[0] == pages[1]

    @invariant()
    def logs_agree(self) -> None:
        assert list(_facts(self.memory)) == list(_facts(self.sqlite))

    def teardown(self) -> None:
        self.sqlite.close()
        self._directory.cleanup()

    def _changed_row(self, data: st.DataObject, stream_id: int) -> RunRow:
        flow_id, ordinal = self.names[stream_id]
        status = data.draw(st.integers(1, 2))
        closed_at = 0 if status == 1 else 5_000
        row = RunRow(stream_id, f"run-{stream_id}", flow_id, ordinal, "Order", status, 1_000, closed_at)
        row = msgspec.structs.replace(row, start_request_id=f"request-{stream_id}")
        return msgspec.structs.replace(row, error_type=data.draw(st.integers(0, 2)), error_message=data.draw(KINDS))

    def _do(self, batch: Batch) -> None:
        self.memory.append(batch)
        self.sqlite.append(batch)

    def _refused(self, batch: Batch) -> bool:
        return all(isinstance(_error_of(log, batch), SequenceConflictError) for log in (self.memory, self.sqlite))


def _error_of(log: EventLog, batch: Batch) -> LogError | None:
    try:
        log.append(batch)
    except LogError as error:
        return error
    return None


def _facts(log: EventLog) -> Iterable[object]:
    yield log.last_seq, log.last_stream_id, log.last_at
    yield list(log.read_all(1, 10_000))
    yield list(log.active_runs())
    yield log.removed_events, list(log.streams_leaving())
    yield [log.has_expired_ordinals(until) for until in range(4)]
    yield log.flow_ids_in_use(["a", "ab", "b%", "ß"])
    yield list(log.closed_runs(5_000, (0, 0), 3)), list(log.closed_runs(5_000, (5_000, 2), 10))
    for flow_id in ("a", "ab", "b%", "ß"):
        yield log.latest_run(flow_id)
        yield list(log.run_rows(flow_id)), log.last_ordinal(flow_id)
        yield [log.run_by_start(flow_id, f"request-{stream_id}") for stream_id in range(1, 8)]
    for stream_id in range(1, 8):
        yield log.run_by_id(f"run-{stream_id}"), log.is_retained(stream_id)
        yield list(log.pending_timers(stream_id))
    yield list(log.list_runs(RunFilter(), 10))


@pytest.mark.slow
def test_memory_and_sqlite_agree() -> None:
    """[ARCH-15]"""
    # A quarter of the profile's examples, since each step waits for the disk.
    examples = settings().max_examples // 4
    run_state_machine_as_test(LogMachine, settings=settings(stateful_step_count=15, max_examples=examples))
