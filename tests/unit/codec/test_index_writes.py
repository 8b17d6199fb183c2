"""Index values and keys from outside [ATTR-9, ATTR-10, LIM-2]."""

import pytest

from dexd.codec.index_writes import (
    IndexValueTooLargeError,
    from_index_row,
    to_index_keys,
    writes_of_frames,
    writes_of_proto,
)
from dexd.core.index_values import IndexType, IndexValue, IndexWrite
from dexd.log.event_log import IndexRow
from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames


@pytest.mark.parametrize(
    ("number", "value", "json"),
    [
        (1, "a\0b", b'"a\\u0000b"'),
        (2, "some words", b'"some words"'),
        (3, ("a", "b"), b'["a","b"]'),
        (4, 2**63 - 1, b"9223372036854775807"),
        (5, 1.5, b"1.5"),
        (6, True, b"true"),
        (7, -1, b"-1"),
    ],
)
def test_attr_9_values_of_every_type_come_from_workers_and_clients(number: int, value: IndexValue, json: bytes) -> None:
    expected = (IndexWrite("k", IndexType(number), value),)
    assert writes_of_frames([frames.IndexWrite("k", number, value)]) == expected
    assert writes_of_proto([pb.IndexWrite(key="k", type=number, value=json)]) == expected
    row = IndexRow(1, "k", value if isinstance(value, tuple) else (value,), is_text=number == 2)
    shown = from_index_row(row, {"k": IndexType(number)})
    assert (shown.key, shown.type, shown.value) == ("k", number, json)


def test_attr_9_nothing_and_an_empty_array_delete() -> None:
    deleted = (IndexWrite("k", IndexType.KEYWORD_ARRAY),)
    assert writes_of_frames([frames.IndexWrite("k", 3)]) == deleted
    assert writes_of_frames([frames.IndexWrite("k", 3, ())]) == deleted
    assert writes_of_proto([pb.IndexWrite(key="k", type=3)]) == deleted


def test_a_whole_double_stays_a_double() -> None:
    """Some encoders write it without a point."""
    (written,) = writes_of_proto([pb.IndexWrite(key="k", type=5, value=b"3")])
    assert written.value == 3.0
    assert type(written.value) is float


@pytest.mark.parametrize(
    ("number", "value"),
    [(1, 1), (2, ("a",)), (3, "a"), (4, True), (4, 1.5), (4, 2**63), (5, "1"), (5, True), (6, 1), (7, "now")],
)
def test_attr_9_values_of_another_type_are_refused(number: int, value: IndexValue) -> None:
    with pytest.raises(ValueError, match="index key 'k' is"):
        writes_of_frames([frames.IndexWrite("k", number, value)])


@pytest.mark.parametrize(("number", "value"), [(1, "\u00e9" * 2_049), (3, ("a", "x" * 4_097)), (2, "x" * 1_048_577)])
def test_lim_2_values_are_limited_in_bytes(number: int, value: IndexValue) -> None:
    with pytest.raises(IndexValueTooLargeError) as raised:
        writes_of_frames([frames.IndexWrite("k", number, value)])
    assert raised.value.size > raised.value.limit
    assert "'k'" in raised.value.what


def test_lim_2_the_limits_themselves_are_allowed() -> None:
    writes_of_frames([frames.IndexWrite("k", 1, "\u00e9" * 2_048), frames.IndexWrite("t", 2, "x" * 1_048_576)])
    writes_of_frames([frames.IndexWrite("k", 3, ("a",) * 1_000)])
    with pytest.raises(ValueError, match="1001 elements"):
        writes_of_frames([frames.IndexWrite("k", 3, ("a",) * 1_001)])


@pytest.mark.parametrize(
    ("key", "number", "match"),
    [
        ("", 1, "1 to 255"),
        ("sys:x", 1, "reserved"),
        ("a\0b", 1, "control"),
        ("Status", 1, "every Flow has"),
        ("k", 0, "has the type 0"),
        ("k", 8, "has the type 8"),
    ],
)
def test_keys_are_names_with_a_known_type(key: str, number: int, match: str) -> None:
    for fails in (
        lambda: to_index_keys([frames.IndexKey(key, number)]),
        lambda: writes_of_proto([pb.IndexWrite(key=key, type=number, value=b'"v"')]),
    ):
        with pytest.raises(ValueError, match=match):
            fails()


def test_attr_10_a_key_is_named_with_one_type() -> None:
    keys = [pb.IndexKey(key="k", type=1), pb.IndexKey(key="n", type=4), pb.IndexKey(key="k", type=1)]
    assert to_index_keys(keys) == {"k": IndexType.KEYWORD, "n": IndexType.INT}
    with pytest.raises(ValueError, match="named as KEYWORD and as INT"):
        to_index_keys([*keys, pb.IndexKey(key="k", type=4)])


@pytest.mark.parametrize("json", [b"", b"{}", b"[1]", b"nul", b'"\\ud800"'])
def test_values_that_are_no_json_of_an_index_value_are_refused(json: bytes) -> None:
    with pytest.raises(ValueError, match="no JSON"):
        writes_of_proto([pb.IndexWrite(key="k", type=1, value=json)])
