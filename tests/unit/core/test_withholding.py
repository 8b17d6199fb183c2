"""Values that travel as references, and what handlers fetch of their snapshot [ATTR-6..8, CHAN-8]."""

import pytest

from dexd.codec.state_codec import from_snapshot, to_snapshot
from dexd.core.commands import FetchPart
from dexd.core.config import (
    FETCH_BYTES_MAX,
    FETCH_MESSAGES_MAX,
    INLINE_MAP_VALUES_BYTES_MAX,
    INLINE_VALUE_BYTES_MAX,
)
from dexd.core.effects import DeliverPart
from dexd.core.flow.withholding import withheld_keys
from dexd.core.ids import SessionId, StepExecutionId
from dexd.core.values import Method, Response, Token
from tests.support.builders import (
    CONFIRMED,
    DEAD_END,
    SECOND,
    T0,
    WELCOME,
    all_of,
    assigned,
    channel,
    complete,
    connect,
    decides,
    fail,
    failure,
    graceful,
    lose,
    message_ids,
    options,
    plan,
    publish,
    recovery,
    rpc,
    rpc_token,
    running,
    scheduled,
    set_attribute,
    started,
    stop,
    stream,
    token,
    waits,
)
from tests.support.deletion_builders import delete_message
from tests.support.given import Given, given

LARGE = b"x" * (INLINE_VALUE_BYTES_MAX + 1)
OLD, NEW = LARGE + b"old", LARGE + b"new"


def fetch(key: str, delivered: Token | None = None, *, offset: int = 0, after: str = "", number: int = 7) -> FetchPart:
    return FetchPart(SessionId(1), delivered or token(), number, False, key, offset, after)


def list_messages(key: str, delivered: Token | None = None, *, after: str = "") -> FetchPart:
    return FetchPart(SessionId(1), delivered or token(), 7, True, key, after=after)


def part(data: bytes = b"", delivered: Token | None = None, **fields: object) -> DeliverPart:
    return DeliverPart(SessionId(1), delivered or token(), 7, data, **fields)  # type: ignore[arg-type] # per field


def serving(*steps: object, streams: int = 1) -> Given:
    chosen = steps or (scheduled("A-1"),)
    before = given(started(attributes=(("large", OLD), ("small", b"1"))), *chosen)  # type: ignore[arg-type] # events
    return before.after(*connect(streams=streams))


def test_attr_7_values_above_64_kib_are_withheld() -> None:
    exact = b"x" * INLINE_VALUE_BYTES_MAX
    assert list(withheld_keys({"a": exact, "b": LARGE, "c": b"1", "m\0k": LARGE})) == ["b", "m\0k"]


def test_attr_7_map_values_beyond_the_first_mebibyte_are_withheld() -> None:
    """Plain Attributes do not count, and a large map value takes no room from the small ones."""
    size = 32 * 1024
    fitting = INLINE_MAP_VALUES_BYTES_MAX // size
    values = {f"m\0{number:03}": b"x" * size for number in range(fitting + 2)}
    expected = [f"m\0{fitting:03}", f"m\0{fitting + 1:03}"]
    assert list(withheld_keys({"plain": b"x" * size, "m\0large": LARGE, **values})) == ["m\0large", *expected]


def test_attr_6_the_snapshot_holds_every_attribute_be_it_as_a_reference() -> None:
    before = given(started(attributes=(("large", OLD), ("small", b"1"))), scheduled("A-1"))
    before.when(*connect()).then_effects(
        WELCOME, CONFIRMED, assigned(attributes={"small": b"1"}, references=("large",), preload=())
    )


def test_attr_7_preload_travels_with_every_call_that_asks_for_it() -> None:
    """The worker knows which values are references to large ones; the server does not look into them."""
    chosen = options(preload=("large",))
    before = given(started(attributes=(("large", OLD),)), scheduled("A-1", options=chosen))
    before.when(*connect()).then_effects(WELCOME, CONFIRMED, assigned(references=("large",), preload=("large",)))
    small = given(started(attributes=(("large", b"1"),)), scheduled("A-1", options=chosen))
    small.when(*connect()).then_effects(WELCOME, CONFIRMED, assigned(references=(), preload=("large",)))


