"""Canonical values: what may travel, how it looks, and where a fault is [VAL-1..5, TYPE-2]."""

import dataclasses
import enum
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dexsdk import CodecRegistry, FlowDefinitionError, JsonCodec, ValueMappingError, ValueTooLargeError
from dexsdk import _codec as codec_module
from dexsdk._codec import decode_value, encode_value
from dexsdk._value_checks import UnfitValueError

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Line:
    sku: str
    qty: int
    price: float = 0.0


@dataclasses.dataclass
class Order:
    id: str
    lines: list[Line] = dataclasses.field(default_factory=list)
    parent: "Order | None" = None


@dataclasses.dataclass
class RushOrder(Order):
    factor: float = 1.0


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]


class Point(msgspec.Struct):
    x: int
    y: int


class Pair(NamedTuple):
    left: int
    right: str


class Options(TypedDict, total=False):
    depth: int


class Model(pydantic.BaseModel):
    count: int
    at: datetime
    ratio: float = 1.0


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    __hash__ = None  # type: ignore[assignment] # compared only


MONEY = JsonCodec("Money", lambda data: Money(data["cents"]), lambda money: {"cents": money.cents}, Money)


@dataclasses.dataclass
class Invoice:
    total: Money


def encode(annotation: Any, value: Any) -> bytes:
    return encode_value(CodecRegistry().resolve(annotation), value, "place")


def decode(annotation: Any, data: bytes) -> Any:
    return decode_value(CodecRegistry().resolve(annotation), data, "place")


def mapping_error(annotation: Any, value: Any) -> ValueMappingError:
    with pytest.raises(ValueMappingError) as caught:
        encode(annotation, value)
    return caught.value


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (None, None),
        (bool, True),
        (int, -(2**63)),
        (int, 2**53 + 1),
        (float, 0.1),
        (float, 5e-324),
        (str, "a\0b\u2028\U0001f600"),
        (bytes, b"\0\xff"),
        (datetime, datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
        (date, date(2026, 1, 2)),
        (Decimal, Decimal("1.10")),
        (Color, Color.RED),
        (Literal["a", 1], 1),
        (list[int], [1, 2]),
        (tuple[int, str], (1, "a")),
        (tuple[int, ...], (1, 2, 3)),
        (set[str], {"b", "a"}),
        (frozenset[int], frozenset({1})),
        (dict[str, list[int]], {"b": [1], "a": []}),
        (int | str | None, None),
        (Order, Order("o", [Line("s", 1, 2.5)], Order("p"))),
        (Page[int], Page([1])),
        (Point, Point(1, 2)),
        (Pair, Pair(1, "r")),
        (Options, {"depth": 3}),
        (Model, Model(count=1, at=datetime(2026, 1, 2, tzinfo=UTC))),
    ],
)
def test_val_1_values_come_back_as_their_annotated_type(annotation: Any, value: Any) -> None:
    back = decode(annotation, encode(annotation, value))
    assert back == value
    assert type(back) is type(value)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=4), children, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_val_2_values_without_annotation_come_back_exactly(value: Any) -> None:
    data = encode(Any, value)
    assert decode(Any, data) == value
    assert encode(Any, decode(Any, data)) == data


def test_val_3_equal_values_have_equal_compact_sorted_bytes() -> None:
    assert encode(dict[str, Any], {"b": {3, 1}, "a": Point(1, 2)}) == b'{"a":{"x":1,"y":2},"b":[1,3]}'
    assert encode(Order, Order("o")) == b'{"id":"o","lines":[],"parent":null}'


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (Order("o", [Line("s", 2**63)]), "$.lines[0].qty", "outside int64"),
        (Order("o", [Line("s", 1), Line("s", 1, math.nan)]), "$.lines[1].price", "not a finite number"),
        (Order("o\ud800"), "$.id", "lone surrogate U+D800 at character 1"),
        (RushOrder("o", factor=math.inf), "$.factor", "not a finite number"),
        ([{"odd key": -(2**63) - 1}], "$[0]['odd key']", "outside int64"),
        ({"k\ud800": 1}, "$['k\\ud800']", "lone surrogate"),
        ({1: 2}, "$[1]", "only str keys"),
        ([object()], "$[0]", "builtins.object is no value type"),
        (Model(count=1, at=datetime(2026, 1, 1, tzinfo=UTC), ratio=math.nan), "$.ratio", "not a finite number"),
        ({"a", 1}, "$", "cannot be encoded"),
    ],
)
def test_val_2_what_json_cannot_carry_is_found_with_its_path(value: Any, path: str, reason: str) -> None:
    for annotation in (Any, type(value)):
        error = mapping_error(annotation, value)
        assert error.path == path
        assert reason in error.reason
        assert str(error).startswith(f"place: {path}: ")


