"""The invariants of quality.md over the log of a simulated world, and over what its clients were told."""

import json
from collections.abc import Sequence
from itertools import pairwise

from dexd.codec.event_codec import from_stored, is_of_run
from dexd.core import events as e
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState
from dexd.core.ids import TIMEOUT_HANDLER_ID
from dexd.core.outcome import RecordedEvent
from dexd.engine.batch import last_error_of
from dexd.engine.pending_timers import timer_rows
from dexd.log.event_log import RunRow
from dextools.log_verification import verify_log
from tests.simulation.acknowledged import Acknowledged
from tests.simulation.chains import check_links, fold_chain, join_chains
from tests.simulation.documents import check_blobs, check_document
from tests.simulation.endings import check_counts, check_endings, check_schedule
from tests.simulation.families import check_families, check_parents
from tests.simulation.jobs import check_jobs
from tests.simulation.retention import KeptLog
from tests.simulation.schedules import check_schedules
from tests.simulation.server import SimulatedServer
from tests.simulation.travels import check_travels
from tests.simulation.vaults import check_takes, check_vault

ENDS_OF_DELIVERIES = (
    e.StepDeclined,
    e.StepDeliveryLost,
    e.WaitForCompleted,
    e.WaitForFailed,
    e.ExecuteCompleted,
    e.ExecuteFailed,
)

ALLOWED_AFTER_CLOSE = (e.StaleResultRejected, e.FlowReopened)


def check_all(server: SimulatedServer, acknowledged: Sequence[Acknowledged], world: str) -> None:
    """Raise AssertionError, naming the world, at the first broken invariant."""
    histories = read_histories(server.log)
    chains = join_chains(histories)
    for events in histories.values():
        check_order(events, world)
    for chain in chains:
        check_links(chain, world)
        check_history(chain, world)
    check_blobs(server.blobs, server.log, world)
    states, ends = [fold(events) for events in histories.values()], [fold_chain(chain) for chain in chains]
    check_live_state(server, states, world)
    faults = verify_log(server.log, lambda _: None).faults
    assert not faults, f"{world}: {faults[:3]} [INV-8]"
    check_parents(chains, ends, world)
    check_schedules(server.log.everything, world)
    check_jobs(server, chains, ends, acknowledged, world)
    for told in acknowledged:
        check_acknowledged(states, ends, told, world)


def read_histories(log: KeptLog) -> dict[int, list[RecordedEvent]]:
    """Every stream's events, in order, removed ones too."""
    histories: dict[int, list[RecordedEvent]] = {}
    for stored in filter(is_of_run, log.everything):
        histories.setdefault(stored.stream_id, []).append(from_stored(stored))
    return histories


def check_order(events: Sequence[RecordedEvent], world: str) -> None:
    """Numbers and instants of one run [HIST-2, TIMER-6]."""
    assert [event.version for event in events] == list(range(1, len(events) + 1)), f"{world}: gap in a history"
    assert all(a.at <= b.at for a, b in pairwise(events)), f"{world}: time runs backwards"


def check_history(events: Sequence[RecordedEvent], world: str) -> None:
    """The runs of one chain, event by event: what happens once happens once in all of them."""
    state: RunState | None = None
    results: set[tuple[str, str, int]] = set()
    consumed: set[str] = set()
    fired: set[tuple[str, int, int]] = set()
    for recorded in events:
        event = recorded.event
        where = f"{world}: {'' if state is None else state.flow_id} event {recorded.version} {event}"
        if isinstance(event, e.FlowStarted):
            state = None
        if state is not None and not state.is_open:
            assert isinstance(event, ALLOWED_AFTER_CLOSE), f"{where} after the close [FLOW-8]"
        _check_result(event, results, where)
        if state is not None:
            check_schedule(state, recorded, where)
        if isinstance(event, e.TimerFired) and state is not None:
            _check_timer(state, event, recorded.at, fired, where)
        if isinstance(event, e.ConditionsMet) and state is not None:
            _check_consumption(state, event, consumed, where)
        state = evolve(state, recorded)
    if state is not None:
        check_counts(events, state, f"{world}: {state.flow_id}")
        check_vault(events, state, f"{world}: {state.flow_id}")


