"""What every implementation of the EventLog port must do [ARCH-15]; the double is held to it as the real one is."""

from threading import Thread

import msgspec
import pytest

from dexd.log.errors import SequenceConflictError
from dexd.log.event_log import (
    Batch,
    BlobRow,
    EventLog,
    ListedRun,
    Projections,
    RunFilter,
    RunRow,
    Snapshot,
    StoredEvent,
    TimerRow,
    UploadRow,
)
from dexd.log.parking import ParkingRow
from tests.support.log_author import COMPLETED, RUNNING, LogAuthor, Restart, closed, run_row


def everything(log: EventLog) -> tuple[object, ...]:
    """All that a log shows."""
    rows = log.list_runs(RunFilter(), 1_000)
    return (
        log.last_seq,
        log.last_stream_id,
        log.last_at,
        list(log.read_all(1, 100_000)),
        list(rows),
        [log.run_by_id(listed.row.run_id) for listed in rows],
        [log.pending_timers(listed.row.stream_id) for listed in rows],
        list(log.active_runs()),
    )


# ---- parked runs -------------------------------------------------------------------------------------------------


def test_arch_11_parked_runs_are_read_by_their_snapshots(log: EventLog, author: LogAuthor) -> None:
    """By stream or by Flow ID, all of them at once; one that lacks its snapshot is not overlooked."""
    runs = [run_row(number, flow_id=f"f-{number}") for number in range(1, 5)]
    snapshots = [Snapshot(number, 1, 3, b"state of %d" % number) for number in (1, 2, 4)]
    batch = author.batch(*(author.event(number, "FlowStarted") for number in range(1, 5)), runs=runs)
    parking = [ParkingRow(number, is_parked=True) for number in (1, 2, 3)]
    log.append(msgspec.structs.replace(batch, snapshots=snapshots, parking=parking))
    expected = [*snapshots[:2], Snapshot(3, 0, 0, b"")]
    assert sorted(log.parked_runs([4, 3, 2, 1, 9]), key=_stream) == expected
    assert sorted(log.parked_runs_of(["f-3", "f-4", "f-2", "f-1", "unknown"]), key=_stream) == expected
    log.append(msgspec.structs.replace(author.batch(author.event(2)), parking=[ParkingRow(2, is_parked=False)]))
    assert log.parked_runs([2]) == []
    assert log.parked_runs_of(["f-1"]) == snapshots[:1]


def _stream(snapshot: Snapshot) -> int:
    return snapshot.stream_id


# ---- appending ---------------------------------------------------------------------------------------------------


def test_empty_log_ends_at_zero(log: EventLog) -> None:
    assert everything(log) == (0, 0, 0, [], [], [], [], [])


def test_appended_events_are_read_as_they_were_written(log: EventLog, author: LogAuthor) -> None:
    largest = StoredEvent(0, 2**62, 1, 2**53, "Ünïcödé", 2**31, b"\0\xff" * 10_000)
    batch = author.append(author.event(1), author.event(1, payload=b""), largest)
    assert list(log.read_all(1, 10)) == batch.events
    assert (log.last_seq, log.last_stream_id, log.last_at) == (3, 2**62, 2**53)


def test_batch_that_follows_another_end_is_fenced_off(log: EventLog, author: LogAuthor) -> None:
    """[ARCH-15]"""
    author.start(run_row(1), events=2)
    before = everything(log)
    for expected_seq in (0, 1, 3):
        event = StoredEvent(expected_seq + 1, 1, 3, 1, "StepScheduled", 1, b"")
        with pytest.raises(SequenceConflictError, match=str(expected_seq)):
            log.append(Batch(expected_seq, [event]))
    assert everything(log) == before


def test_events_without_gap_only(log: EventLog, author: LogAuthor) -> None:
    good, late = author.event(1), author.event(1)
    events = [msgspec.structs.replace(good, seq=1), msgspec.structs.replace(late, seq=3)]
    with pytest.raises(SequenceConflictError, match="3, not 2"):
        log.append(Batch(0, events))
    assert log.last_seq == 0


def test_version_that_exists_refuses_the_whole_batch(log: EventLog, author: LogAuthor) -> None:
    """[ARCH-4]: all of a batch or nothing, also when the last row of a statement is the bad one."""
    author.start(run_row(1))
    before = everything(log)
    batch = author.batch(author.event(2), author.event(3), StoredEvent(0, 1, 1, 1, "StepScheduled", 1, b""))
    with pytest.raises(SequenceConflictError):
        log.append(batch)
    assert everything(log) == before


