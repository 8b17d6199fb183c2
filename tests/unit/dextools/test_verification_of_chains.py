"""`dex log verify` over runs that continue others [SURF-23, ROLL-3]."""

import msgspec

from dexd.codec.event_codec import append_stored, from_stored
from dexd.core.events import FlowContinued
from dexd.core.flow.carrying import from_carried, to_carried
from dexd.engine.batch import row_of
from dexd.log.event_log import Batch, StoredEvent
from dexd.log.memory_log import MemoryLog
from dextools.log_verification import verify_log
from tests.support.builders import publish, scheduled, started
from tests.support.given import given
from tests.support.roll_over_builders import RUN_2, roll


def rolled() -> tuple[MemoryLog, list[StoredEvent]]:
    """The log of a Flow that was continued once, with and without its rows."""
    before = given(started(), scheduled()).after(publish("c", b"1"), roll())
    rows: list[StoredEvent] = []
    append_stored(rows, before.log, 0)
    log = MemoryLog()
    log.append(Batch(0, rows, [row_of(run) for run in before.kernel.runs.values()]))
    return log, rows


def faults_of(log: MemoryLog) -> list[str]:
    return [f"{fault.where}: {fault.text}" for fault in verify_log(log, lambda _: None).faults]


def test_roll_3_a_chain_that_hands_its_state_on_is_clean() -> None:
    log, _ = rolled()
    assert faults_of(log) == []


def test_roll_3_a_run_that_begins_with_another_state_is_found() -> None:
    log, rows = rolled()
    (position,) = [number for number, row in enumerate(rows) if row.type == "FlowContinued"]
    recorded = from_stored(rows[position])
    continued = recorded.event
    assert isinstance(continued, FlowContinued)
    state = from_carried(continued.carried)
    state.channels = {}
    forged = msgspec.structs.replace(continued, carried=to_carried(state))
    altered: list[StoredEvent] = []
    append_stored(altered, [msgspec.structs.replace(recorded, event=forged)], rows[position].seq - 1)
    rows[position] = altered[0]
    other = MemoryLog()
    other.append(Batch(0, rows, log.run_rows("order-1")))
    assert f"{RUN_2}: it begins with another state than run run-1 had at its end" in faults_of(other)