def check_deliveries(log: KeptLog, seconds_max: float, world: str) -> None:
    """No call waits for its method timeout because of a lost worker [LOST-1, WIRE-7, WIRE-11]."""
    for events in join_chains(read_histories(log)):
        handed_over: dict[str, int] = {}
        for recorded in events:
            event = recorded.event
            where = f"{world}: event {recorded.version} {event}"
            if isinstance(event, e.StepDispatched):
                handed_over[event.step_execution_id] = recorded.at
            elif isinstance(event, ENDS_OF_DELIVERIES):
                began = handed_over.pop(event.step_execution_id, recorded.at)
                assert recorded.at - began <= seconds_max * 1000, f"{where} after {recorded.at - began} ms"


def _check_result(event: e.Event, results: set[tuple[str, str, int]], where: str) -> None:
    """[INV-3] At most one result per attempt, and one success per method."""
    if isinstance(event, e.WaitForCompleted | e.WaitForFailed | e.ExecuteCompleted | e.ExecuteFailed):
        method = "wait_for" if isinstance(event, e.WaitForCompleted | e.WaitForFailed) else "execute"
        key = (event.step_execution_id, method, event.attempt)
        assert key not in results, f"{where}: a second result of one attempt [INV-3]"
        results.add(key)
    if isinstance(event, e.WaitForCompleted | e.ExecuteCompleted):
        kind = type(event).__name__
        key = (event.step_execution_id, kind, 0)
        assert key not in results, f"{where}: a second accepted result [INV-3]"
        results.add(key)


def _check_timer(state: RunState, event: e.TimerFired, at: int, fired: set[tuple[str, int, int]], where: str) -> None:
    """[INV-5] Never early, once."""
    if event.step_execution_id == TIMEOUT_HANDLER_ID:
        key = (event.step_execution_id, 0, 0)
        assert key not in fired, f"{where}: fired twice [INV-5]"
        fired.add(key)
        return
    step = state.steps[event.step_execution_id]
    assert step.wait is not None, f"{where}: no Wait"
    deadline = step.wait.conditions[event.condition_index].at_ms
    assert deadline is not None, f"{where}: no Timer"
    assert deadline <= at, f"{where}: fired {deadline} at {at}, too early [INV-5]"
    key = (event.step_execution_id, state.message_base + step.wait_version, event.condition_index)
    assert key not in fired, f"{where}: fired twice [INV-5]"
    fired.add(key)


def _check_consumption(state: RunState, event: e.ConditionsMet, consumed: set[str], where: str) -> None:
    """[INV-6] Each message once, oldest first."""
    step = state.steps[event.step_execution_id]
    assert step.wait is not None, f"{where}: no Wait"
    taken: dict[str, list[str]] = {}
    for index, message_ids in event.consumed:
        channel = step.wait.conditions[index].channel
        taken.setdefault(channel, []).extend(message_ids)
    for channel, ids in taken.items():
        queue = [message.message_id for message in state.channels[channel]]
        assert sorted(ids) == queue[: len(ids)], f"{where}: not the oldest messages [INV-6]"
        assert not consumed.intersection(ids), f"{where}: consumed twice [INV-6]"
        consumed.update(ids)


def check_live_state(server: SimulatedServer, states: Sequence[RunState], world: str) -> None:
    """[INV-8] Replay of the log, live state and the projection agree."""
    assert server.engine is not None
    for state in states:
        live = server.engine.runs.run_by_id(state.run_id)
        if not server.log.is_retained(state.stream_id):
            _check_removed(server.log, state, live, world)
            continue
        assert live == state, f"{world}: live state of {state.flow_id} is not its replay [INV-8]"
        rows = [row for row in server.log.run_rows(state.flow_id) if row.run_id == state.run_id]
        timers = sorted(timer_rows(state), key=lambda row: row.step_execution_id)
        assert server.log.pending_timers(state.stream_id) == timers, f"{world}: timers of {state.flow_id} [ARCH-10]"
        expected = [_row_of(state, rows[0].last_error if state.is_open and rows else last_error_of(state))]
        assert expected == rows, f"{world}: projection of {state.flow_id} differs: {rows} [INV-8]"