def test_attr_7_a_value_is_fetched_piece_by_piece() -> None:
    value = b"0" * FETCH_BYTES_MAX + b"1" * 10
    before = given(started(attributes=(("large", value),)), scheduled("A-1")).after(*connect())
    before.when(fetch("large")).then(effects=[part(value[:FETCH_BYTES_MAX], has_more=True)])
    before.when(fetch("large", offset=FETCH_BYTES_MAX)).then(effects=[part(b"1" * 10)])


def test_attr_7_the_value_is_that_of_the_snapshot_although_somebody_overwrote_it() -> None:
    before = serving().after(set_attribute("large", NEW))
    before.when(fetch("large")).then(effects=[part(OLD)])
    before.after(set_attribute("large", None, request_id="s"))
    before.when(fetch("large")).then(effects=[part(OLD)])
    assert before.run().attribute_bytes == 1


def test_attr_7_the_value_of_the_snapshot_survives_a_restart() -> None:
    """[ARCH-11] And a snapshot of the run."""
    before = serving().after(set_attribute("large", NEW))
    assert from_snapshot(to_snapshot(before.run())) == before.run()
    again = before.restarted()
    again.when(fetch("large")).then()
    again.after(*connect(1, "w1", streams=0, running=(running(token()),)))
    again.when(fetch("large")).then(effects=[part(OLD)])


def test_attr_7_only_what_was_withheld_is_given() -> None:
    before = serving().after(set_attribute("later", LARGE))
    for key in ("small", "later", "nothing"):
        before.when(fetch(key)).then(effects=[part(refusal="NOT_WITHHELD")])


def test_attr_7_a_delivery_that_is_not_current_gets_nothing() -> None:
    """[DELIV-2]"""
    before = serving().after(fail(failure()))
    before.when(fetch("large")).then(effects=[part(refusal="STALE")])
    unknown = token("X-1")
    before.when(fetch("large", unknown)).then(effects=[part(delivered=unknown, refusal="STALE")])


def test_attr_8_a_retry_reads_what_was_changed_meanwhile() -> None:
    before = serving().after(set_attribute("large", NEW), fail(failure())).ticked(T0 + SECOND)
    again = token(attempt=2)
    before.when(fetch("large", again)).then(effects=[part(NEW, again)])


def test_attr_8_wait_for_and_execute_have_snapshots_of_their_own() -> None:
    before = serving(scheduled("A-1", wait_for=True))
    wait = waits(all_of(channel("c", 0, 1)), writes=(("large", NEW),))
    before.after(complete(wait, token(method=Method.WAIT_FOR)))
    before.when(fetch("large")).then(effects=[part(NEW)])


def test_attr_7_two_readers_have_the_value_of_their_own_hand_over() -> None:
    before = serving(scheduled("A-1"), scheduled("A-2"), streams=2).after(set_attribute("large", NEW))
    before.after(complete(decides(graceful(), writes=(("other", b"1"),)), token("A-2"), number=2))
    before.after(rpc("write", request_id="w"))
    before.after(complete(Response(next_steps=(plan("A"),)), rpc_token("w"), number=2))
    second = token("A-3")
    before.when(fetch("large", second)).then(effects=[part(NEW, second)])
    before.when(fetch("large")).then(effects=[part(OLD)])