def test_val_2_a_value_that_contains_itself_is_found_with_its_path() -> None:
    order = Order("o")
    order.parent = Order("p", parent=order)
    assert mapping_error(Order, order).path == "$.parent.parent"
    items: list[Any] = [1]
    items.append({"again": items})
    error = mapping_error(Any, items)
    assert error.path == "$[1].again"
    assert error.reason == "the value contains itself"


def test_val_2_too_deep_a_value_is_refused_not_crashed_on() -> None:
    items: list[Any] = []
    for _ in range(100_000):
        items = [items]
    assert mapping_error(Any, items).reason == "nested too deeply"


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (int, True, "$"),
        (int, 1.0, "$"),
        (float, True, "$"),
        (float, "1", "$"),
        (bool, 1, "$"),
        (str, b"a", "$"),
        (date, datetime(2026, 1, 1, tzinfo=UTC), "$"),
        (None, 0, "$"),
        (Order, {"id": "o"}, "$"),
        (Order, Order("o", [Line("s", "1")]), "$.lines[0].qty"),  # type: ignore[arg-type] # the wrong type is the case
        (list[int], [1, "2"], "$[1]"),
        (tuple[int, str], (1, 2), "$[1]"),
        (tuple[int, str], (1,), "$"),
        (dict[str, int], {"a": None}, "$.a"),
        (set[int], [1], "$"),
        (int | list[str], ["a", 1], "$[1]"),
        (Literal["a"], "b", "$"),
        (Color, "red", "$"),
        (Options, {"depth": "x"}, "$.depth"),
        (Model, {"count": 1}, "$"),
    ],
)
def test_type_2_a_value_of_the_wrong_type_is_a_definition_error_with_its_path(
    annotation: Any, value: Any, path: str
) -> None:
    with pytest.raises(FlowDefinitionError) as caught:
        encode(annotation, value)
    assert str(caught.value).startswith(f"place: {path}: ")


def test_val_4_an_int_is_accepted_for_a_float() -> None:
    assert decode(float, encode(float, 3)) == 3.0


@pytest.mark.parametrize(
    ("annotation", "data", "path"),
    [
        (int, b"true", "$"),
        (int, b"1.0", "$"),
        (float, b"true", "$"),
        (int, b"9223372036854775808", "$"),
        (Order, b'{"id":"o","lines":[{"sku":"s","qty":9223372036854775808}]}', "$.lines[0].qty"),
        (Order, b'{"id":"o","lines":[{"sku":"s","qty":"1"}]}', "$.lines[0].qty"),
        (Order, b"{}", "$"),
        (Model, b'{"count":true,"at":"2026-01-01T00:00:00Z"}', "$"),
        (Any, b"{", "$"),
    ],
)
def test_val_4_decoding_is_strict_and_names_the_path(annotation: Any, data: bytes, path: str) -> None:
    with pytest.raises(ValueMappingError) as caught:
        decode(annotation, data)
    assert caught.value.path == path


def test_val_4_unknown_fields_are_ignored_and_missing_ones_take_their_default() -> None:
    assert decode(Line, b'{"sku":"s","qty":1,"new":[1]}') == Line("s", 1)


def test_err_3_a_pydantic_refusal_does_not_repeat_the_payload() -> None:
    with pytest.raises(ValueMappingError) as caught:
        decode(Model, b'{"count":"secret","at":"2026-01-01T00:00:00Z"}')
    assert "count" in caught.value.reason
    assert "secret" not in str(caught.value)


def test_val_1_own_types_travel_by_their_codec_also_inside_other_types() -> None:
    codecs = CodecRegistry({Money: MONEY})
    assert encode_value(codecs.resolve(Money), Money(5), "place") == b'{"cents":5}'
    assert encode_value(codecs.resolve(Invoice), Invoice(Money(5)), "place") == b'{"total":{"cents":5}}'
    assert decode_value(codecs.resolve(Invoice), b'{"total":{"cents":5}}', "place") == Invoice(Money(5))
    assert codecs.codec_of(Money(1)).encode(Money(1)) == b'{"cents":1}'


def test_val_5_faults_of_an_own_codec_are_faults_of_the_value() -> None:
    codecs = CodecRegistry({Money: MONEY})
    with pytest.raises(FlowDefinitionError, match="expected Money, got int"):
        encode_value(codecs.resolve(Money), 5, "place")
    with pytest.raises(ValueMappingError, match="cents"):
        decode_value(codecs.resolve(Money), b"{}", "place")
    with pytest.raises(ValueMappingError, match="finite"):
        encode_value(codecs.resolve(Money), Money(math.nan), "place")  # type: ignore[arg-type] # the case


@pytest.mark.parametrize("annotation", [complex, dict[int, str], list[int] | set[int], "Unknown", Mapping[bytes, int]])
def test_reg_1_annotations_whose_values_cannot_travel_are_definition_errors(annotation: Any) -> None:
    with pytest.raises(FlowDefinitionError, match="annotation"):
        CodecRegistry().resolve(annotation)