def _check_removed(log: KeptLog, state: RunState, live: RunState | None, world: str) -> None:
    """[KEEP-1, KEEP-3, ID-10] A removed run was closed, is known to nobody, and its Flow ID's ordinal is not lost."""
    assert not state.is_open, f"{world}: {state.flow_id} was removed and is open [KEEP-1]"
    assert live is None, f"{world}: {state.flow_id} was removed and is in memory [KEEP-1]"
    assert log.run_by_id(state.run_id) is None, f"{world}: {state.flow_id} was removed and is found [KEEP-3]"
    assert not log.pending_timers(state.stream_id), f"{world}: timers of {state.flow_id}, which was removed [KEEP-3]"
    assert state.stream_id in log.streams_leaving() or not log.read_stream(state.stream_id, 1, 1), f"{world} [KEEP-1]"
    last_ordinal = log.last_ordinal(state.flow_id)
    assert log.run_rows(state.flow_id) or last_ordinal >= state.ordinal, f"{world}: ordinal of {state.flow_id} [ID-10]"


def fold(events: Sequence[RecordedEvent]) -> RunState:
    """The state that a history gives."""
    state: RunState | None = None
    for recorded in events:
        state = evolve(state, recorded)
    assert state is not None
    return state


def _row_of(state: RunState, last_error: str) -> RunRow:
    """The last error of an open run is as old as the last search for it [SEARCH-3]."""
    terms = state.terms
    parent, schedule = (None, None) if terms is None else (terms.parent, terms.schedule)
    return RunRow(
        state.stream_id,
        state.run_id,
        state.flow_id,
        state.ordinal,
        state.flow_type,
        int(state.status),
        state.started_at,
        state.closed_at,
        int(state.error_type),
        state.error_message,
        state.start_request_id,
        state.first_run_id,
        "" if state.chain_id == state.run_id else state.chain_id,
        "" if parent is None else parent.flow_id,
        "" if schedule is None else schedule.schedule_id,
        last_error,
    )


def check_acknowledged(folded: Sequence[RunState], ends: Sequence[RunState], told: Acknowledged, world: str) -> None:
    """[INV-1] Whatever a client was told is there, or was until its retention was over.

    `folded` has the end of every run, `ends` that of every chain, both oldest first.
    """
    by_run_id: dict[str, RunState] = {state.run_id: state for state in folded}
    states: dict[str, RunState] = {state.flow_id: state for state in folded}
    for flow_id, run_id in told.starts.items():
        started = by_run_id.get(run_id)
        assert started is not None, f"{world}: start of {flow_id} is lost [INV-1]"
        assert started.flow_id == flow_id, f"{world}: {run_id} is {started.flow_id}, not {flow_id}"
    for flow_id, status in told.stops.items():
        assert states[flow_id].status is status, f"{world}: stop of {flow_id} said {status} [STOP-2]"
    for flow_id, producers in told.published.items():
        seen = json.loads(states[flow_id].attributes["seen"])
        for items in producers:
            kept = [item for item in seen if item in items]
            assert kept == items, f"{world}: {flow_id} consumed {kept} of {items} [INV-6]"
    for flow_id, items in told.rpc_items.items():
        seen = json.loads(states[flow_id].attributes["seen"])
        assert all(seen.count(item) == 1 for item in items), f"{world}: {flow_id} RPC effects {items} in {seen}"
    for flow_id, values in told.attributes.items():
        assert states[flow_id].attributes["note"] == values[-1], f"{world}: attribute of {flow_id} is lost [INV-1]"
    runs: dict[str, list[RunState]] = {}
    for state in ends:
        runs.setdefault(state.flow_id, []).append(state)
    check_endings(runs, told, world)
    check_families(runs, told, world)
    all_runs: dict[str, list[RunState]] = {}
    for state in folded:
        all_runs.setdefault(state.flow_id, []).append(state)
    check_travels(all_runs, told, world)
    for flow_id in told.documents:
        check_document(runs[flow_id][-1], told, f"{world}: {flow_id}")
    for flow_id in told.kept:
        check_takes(runs[flow_id][-1], told, f"{world}: {flow_id}")