def test_failure_after_the_events_were_written_takes_them_back(log: EventLog, author: LogAuthor) -> None:
    """[ARCH-4, ARCH-10]: events and projections stand or fall together."""
    author.start(run_row(1))
    before = everything(log)
    stolen = msgspec.structs.replace(run_row(2), run_id="run-1")
    with pytest.raises(SequenceConflictError):
        log.append(author.batch(author.event(2), runs=[stolen], snapshots=[Snapshot(1, 1, 1, b"state")]))
    assert everything(log) == before


def test_log_goes_on_after_a_refused_batch(log: EventLog, author: LogAuthor) -> None:
    with pytest.raises(SequenceConflictError):
        log.append(Batch(7, ()))
    author.append(author.event(1))
    assert log.last_seq == 1


def test_empty_batch_changes_nothing(log: EventLog, author: LogAuthor) -> None:
    author.start(run_row(1))
    before = everything(log)
    log.append(Batch(log.last_seq, ()))
    assert everything(log) == before


def test_batch_of_any_size_is_one_batch(log: EventLog, author: LogAuthor) -> None:
    """More rows than one statement holds, in each table; then every size around the statements' boundaries."""
    rows = [run_row(stream_id) for stream_id in range(1, 4_001)]
    snapshots = [Snapshot(row.stream_id, 1, 1, b"state") for row in rows]
    batch = author.append(*(author.event(row.stream_id) for row in rows), runs=rows, snapshots=snapshots)
    assert list(log.read_all(1, 10_000)) == batch.events
    assert [(stored.row, stored.snapshot) for stored in log.active_runs()] == list(zip(rows, snapshots, strict=True))
    for size in (1, 127, 128, 129, 255, 256, 511, 512, 513, 1_000):
        batch = author.append(*(author.event(1) for _ in range(size)))
        assert list(log.read_all(batch.expected_seq + 1, 10_000)) == batch.events


def test_committed_batches_survive_a_restart(log: EventLog, author: LogAuthor, restart: Restart) -> None:
    """[INV-1]"""
    author.start(run_row(1), events=3)
    author.append(author.event(2), runs=[run_row(2), closed(run_row(1))], snapshots=[Snapshot(1, 2, 1, b"state")])
    before = everything(log)
    again = restart()
    assert everything(again) == before
    again.append(Batch(4, [StoredEvent(5, 2, 2, 9_999, "StepScheduled", 1, b"")]))
    assert again.last_seq == 5


# ---- runs --------------------------------------------------------------------------------------------------------


def test_row_of_a_run_is_replaced(log: EventLog, author: LogAuthor) -> None:
    """[ARCH-10]"""
    failed = msgspec.structs.replace(closed(run_row(1)), error_type=3, error_message="zu spät")
    author.start(run_row(1))
    author.append(author.event(1), runs=[failed])
    assert list(log.run_rows("flow-1")) == [failed]


def test_flow_ids_in_use_are_those_with_a_run(log: EventLog, author: LogAuthor) -> None:
    """Whatever is in the names [ID-2]."""
    odd = 'a "b" \\ / % 🦉'
    author.start(run_row(1, flow_id="order"))
    author.start(run_row(2, flow_id=odd))
    assert log.flow_ids_in_use(["order", "other", odd, "order "]) == {"order", odd}
    assert log.flow_ids_in_use([]) == frozenset()


def test_latest_run_has_the_highest_ordinal(log: EventLog, author: LogAuthor) -> None:
    """[GEN-3]; of two runs of one execution it is the later one."""
    first, second = (run_row(stream, flow_id="order", ordinal=ordinal) for stream, ordinal in ((1, 1), (2, 2)))
    continued = run_row(4, flow_id="order", ordinal=2)
    for row in (first, second, run_row(3), continued):
        author.start(closed(row))
    latest = log.latest_run("order")
    assert latest is not None
    assert latest.row == closed(continued)
    assert [row.stream_id for row in log.run_rows("order")] == [4, 2, 1]


def chain_of_runs(author: LogAuthor) -> None:
    """`order` was tried again after three runs; two more runs of the second try are one chain."""
    for stream_id, chain_id in ((1, ""), (2, "run-1"), (4, "run-1"), (5, ""), (6, "run-5")):
        row = run_row(stream_id, flow_id="order", ordinal=2)
        first_run_id = "" if stream_id == 1 else "run-1"
        author.start(msgspec.structs.replace(row, first_run_id=first_run_id, chain_id=chain_id), events=2)
    author.append_large(author.event(4), blobs=[BlobRow(4, b"a", 1)])
    author.start(run_row(7, flow_id="order", ordinal=3))


