"""Events, old versions of them, and snapshots, to bytes and back [ARCH-9]."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dexd.codec.event_codec import append_stored, from_stored, is_of_run, stream_event_from_stored
from dexd.codec.state_codec import (
    STATE_VERSION,
    STREAM_STATE_VERSIONS,
    from_snapshot,
    stream_from_snapshot,
    to_snapshot,
    to_stream_snapshot,
)
from dexd.codec.upcast import EVENT_VERSIONS, UPCASTERS, UnknownEventError, UpcastChain
from dexd.core import sub_flows, terms, values
from dexd.core.events import EVENT_TYPES, Event, FlowStarted, StepScheduled
from dexd.core.flow import state
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, RequestId, RunId, StepExecutionId, StreamId
from dexd.core.outcome import RecordedEvent, RecordedStreamEvent, StreamEvent
from dexd.core.streams import STREAM_EVENT_TYPES, STREAM_STATE_TYPES, StreamKind, evolve_stream
from dexd.log.event_log import Snapshot, StoredEvent
from tests.support.schedule_builders import schedule_created

STARTED = FlowStarted(FlowId("f"), RunId("r"), "Order", 1, RequestId("q"), b"\0\1", 5, (("a", b"1"),))
SCHEDULED = StepScheduled(StepExecutionId("Begin-1"), "Begin", 1, "", b"7", False)


@pytest.mark.parametrize("event_type", EVENT_TYPES, ids=lambda event_type: event_type.__name__)
@settings(max_examples=15)
@given(data=st.data())
def test_every_event_survives_the_log(event_type: type[Event], data: st.DataObject) -> None:
    """[ARCH-9] Encoding and decoding give the same event, whatever is in it."""
    event = data.draw(_struct(event_type))
    recorded = RecordedEvent(StreamId(3), 2, 1_000, event)
    rows: list[StoredEvent] = []
    assert append_stored(rows, [recorded], 16) == 17
    [stored] = rows
    assert (stored.seq, stored.stream_id, stored.version, stored.at) == (17, 3, 2, 1_000)
    assert (stored.type, stored.type_version) == (event_type.__name__, EVENT_VERSIONS[event_type.__name__])
    assert from_stored(stored) == recorded


@pytest.mark.parametrize("event_type", STREAM_EVENT_TYPES, ids=lambda event_type: event_type.__name__)
@settings(max_examples=10)
@given(data=st.data())
def test_every_event_of_another_stream_survives_the_log(event_type: type[StreamEvent], data: st.DataObject) -> None:
    """[ARCH-9, SCHED-1] Their names are their own, so that a stream's first event tells what it belongs to."""
    recorded = RecordedStreamEvent(StreamId(3), 2, 1_000, data.draw(_struct(event_type)))
    rows: list[StoredEvent] = []
    append_stored(rows, [recorded], 0)
    assert rows[0].type == event_type.__name__
    assert stream_event_from_stored(rows[0]) == recorded
    assert not is_of_run(rows[0])
    with pytest.raises(UnknownEventError, match="another kind"):
        from_stored(rows[0])


def test_event_of_a_run_is_in_no_other_stream() -> None:
    """[ARCH-9]"""
    rows: list[StoredEvent] = []
    append_stored(rows, [RecordedEvent(StreamId(3), 1, 1_000, STARTED)], 0)
    assert is_of_run(rows[0])
    with pytest.raises(UnknownEventError, match="another kind"):
        stream_event_from_stored(rows[0])
    assert len({kind.__name__ for kind in (*EVENT_TYPES, *STREAM_EVENT_TYPES)}) == len(EVENT_TYPES) + len(
        STREAM_EVENT_TYPES
    )