def test_val_1_abstract_collections_are_annotations_too() -> None:
    assert encode(Sequence[int], (1, 2)) == b"[1,2]"
    assert encode(Mapping[str, int], {"a": 1}) == b'{"a":1}'


def test_val_1_a_codec_is_compiled_once_per_annotation() -> None:
    codecs = CodecRegistry()
    assert codecs.resolve(list[int]) is codecs.resolve(list[int])


def test_val_1_subclasses_of_builtins_travel_as_the_builtin() -> None:
    class Name(str):
        __slots__ = ()

    assert encode(Any, {"a": Name("x")}) == b'{"a":"x"}'
    assert encode(str, Name("x")) == b'"x"'


def test_lim_3_a_value_above_its_limit_names_size_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec_module, "VALUE_BYTES_MAX", 8)
    registry = CodecRegistry({Point: JsonCodec("point", lambda _: Point(1, 2), lambda _: "1234567", Point)})
    for codec, value in ((registry.resolve(str), "1234567"), (registry.resolve(Point), Point(1, 2))):
        with pytest.raises(ValueTooLargeError) as caught:
            encode_value(codec, value, "Flow 'F', Step 'S', execute, output")
        assert (caught.value.what, caught.value.size, caught.value.limit) == ("value", 9, 8)
        assert "in Flow 'F', Step 'S', execute, output has size 9, the limit is 8" in str(caught.value)


@dataclasses.dataclass
class Fork:
    left: "Fork | None" = None
    right: "Fork | None" = None
    at: Point = dataclasses.field(default_factory=lambda: Point(1, 2))


class Nested(TypedDict):
    name: str
    inner: "Nested | None"


def test_val_1_types_that_name_themselves_are_checked_to_the_bottom() -> None:
    fork = Fork(Fork(None, Fork(at=Point(1, 2**63))))
    assert mapping_error(Fork, fork).path == "$.left.right.at.y"
    nested: Nested = {"name": "a", "inner": {"name": "b", "inner": None}}
    assert decode(Nested, encode(Nested, nested)) == nested
    with pytest.raises(FlowDefinitionError, match=r"place: \$.inner: Nested lacks name"):
        encode(Nested, {"name": "a", "inner": {"inner": None}})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (tuple[int, str], [1, "a"]),
        (dict[str, int], [1]),
        (Options, [1]),
        (list[int], {1}),
        (int | str, 1.5),
        (Fork, Point(1, 2)),
        (bytes, "a"),
    ],
)
def test_type_2_a_container_of_another_kind_is_refused(annotation: Any, value: Any) -> None:
    with pytest.raises(FlowDefinitionError, match=r"place: \$: "):
        encode(annotation, value)


def test_val_1_values_without_annotation_travel_by_what_they_are() -> None:
    class Count(int):
        pass

    class Ratio(float):
        pass

    class Raw(bytes):
        pass

    value = {
        "enum": Color.RED,
        "struct": Point(1, 2),
        "dataclass": Line("s", 1),
        "model": Model(count=1, at=datetime(2026, 1, 1, tzinfo=UTC)),
        "mapping": MappingProxyType({"a": 1}),
        "numbers": [Count(1), Ratio(0.5)],
        "bytes": Raw(b"x"),
    }
    assert decode(Any, encode(Any, value)) == {
        "enum": "red",
        "struct": {"x": 1, "y": 2},
        "dataclass": {"sku": "s", "qty": 1, "price": 0.0},
        "model": {"count": 1, "at": "2026-01-01T00:00:00Z", "ratio": 1.0},
        "mapping": {"a": 1},
        "numbers": [1, 0.5],
        "bytes": "eA==",
    }


def test_val_2_cycles_are_found_through_every_kind_of_value() -> None:
    class Node(msgspec.Struct):
        child: Any = None

    class Holder(pydantic.BaseModel):
        child: Any = None

    node, holder = Node(), Holder()
    node.child = holder
    holder.child = (node,)
    assert mapping_error(Any, node).path == "$.child.child[0]"


def test_val_1_object_means_anything() -> None:
    assert decode(object, encode(object, {"a": [1]})) == {"a": [1]}
    assert decode(list[object], encode(list[object], [1, "a"])) == [1, "a"]


def test_val_1_an_annotation_with_unhashable_metadata_still_has_a_codec() -> None:
    assert encode(Annotated[int, ["note"]], 5) == b"5"


def test_val_5_an_own_codec_that_writes_no_json_is_a_fault_of_the_value() -> None:
    class Broken:
        def encode(self, value: Money) -> bytes:
            return b"{"

        def decode(self, data: bytes) -> Money:
            raise UnfitValueError("never", path=".x")

    codec = CodecRegistry({Money: Broken()}).resolve(Money)
    with pytest.raises(ValueMappingError, match="own codec cannot encode Money"):
        encode_value(codec, Money(1), "place")
    with pytest.raises(ValueMappingError, match=r"place: \$.x: never"):
        decode_value(codec, b"1", "place")
