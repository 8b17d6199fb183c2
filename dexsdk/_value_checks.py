"""The pieces that checks of values are made of: leaves, containers, and the walk through them [VAL-2, VAL-4].

Checks know nothing of Flows or codecs: they raise UnfitValueError with a path, and callers say where that was.
"""

import datetime as dt
import decimal
import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import inspect as annotations

Check: TypeAlias = Callable[[Any], None]
"""Raises UnfitValueError for a value that may not travel."""

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1


class UnfitValueError(ValueError):
    """Why a value may not travel, and where inside it; the path grows outwards while the walk unwinds."""

    def __init__(self, reason: str, *, is_wrong_type: bool = False, path: str = "") -> None:
        self.reason = reason
        self.is_wrong_type = is_wrong_type
        """The value does not fit its annotation, as opposed to a value that JSON cannot carry."""
        self._steps = [path] if path else []
        super().__init__(reason)

    def within(self, step: str) -> None:
        """Put the path inside one more container."""
        self._steps.append(step)

    @property
    def path(self) -> str:
        """Path from the outermost value, ``$``."""
        return "$" + "".join(reversed(self._steps))


# ---- leaves -----------------------------------------------------------------------------------------------------


def wrong_type(expected: str, value: object) -> UnfitValueError:
    return UnfitValueError(f"expected {expected}, got {type(value).__name__}", is_wrong_type=True)


def _check_int(value: Any) -> None:
    # bool is an int to Python, not to us [VAL-4].
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, int)):
        raise wrong_type("int", value)
    if not INT_MIN <= value <= INT_MAX:
        raise UnfitValueError(f"an int of {value.bit_length()} bits is outside int64")


def _check_float(value: Any) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnfitValueError(f"{value!r} is not a finite number")
    elif isinstance(value, int):
        if isinstance(value, bool):
            raise wrong_type("float", value)
        _check_int(value)
    else:
        raise wrong_type("float", value)


def _check_str(value: Any) -> None:
    if not isinstance(value, str):
        raise wrong_type("str", value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            reason = f"lone surrogate U+{ord(value[error.start]):04X} at character {error.start}"
            raise UnfitValueError(reason) from None


def _check_bool(value: Any) -> None:
    if value is not True and value is not False:
        raise wrong_type("bool", value)


def _check_none(value: Any) -> None:
    if value is not None:
        raise wrong_type("None", value)


def _check_date(value: Any) -> None:
    # A datetime is a date to Python, but is written with a time that no date can be read from.
    if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
        raise wrong_type("date", value)


def _pass(value: Any) -> None:
    """Accept a value whose class says everything."""


def plain_builtin(value: str | float) -> str | int | float:
    """Strip a subclass of a builtin down to the builtin, which is all that the encoder knows."""
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if isinstance(value, int) else float(value)


def instance_check(*classes: type, name: str = "") -> Check:
    expected = name or classes[0].__qualname__

    def check(value: Any) -> None:
        if not isinstance(value, classes):
            raise wrong_type(expected, value)

    return check


def literal_check(values: Iterable[object]) -> Check:
    """Accept exactly the given values; True is not 1."""
    allowed = frozenset((type(value), value) for value in values)
    expected = " or ".join(sorted(repr(value) for _, value in allowed))

    def check(value: Any) -> None:
        if isinstance(value, str | int | None) and (type(value), value) in allowed:
            return
        raise UnfitValueError(f"expected {expected}", is_wrong_type=True)

    return check


# ---- containers -------------------------------------------------------------------------------------------------


def key_step(key: object) -> str:
    if isinstance(key, str):
        return f".{key}" if key.isidentifier() else f"[{key!r}]"
    return f"[{key!r}]"


def walk_sequence(value: Iterable[Any], check: Check) -> None:
    index = 0
    try:
        for index, item in enumerate(value):  # noqa: B007 -- the index is read when an item is refused
            check(item)
    except UnfitValueError as fault:
        fault.within(f"[{index}]")
        raise


def walk_mapping(value: Mapping[Any, Any], check: Check) -> None:
    key: Any = None
    try:
        for key, item in value.items():
            if not isinstance(key, str):
                raise UnfitValueError(f"mapping key of type {type(key).__name__}, only str keys can travel")
            _check_str(key)
            check(item)
    except UnfitValueError as fault:
        fault.within(key_step(key))
        raise


def walk_fields(value: Any, checks: Iterable[tuple[str, Check]]) -> None:
    name = ""
    try:
        for name, check in checks:
            check(getattr(value, name))
    except UnfitValueError as fault:
        fault.within("." + name)
        raise


def sequence_check(name: str, check_item: Check, accepts: tuple[type[Iterable[Any]], ...]) -> Check:
    """Accept containers of the given classes whose items pass."""

    def check(value: Any) -> None:
        if isinstance(value, accepts):
            walk_sequence(value, check_item)
        else:
            raise wrong_type(name, value)

    return check


def tuple_check(check_items: list[Check]) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, tuple):
            raise wrong_type("tuple", value)
        if len(value) != len(check_items):
            raise UnfitValueError(f"expected a tuple of {len(check_items)}, got {len(value)} items", is_wrong_type=True)
        for index, (check_item, item) in enumerate(zip(check_items, value, strict=True)):
            try:
                check_item(item)
            except UnfitValueError as fault:
                fault.within(f"[{index}]")
                raise

    return check