def test_newest_run_of_a_chain_is_found_by_the_first(log: EventLog, author: LogAuthor) -> None:
    """[ROLL-4]"""
    chain_of_runs(author)
    author.start(run_row(8))
    found = {chain_id: log.newest_of_chain(chain_id) for chain_id in ("run-1", "run-5", "run-7", "run-8")}
    assert found == {
        "run-1": log.run_by_id("run-4"),
        "run-5": log.run_by_id("run-6"),
        "run-7": log.run_by_id("run-7"),
        "run-8": log.run_by_id("run-8"),
    }
    assert log.newest_of_chain("run-9") is None
    assert [log.refers_to(chain_id, b"a") for chain_id in ("run-1", "run-5")] == [True, False]
    assert [list(log.chain_streams(chain_id)) for chain_id in ("run-1", "run-5")] == [[1, 2, 4], [5, 6]]
    assert list(log.chain_streams("run-9")) == []


def test_last_run_of_an_execution_is_its_newest(log: EventLog, author: LogAuthor) -> None:
    """[WAITAPI-2]"""
    chain_of_runs(author)
    assert log.last_run("order", 2) == log.run_by_id("run-6")
    assert log.last_run("order", 3) == log.run_by_id("run-7")
    assert log.last_run("order", 1) is None
    rows = log.run_rows("order")
    assert [(row.first_run_id, row.chain_id) for row in rows][:3] == [("", ""), ("run-1", "run-5"), ("run-1", "")]


def test_run_is_found_by_the_request_that_started_it(log: EventLog, author: LogAuthor) -> None:
    """[START-3] Among the executions of its Flow ID, the first one and later ones."""
    rows = [
        msgspec.structs.replace(run_row(stream, flow_id=flow_id, ordinal=ordinal), start_request_id=request_id)
        for stream, flow_id, ordinal, request_id in ((1, "a", 1, "x"), (2, "a", 2, "y"), (3, "b", 1, "x"))
    ]
    for row in rows:
        author.start(row, events=2)
    for row in rows:
        found = log.run_by_start(row.flow_id, row.start_request_id)
        assert found == log.run_by_id(row.run_id)
    assert log.run_by_start("a", "z") is None
    assert log.run_by_start("b", "y") is None


# ---- timers ------------------------------------------------------------------------------------------------------


def timer_row(stream_id: int, number: int, at: int) -> TimerRow:
    return TimerRow(stream_id, f"Wait-{number}", at)


def test_timer_rows_are_kept_replaced_and_taken_away(log: EventLog, author: LogAuthor) -> None:
    """[ARCH-10] One row per Step execution; the list shows the earliest."""
    author.start(run_row(1), events=3)
    author.start(run_row(2))
    author.append(timers=[timer_row(1, 1, 50), timer_row(1, 2, 40), timer_row(2, 1, 7)])
    assert list(log.pending_timers(1)) == [timer_row(1, 1, 50), timer_row(1, 2, 40)]
    assert list(log.list_runs(RunFilter(), 2)) == [
        ListedRun(run_row(2), 1, 7),
        ListedRun(run_row(1), 3, 40),
    ]
    author.append(timers=[timer_row(1, 1, 60), timer_row(1, 2, 0), timer_row(2, 1, 0), timer_row(2, 9, 0)])
    assert list(log.pending_timers(1)) == [timer_row(1, 1, 60)]
    assert list(log.pending_timers(2)) == []
    assert [listed.next_deadline for listed in log.list_runs(RunFilter(), 2)] == [0, 60]


# ---- large values ------------------------------------------------------------------------------------------------


def test_blob_4_references_of_streams_are_kept_with_their_events(restart: Restart) -> None:
    log = restart()
    author = LogAuthor(log)
    author.start(run_row(1))
    author.start(run_row(2))
    author.append_large(author.event(1), blobs=[BlobRow(1, b"a", 7), BlobRow(1, b"b", 8), BlobRow(1, b"a", 7)])
    author.append_large(author.event(2), blobs=[BlobRow(2, b"b", 8)])
    log = restart()
    assert log.refers_to("run-1", b"a")
    assert not log.refers_to("run-2", b"a")
    assert not log.refers_to("run-9", b"a")
    assert log.blobs_in_use([b"a", b"b", b"c"]) == {b"a", b"b"}
    assert log.blobs_in_use([]) == frozenset()