def _any(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type; integers as wide as the log holds them."""
    hint = getattr(hint, "__supertype__", hint)
    plain = {int: st.integers(-(2**63), 2**63 - 1), float: st.floats(allow_nan=False), bytes: st.binary(max_size=9)}
    if hint in plain:
        return plain[hint]
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        if arguments[1:] == (...,):
            return st.lists(_any(arguments[0]), max_size=2).map(tuple)
        return st.tuples(*map(_any, arguments))
    if arguments:
        return st.one_of(*map(_any, arguments))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _struct(hint)
    return st.from_type(hint)


@cache
def _struct(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{name: _deferred(hint) for name, hint in get_type_hints(kind).items()})


def _deferred(hint: Any) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: _any(hint))


@pytest.mark.parametrize(
    ("type_name", "version", "payload"),
    [
        ("FlowExploded", 1, b"\x90"),
        ("FlowStarted", 99, b"\x90"),
        ("FlowStarted", 1, b"\x91\xc0"),
    ],
)
def test_event_of_a_newer_release_is_a_hard_error(type_name: str, version: int, payload: bytes) -> None:
    """[ARCH-9] A log that this release cannot read is refused, never guessed at."""
    with pytest.raises(UnknownEventError, match=type_name):
        from_stored(StoredEvent(1, 1, 1, 0, type_name, version, payload))


def test_old_versions_are_led_to_the_current_one_step_by_step() -> None:
    """[ARCH-9] Old versions are upcast on read, also over a change of the type's name."""
    chain = UpcastChain(
        {"StepEnded": 2},
        {
            ("StepDone", 1): lambda fields: ("StepDone", [*fields, "why"]),
            ("StepDone", 2): lambda fields: ("StepEnded", fields[1:]),
            ("StepEnded", 1): lambda fields: ("StepEnded", [*fields, 0]),
        },
    )
    old = msgspec.msgpack.encode([1, 2])
    assert chain.upcast("StepDone", 1, old) == ("StepEnded", msgspec.msgpack.encode([2, "why", 0]))
    assert chain.upcast("StepEnded", 2, b"untouched") == ("StepEnded", b"untouched")


def test_missing_link_of_the_chain_is_named() -> None:
    """[ARCH-9] Type and version that lead nowhere."""
    with pytest.raises(UnknownEventError, match="'StepDone' version 2"):
        UpcastChain({"StepDone": 3}, {("StepDone", 1): lambda fields: ("StepDone", fields)}).upcast(
            "StepDone", 1, b"\x90"
        )


def test_every_released_version_reaches_the_current_one() -> None:
    """[ARCH-9] For each type there is a step from every version before the current one."""
    for name, current in EVENT_VERSIONS.items():
        for version in range(1, current):
            assert (name, version) in UPCASTERS


def folded() -> RunState:
    run = evolve(None, RecordedEvent(StreamId(3), 1, 100, STARTED))
    return evolve(run, RecordedEvent(StreamId(3), 2, 100, SCHEDULED))


def test_snapshot_is_the_state_again() -> None:
    """[ARCH-11] A snapshot and the events after it give what all events give."""
    run = folded()
    snapshot = to_snapshot(run)
    assert (snapshot.stream_id, snapshot.version) == (3, 2)
    assert from_snapshot(snapshot) == run


@pytest.mark.parametrize(
    ("state_version", "payload"), [(STATE_VERSION + 1, b"\x90"), (STATE_VERSION, b"\x90"), (STATE_VERSION, b"")]
)
def test_snapshot_of_another_release_is_ignored(state_version: int, payload: bytes) -> None:
    """[ARCH-9] Snapshots only save folding; one that cannot be read is no damage."""
    assert from_snapshot(Snapshot(3, 2, state_version, payload)) is None


LAYOUT_OF_STATE_VERSION_8 = "77d91da62a19857a"


def test_layout_of_snapshots_changes_only_with_its_version() -> None:
    """[ARCH-9] Otherwise a server would read the snapshots of the release before as something else."""
    schema = msgspec.json.encode(_layout(RunState), order="deterministic")
    known = {8: LAYOUT_OF_STATE_VERSION_8}
    assert known[STATE_VERSION] == hashlib.sha256(schema).hexdigest()[:16], "raise STATE_VERSION and note its layout"


LAYOUTS_OF_STREAM_STATES = {
    StreamKind.SCHEDULE: {3: "46d2974f44fab908"},
    StreamKind.JOB: {1: "cbe9b0a445487fb4"},
}


@pytest.mark.parametrize("kind", StreamKind)
def test_layout_of_other_snapshots_changes_only_with_its_version(kind: StreamKind) -> None:
    """[ARCH-9]"""
    schema = msgspec.json.encode(_layout(STREAM_STATE_TYPES[kind]), order="deterministic")
    known = LAYOUTS_OF_STREAM_STATES[kind][STREAM_STATE_VERSIONS[kind]]
    assert known == hashlib.sha256(schema).hexdigest()[:16], "raise its version and note its layout"


def test_snapshot_of_a_schedule_is_the_state_again() -> None:
    """[ARCH-11, SCHED-1]"""
    state = evolve_stream(None, RecordedStreamEvent(StreamId(3), 1, 100, schedule_created()))
    snapshot = to_stream_snapshot(state)
    assert (snapshot.stream_id, snapshot.version) == (3, 1)
    assert stream_from_snapshot(StreamKind.SCHEDULE, snapshot) == state
    for unreadable in (
        msgspec.structs.replace(snapshot, state_version=0),
        msgspec.structs.replace(snapshot, payload=b""),
    ):
        assert stream_from_snapshot(StreamKind.SCHEDULE, unreadable) is None


def test_roll_3_what_runs_carry_on_is_only_ever_appended_to() -> None:
    """[ARCH-9] States are parts of events for ever: every struct that they hold begins with the fields it once had."""
    known = json.loads(Path(__file__).with_name("carried_layout.json").read_text(encoding="utf-8"))
    today = _layout(RunState)
    for name, fields in known.items():
        assert [list(field) for field in today[name]][: len(fields)] == fields, f"{name} lost or moved a field"
        defaults = _defaults(name)
        assert all(has_default for _, has_default in defaults[len(fields) :]), f"a new field of {name} has no default"


def _defaults(name: str) -> list[tuple[str, bool]]:
    modules = (state, values, terms, sub_flows)
    (struct,) = {getattr(module, name) for module in modules if hasattr(module, name)}
    return [(field.name, not field.required) for field in msgspec.structs.fields(struct)]


def _layout(kind: type) -> Any:
    """Names and types of all fields, through every struct that is reached."""
    seen: dict[str, list[tuple[str, str]]] = {}

    def visit(hint: Any) -> None:
        for inner in getattr(hint, "__args__", ()):
            visit(inner)
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint.__name__ not in seen:
            fields = get_type_hints(hint)
            seen[hint.__name__] = [
                (name, str(field)) for name, field in fields.items() if name in hint.__struct_fields__
            ]
            for field in fields.values():
                visit(field)

    visit(kind)
    return seen
