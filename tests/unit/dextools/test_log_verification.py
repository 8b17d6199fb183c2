"""`dex log verify` and `dex log replay` on logs that are whole, and on logs that are not [SURF-23, INV-8]."""

from collections.abc import Iterator, Sequence

import msgspec
import pytest

from dexd.codec.event_codec import append_stored
from dexd.core.commands import Command, PublishMessages, StartFlow, StopFlow
from dexd.core.config import KernelConfig
from dexd.core.events import TimerFired
from dexd.core.ids import FlowId, RequestId, RunId, StepExecutionId, StreamId
from dexd.core.kernel import Kernel
from dexd.core.outcome import RecordedEvent
from dexd.core.values import StepPlan, StopType
from dexd.engine.batch import OpenBatch
from dexd.log.event_log import Batch, Removal, RunRow, StoredEvent
from dexd.log.memory_log import MemoryLog
from dextools.log_inspection import find_run, history, listed_runs, state_after
from dextools.log_verification import LogReport, verify_log
from dextools.state_document import state_document


def start(flow_id: str) -> StartFlow:
    step = StepPlan("Begin", b'{"n":9007199254740993}', has_wait_for=False)
    return StartFlow(FlowId(flow_id), "Order", RunId(f"run-{flow_id}"), 7, RequestId(f"start-{flow_id}"), b"d", step)


def publish(flow_id: str, value: bytes) -> PublishMessages:
    return PublishMessages(FlowId(flow_id), None, "news", (value,), RequestId(f"publish-{value!r}"), b"d")


def stop(flow_id: str) -> StopFlow:
    return StopFlow(FlowId(flow_id), None, StopType.FAIL, "no more", RequestId("stop"), b"d")


WORK: Sequence[Command] = (start("a"), start("b"), publish("a", b"1"), publish("b", b'"x"'), stop("a"))


def written(commands: Sequence[Command] = WORK, *, snapshots: bool = True) -> MemoryLog:
    """What the kernel decides about the commands, appended as the engine does it, one batch a command."""
    log, kernel = MemoryLog(), Kernel(KernelConfig(), last_stream_id=0)
    for now, command in enumerate(commands, start=1_000):
        batch = OpenBatch(log.last_seq)
        for recorded in kernel.handle(command, now=now).events:
            batch.record([recorded])
        for run in kernel.runs.values():
            batch.note_run(run)
            if snapshots:
                batch.note_snapshot(run)
        log.append(batch.to_append())
    return log


class AlteredLog(MemoryLog):
    """A log of which something was changed behind the server's back."""

    def __init__(self, events: Sequence[StoredEvent], runs: Sequence[RunRow]) -> None:
        super().__init__()
        self._altered = list(events)
        self.append(Batch(0, written().read_all(1, 1_000), runs))

    def read_all(self, from_seq: int, limit: int) -> Sequence[StoredEvent]:
        return [event for event in self._altered if event.seq >= from_seq][:limit]

    def read_stream(self, stream_id: int, from_version: int, limit: int, types: object = ()) -> Sequence[StoredEvent]:
        found = [event for event in self._altered if event.stream_id == stream_id and event.version >= from_version]
        return found[:limit]


def altered(*, events: Sequence[StoredEvent] | None = None, runs: Sequence[RunRow] | None = None) -> AlteredLog:
    whole = written()
    return AlteredLog(
        whole.read_all(1, 1_000) if events is None else events,
        list(listed_runs(whole)) if runs is None else runs,
    )


def faults_of(log: MemoryLog) -> list[str]:
    report = verified(log)
    return [f"{fault.where}: {fault.text}" for fault in report.faults]


def verified(log: MemoryLog) -> LogReport:
    return verify_log(log, lambda _: None)


def test_a_whole_log_is_clean_and_everything_was_looked_at() -> None:
    """[INV-8] replay, snapshots and projection agree."""
    log = written()
    report = verified(log)
    assert (report.faults, report.fault_count) == ([], 0)
    assert (report.events, report.runs, report.snapshots) == (log.last_seq, 2, 2)


def test_progress_counts_every_event_twice() -> None:
    """[SURF-26] the bar ends where it should: once for the order, once for the fold."""
    log = written()
    counts: list[int] = []
    verify_log(log, counts.append)
    assert sum(counts) == 2 * log.last_seq


def test_a_missing_event_is_found_by_its_number_and_by_its_run() -> None:
    """[HIST-2] gap-free."""
    events = [event for event in written().read_all(1, 1_000) if event.seq != 2]
    faults = faults_of(altered(events=events))
    assert "log: 1 sequence numbers are missing, the first is 2; 0 events were removed" in faults
    assert any("stream 1 has version 3, expected 2" in fault for fault in faults)


def without_a(log: MemoryLog, rows_max: int) -> MemoryLog:
    """The log when run-a was removed, and so many of its events are deleted."""
    row = log.run_rows("a")[0]
    log.append(Batch(log.last_seq, (), removals=[Removal(row.stream_id, "a", 1, 0)]))
    log.remove_some(rows_max)
    return log


@pytest.mark.parametrize("rows_max", [1, 2, 100])
def test_keep_1_a_log_from_which_runs_were_removed_is_clean(rows_max: int) -> None:
    """[KEEP-1, SURF-23] Gaps are as many as were removed, and a run on its way out is no damage."""
    log = without_a(written(), rows_max)
    report = verified(log)
    assert (report.faults, report.missing_events, report.runs) == ([], min(rows_max, 5), 1)