def test_blob_3_uploads_of_sessions_are_kept_until_they_are_forgotten(restart: Restart) -> None:
    log = restart()
    author = LogAuthor(log)
    author.append_large(uploads=[UploadRow(b"s", b"a", 50), UploadRow(b"s", b"b", 50)])
    log = restart()
    assert log.was_uploaded(b"s", b"a")
    assert not log.was_uploaded(b"t", b"a")
    LogAuthor(log).append_large(uploads=[UploadRow(b"s", b"b", 70)], uploads_until=60)
    assert not log.was_uploaded(b"s", b"a")
    assert log.was_uploaded(b"s", b"b")


# ---- projections made anew ---------------------------------------------------------------------------------------


def test_projections_are_replaced_as_a_whole(restart: Restart) -> None:
    """[ARCH-10] Rows of before are gone, events are as they were, and it is known in which form the rows are."""
    log = restart()
    author = LogAuthor(log)
    assert log.projection_version == 0
    author.start(run_row(1), events=3)
    author.append(snapshots=[Snapshot(1, 2, 1, b"old")], timers=[timer_row(1, 1, 50)])
    events = list(log.read_all(1, 10))
    rows = [closed(run_row(1)), run_row(2)]
    author.append_large(blobs=[BlobRow(1, b"old", 1)], uploads=[UploadRow(b"s", b"old", 1)])
    blobs = [BlobRow(1, b"new", 1), BlobRow(2, b"new", 1), BlobRow(1, b"new", 1)]
    log.replace_projections(Projections(4, rows, [Snapshot(2, 1, 1, b"new")], [timer_row(2, 1, 9)], blobs=blobs))
    log = restart()
    assert log.projection_version == 4
    assert log.blobs_in_use([b"old", b"new"]) == {b"new"}
    assert log.was_uploaded(b"s", b"old")
    assert list(log.read_all(1, 10)) == events
    assert list(log.list_runs(RunFilter(), 10)) == [
        ListedRun(rows[1], 0, 9),
        ListedRun(rows[0], 3, 0),
    ]
    first, second = log.run_by_id("run-1"), log.run_by_id("run-2")
    assert first is not None
    assert second is not None
    assert (first.snapshot, second.snapshot) == (None, Snapshot(2, 1, 1, b"new"))
    assert list(log.pending_timers(1)) == []
    LogAuthor(log).append()
    assert log.last_seq == len(events)


def test_unknown_names_give_nothing(log: EventLog, author: LogAuthor) -> None:
    author.start(run_row(1))
    assert log.latest_run("flow") is None
    assert log.run_by_id("run") is None
    assert list(log.run_rows("flow")) == []


def test_run_comes_with_its_snapshot_and_only_what_follows(log: EventLog, author: LogAuthor) -> None:
    author.append(*(author.event(1) for _ in range(5)), runs=[run_row(1)], snapshots=[Snapshot(1, 2, 1, b"two")])
    author.append(author.event(2), runs=[run_row(2)])
    for stored in (log.latest_run("flow-1"), log.run_by_id("run-1"), next(iter(log.active_runs()))):
        assert stored is not None
        assert stored.snapshot == Snapshot(1, 2, 1, b"two")
        assert [event.version for event in stored.events] == [3, 4, 5]


def test_newer_snapshot_replaces_the_older(log: EventLog, author: LogAuthor) -> None:
    author.append(author.event(1), author.event(1), runs=[run_row(1)], snapshots=[Snapshot(1, 1, 1, b"one")])
    author.append(snapshots=[Snapshot(1, 2, 2, b"two")])
    stored = log.run_by_id("run-1")
    assert stored is not None
    assert (stored.snapshot, list(stored.events)) == (Snapshot(1, 2, 2, b"two"), [])


def test_open_runs_are_those_not_closed_in_the_order_of_their_start(log: EventLog, author: LogAuthor) -> None:
    rows = {stream_id: run_row(stream_id) for stream_id in (5, 2, 9, 1, 7)}
    for row in rows.values():
        author.start(row, events=row.stream_id)
    for stream_id in (2, 7):
        author.append(author.event(stream_id), runs=[closed(rows[stream_id])])
    author.append(author.event(4))
    naive = [log.run_by_id(f"run-{stream_id}") for stream_id in (1, 5, 9)]
    assert list(log.active_runs()) == naive
    assert [len(stored.events) for stored in log.active_runs()] == [1, 5, 9]


def test_open_runs_are_of_one_commit(log: EventLog, author: LogAuthor) -> None:
    for stream_id in (1, 2, 3):
        author.start(run_row(stream_id))
    before = list(log.active_runs())
    iterator = log.active_runs()
    shown = [next(iterator)]
    author.append(author.event(2), runs=[closed(run_row(2)), run_row(4)])
    assert shown + list(iterator) == before