@pytest.mark.parametrize("ending", ["result", "failure", "recovery", "wait_for", "cancel", "close"])
def test_attr_7_nothing_is_kept_for_a_handler_that_has_ended(ending: str) -> None:
    steps = {
        "recovery": scheduled("A-1", options=options(recovery=recovery("X"))),
        "wait_for": scheduled("A-1", wait_for=True),
    }
    before = serving(steps.get(ending, scheduled("A-1")))
    assert list(before.run().lending) == ["A-1"]
    match ending:
        case "result":
            before.after(complete(DEAD_END))
        case "failure":
            before.after(fail(failure()))
        case "recovery":
            before.after(fail(failure(non_retryable=True)))
        case "wait_for":
            before.after(complete(all_of(channel("c")), token(method=Method.WAIT_FOR)))
        case "cancel":
            before.after(rpc("write"), *connect(2, "w2"))
            before.after(complete(Response(canceling=("A",)), rpc_token(), session=2))
        case _:
            before.after(stop())
    assert before.run().lending == {}
    before.after(lose())


def test_attr_7_rpcs_get_references_too() -> None:
    before = given(started(attributes=(("large", OLD), ("small", b"1")))).after(*connect())
    before.when(rpc()).then_effects(assigned(rpc_token(), attributes={"small": b"1"}, references=("large",)))
    before.after(set_attribute("large", NEW, request_id="s"))
    before.when(fetch("large", rpc_token())).then(effects=[part(OLD, rpc_token())])
    before.when(fetch("small", rpc_token())).then(effects=[part(delivered=rpc_token(), refusal="NOT_WITHHELD")])


# ---- messages ---------------------------------------------------------------------------------------------------


def messages_of(flow: Given, key: str, delivered: Token | None = None, after: str = "") -> tuple[list[bytes], bool]:
    (effect,) = flow.when(list_messages(key, delivered, after=after)).effects
    assert isinstance(effect, DeliverPart)
    return [message.value for message in effect.messages], effect.has_more


def test_chan_8_pending_messages_are_those_of_the_hand_over_that_are_still_there() -> None:
    """Published later, consumed or deleted since: not among them."""
    before = given(started(), scheduled("A-1")).after(publish("c", b"1", b"2", b"3", request_id="p"))
    before.after(*connect(), publish("c", b"4", request_id="q"))
    assert messages_of(before, "c") == ([b"1", b"2", b"3"], False)
    before.after(delete_message(message_ids(3, 3)[1], request_id="d"))
    assert messages_of(before, "c") == ([b"1", b"3"], False)
    assert messages_of(before, "c", after=message_ids(3, 3)[0]) == ([b"3"], False)
    assert messages_of(before, "d") == ([], False)
    assert [message.value for message in before.run().channels["c"]] == [b"1", b"3", b"4"]


def test_chan_8_an_rpc_sees_the_messages_of_its_hand_over() -> None:
    before = given(started()).after(publish("c", b"1", request_id="p"), *connect(), rpc())
    before.after(publish("c", b"2", request_id="q"))
    assert messages_of(before, "c", rpc_token()) == ([b"1"], False)


def test_chan_8_many_messages_come_in_pages() -> None:
    """By count and by size; a large message goes alone."""
    many = given(started(), scheduled("A-1")).after(publish("c", *[b"1"] * (FETCH_MESSAGES_MAX + 1)), *connect())
    first, has_more = messages_of(many, "c")
    assert (len(first), has_more) == (FETCH_MESSAGES_MAX, True)
    after = message_ids(3, FETCH_MESSAGES_MAX + 1)[FETCH_MESSAGES_MAX - 1]
    assert messages_of(many, "c", after=after) == ([b"1"], False)
    large = b"x" * (FETCH_BYTES_MAX + 1)
    heavy = given(started(), scheduled("A-1")).after(publish("c", large, b"2"), *connect())
    assert messages_of(heavy, "c") == ([large], True)


def test_attr_7_a_call_that_comes_when_nothing_is_large_any_more_gets_everything() -> None:
    """The one before still reads the old value."""
    before = given(started(attributes=(("k", LARGE),)), scheduled("A-1"), scheduled("A-2")).after(*connect())
    before.after(set_attribute("k", None)).after(stream(number=2))
    assert before.run().lending == {"A-1": None}
    assert not before.run().steps[StepExecutionId("A-2")].withheld