def mapping_check(check_item: Check) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, Mapping):
            raise wrong_type("mapping", value)
        walk_mapping(value, check_item)

    return check


def typed_dict_check(name: str, required: frozenset[str], checks: Mapping[str, Check], dynamic: Check) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise wrong_type(name, value)
        missing = required - value.keys()
        if missing:
            raise UnfitValueError(f"{name} lacks {', '.join(sorted(missing))}", is_wrong_type=True)
        for key, item in value.items():
            try:
                _check_str(key)
                checks.get(key, dynamic)(item)
            except UnfitValueError as fault:
                fault.within(key_step(key))
                raise

    return check


def optional_check(check_present: Check) -> Check:
    """Accept None, or what the other check accepts."""

    def check(value: Any) -> None:
        if value is not None:
            check_present(value)

    return check


def union_check(members: list[Check]) -> Check:
    """Accept what one member accepts; a value that JSON cannot carry is refused by the member it fits."""

    def check(value: Any) -> None:
        deepest: UnfitValueError | None = None
        for member in members:
            try:
                member(value)
            except UnfitValueError as fault:
                if not fault.is_wrong_type:
                    raise
                if fault.path != "$" and (deepest is None or len(fault.path) > len(deepest.path)):
                    deepest = fault
            else:
                return
        raise deepest or UnfitValueError(f"{type(value).__name__} fits no member of the union", is_wrong_type=True)

    return check


def fields_check(cls: type, checks: list[tuple[str, Check]], dynamic: Check) -> Check:
    def check(value: Any) -> None:
        if type(value) is not cls:
            if not isinstance(value, cls):
                raise wrong_type(cls.__qualname__, value)
            # A subclass is encoded with all its fields, also those that the annotation does not know.
            dynamic(value)
        walk_fields(value, checks)

    return check


def pydantic_check(cls: type, dynamic: Check) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, cls):
            raise wrong_type(cls.__qualname__, value)
        walk_mapping(vars(value), dynamic)

    return check


# ---- which check for which type ---------------------------------------------------------------------------------

PASSED_BY_ENCODER = (
    bytes,
    bytearray,
    memoryview,
    dt.datetime,
    dt.date,
    dt.time,
    dt.timedelta,
    decimal.Decimal,
    uuid.UUID,
)
"""Classes without content to check that the JSON encoder writes exactly."""

CHECK_BY_ANNOTATION: Mapping[type[annotations.Type], Check] = {
    annotations.IntType: _check_int,
    annotations.FloatType: _check_float,
    annotations.StrType: _check_str,
    annotations.BoolType: _check_bool,
    annotations.NoneType: _check_none,
    annotations.BytesType: instance_check(bytes),
    annotations.ByteArrayType: instance_check(bytearray),
    annotations.MemoryViewType: instance_check(memoryview),
    annotations.DateTimeType: instance_check(dt.datetime),
    annotations.DateType: _check_date,
    annotations.TimeType: instance_check(dt.time),
    annotations.TimeDeltaType: instance_check(dt.timedelta),
    annotations.DecimalType: instance_check(decimal.Decimal),
    annotations.UUIDType: instance_check(uuid.UUID),
}
"""Checks of annotations without parameters."""

CHECK_BY_CLASS: Mapping[type, Check] = {
    str: _check_str,
    int: _check_int,
    float: _check_float,
    bool: _pass,
    type(None): _pass,
    **dict.fromkeys(PASSED_BY_ENCODER, _pass),
}
"""Checks of leaves that have no annotation, by exact class."""