# ---- lists -------------------------------------------------------------------------------------------------------


def pages(log: EventLog, selection: RunFilter, limit: int) -> list[RunRow]:
    """All pages of a list, which must be full but for the last."""
    rows: list[RunRow] = []
    while page := log.list_runs(selection, limit):
        assert not rows or len(rows) % limit == 0
        rows += [listed.row for listed in page]
        selection = msgspec.structs.replace(selection, before_stream_id=page[-1].row.stream_id)
    return rows


def test_list_pages_through_executions_newest_first(log: EventLog, author: LogAuthor) -> None:
    """[SEARCH-7]"""
    rows = [run_row(stream_id) for stream_id in range(1, 12)]
    for row in rows:
        author.start(row)
    for limit in (1, 3, 11, 100):
        assert pages(log, RunFilter(), limit) == rows[::-1]


def test_list_shows_one_row_per_execution(log: EventLog, author: LogAuthor) -> None:
    """[SEARCH-7, GEN-3]: a reused Flow ID has several executions, a continued execution several runs."""
    for stream_id, ordinal in ((1, 1), (2, 2), (3, 2)):
        author.start(run_row(stream_id, flow_id="order", ordinal=ordinal))
    listed = log.list_runs(RunFilter(), 10)
    assert [run.row.stream_id for run in listed] == [3, 1]
    assert [row.stream_id for row in pages(log, RunFilter(), 1)] == [3, 1]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (RunFilter(flow_type="Order"), [5, 3, 1]),
        (RunFilter(flow_type="order"), []),
        (RunFilter(status=COMPLETED), [4, 3]),
        (RunFilter(status=RUNNING, flow_type="Order"), [5, 1]),
        (RunFilter(flow_id_prefix="a%"), [2]),
        (RunFilter(flow_id_prefix="a"), [3, 2, 1]),
        (RunFilter(flow_id_prefix="ä"), [5]),
        (RunFilter(flow_id_prefix="a", before_stream_id=3), [2, 1]),
        (RunFilter(flow_id_prefix="abc-and-more"), []),
    ],
)
def test_list_selects(log: EventLog, author: LogAuthor, selection: RunFilter, expected: list[int]) -> None:
    for stream_id, flow_id in enumerate(("abc", "a%x", "a_x", "A", "äöü"), start=1):
        row = run_row(stream_id, flow_id=flow_id, flow_type="Order" if stream_id % 2 else "Transfer")
        author.start(closed(row) if stream_id in {3, 4} else row)
    assert [listed.row.stream_id for listed in log.list_runs(selection, 10)] == expected


# ---- events ------------------------------------------------------------------------------------------------------


def test_stream_is_read_from_a_version_up_to_a_limit(log: EventLog, author: LogAuthor) -> None:
    """[HIST-5]"""
    for _ in range(4):
        author.append(author.event(1), author.event(2))
    assert [event.version for event in log.read_stream(1, 1, 100)] == [1, 2, 3, 4]
    assert [event.version for event in log.read_stream(1, 2, 2)] == [2, 3]
    assert [event.stream_id for event in log.read_stream(2, 4, 2)] == [2]
    assert list(log.read_stream(1, 5, 2)) == []
    assert list(log.read_stream(3, 1, 2)) == []


def test_stream_is_read_by_types(log: EventLog, author: LogAuthor) -> None:
    author.append(*(author.event(1, kind) for kind in ("A", "B", "C", "A", "B", 'quo"te')))
    assert [event.version for event in log.read_stream(1, 1, 100, ("A", "C"))] == [1, 3, 4]
    assert [event.version for event in log.read_stream(1, 2, 1, ["A"])] == [4]
    assert [event.version for event in log.read_stream(1, 1, 100, iter(['quo"te']))] == [6]
    assert list(log.read_stream(1, 1, 100, ("D",))) == []


def test_whole_log_is_read_in_pages(log: EventLog, author: LogAuthor) -> None:
    for stream_id in (3, 1, 2, 1, 3):
        author.append(author.event(stream_id))
    assert [event.stream_id for event in log.read_all(1, 3)] == [3, 1, 2]
    assert [event.seq for event in log.read_all(4, 3)] == [4, 5]
    assert list(log.read_all(6, 3)) == []


def test_other_threads_read_what_is_committed(log: EventLog, author: LogAuthor) -> None:
    author.start(run_row(1))
    seen: list[object] = []
    thread = Thread(target=lambda: seen.append(everything(log)))
    thread.start()
    thread.join()
    assert seen == [everything(log)]


def test_close_can_be_repeated(log: EventLog) -> None:
    log.close()
    log.close()