def test_keep_1_an_event_that_is_missing_beside_the_removed_ones_is_found() -> None:
    left = [event for event in written().read_all(1, 100) if event.stream_id == 2 and event.version < 3]
    log = without_a(altered(events=left), 100)
    assert "log: 6 sequence numbers are missing, the first is 1; 5 events were removed" in faults_of(log)


def test_time_that_runs_back_is_found() -> None:
    """[TIMER-6] server time never runs backwards."""
    events = list(written().read_all(1, 1_000))
    events[-1] = msgspec.structs.replace(events[-1], at=1)
    assert any("its instant 1 is before" in fault for fault in faults_of(altered(events=events)))


def test_a_payload_that_cannot_be_read_ends_the_replay_of_its_run_only() -> None:
    """[ARCH-9] the other run is still checked."""
    events = list(written().read_all(1, 1_000))
    events[0] = msgspec.structs.replace(events[0], payload=b"\xc1")
    faults = faults_of(altered(events=events))
    assert faults[0].startswith("stream 1: replay stops after event 0")
    assert verified(altered(events=events)).runs == 2


@pytest.mark.parametrize(("name", "value"), [("status", 1), ("closed_at", 5), ("error_message", "other")])
def test_a_projection_that_differs_from_replay_is_found(name: str, value: object) -> None:
    """[ARCH-10] list, describe and history always agree."""
    runs = [
        msgspec.structs.replace(row, **{name: value}) if row.flow_id == "a" else row for row in listed_runs(written())
    ]
    (fault,) = faults_of(altered(runs=runs))
    assert fault.startswith(f"run-a: the projection says {name} is {value!r}")


def test_a_run_that_only_the_projection_or_only_the_log_has_is_found() -> None:
    """[ARCH-10] neither may know more than the other."""
    whole = written()
    of_a = [event for event in whole.read_all(1, 1_000) if event.stream_id == 1]
    assert any("run-b: the projection lists the run" in fault for fault in faults_of(altered(events=of_a)))
    rows = [row for row in listed_runs(whole) if row.flow_id == "a"]
    assert faults_of(altered(runs=rows)) == ["run-b: the log has events of the run, the projection does not list it"]


def test_a_snapshot_that_differs_from_replay_is_found() -> None:
    """[INV-8] snapshot + tail = full replay."""
    log = written()
    found = log.run_by_id("run-a")
    assert found is not None
    assert found.snapshot is not None
    other = written((start("a"), publish("a", b"2"), publish("a", b"3"), stop("a"))).run_by_id("run-a")
    assert other is not None
    assert other.snapshot is not None
    wrong = msgspec.structs.replace(other.snapshot, version=found.snapshot.version)
    log.append(Batch(log.last_seq, (), (), (wrong,)))
    (fault,) = faults_of(log)
    assert "differs from replay in" in fault
    assert "channels" in fault


def test_an_event_that_the_state_machine_does_not_allow_is_found() -> None:
    """[ARCH-2] an illegal step is an error of the log, even if the fold gets over it."""
    events = list(written().read_all(1, 1_000))
    scheduled = next(event for event in events if event.stream_id == 2 and event.type == "StepScheduled")
    fired = TimerFired(StepExecutionId("Begin-1"), 0)
    append_stored(events, [RecordedEvent(StreamId(2), scheduled.version + 2, 9_000, fired)], len(events))
    assert "run-b: event 4, TimerFired, is illegal for Begin-1 in phase READY" in faults_of(altered(events=events))


def test_a_run_is_replayed_to_any_of_its_events() -> None:
    """[SURF-23] `replay ID --to SEQ`; ID is a Flow ID or a run ID."""
    log = written()
    run = find_run(log, "a")
    assert run is not None
    assert find_run(log, "run-a") == run
    assert find_run(log, "nobody") is None
    early, late = state_after(log, run, 2), state_after(log, run, None)
    assert early is not None
    assert late is not None
    assert (early.status.name, early.channels) == ("RUNNING", {})
    assert (late.status.name, late.version) == ("FAILED", len(list(history(log, run))))
    assert state_after(log, run, late.version + 1) is None


def test_a_state_is_shown_with_its_values_exactly() -> None:
    """[VAL-3] no int64 becomes a double, enums have names, hashes stay out."""
    log = written((start("a"), publish("a", b"9007199254740993")))
    run = find_run(log, "a")
    assert run is not None
    state = state_after(log, run, None)
    assert state is not None
    document = msgspec.json.decode(msgspec.json.encode(state_document(state)))
    assert document["status"] == "RUNNING"
    assert document["channels"]["news"][0]["value"] == 9007199254740993
    assert document["steps"]["Begin-1"]["input"] == {"n": 9007199254740993}
    assert "start_digest" not in document


def test_a_history_offline_is_the_history_that_the_server_shows() -> None:
    """[HIST-2] same view, same event ids."""
    log = written()
    run = find_run(log, "a")
    assert run is not None
    kinds: Iterator[tuple[int, str]] = ((entry.event_id, entry.kind) for entry in history(log, run))
    assert list(kinds)[:2] == [(1, "FlowStarted"), (2, "StepScheduled")]
