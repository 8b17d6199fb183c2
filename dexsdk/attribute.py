"""Typed durable variables of one execution [ATTR-1..6]."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Generic, TypeAlias, TypeVar, overload

from dexpb.v1.frames import MAP_KEY_SEPARATOR
from dexsdk._call import Call
from dexsdk._instance_map import InstanceMap
from dexsdk.attribute_index import AttributeIndex
from dexsdk.context import Context
from dexsdk.errors import ValueTooLargeError

T = TypeVar("T")

_NO_DEFAULT: Final = object()

MAP_INSTANCES_MAX = 100_000
"""Instances of all AttributeMaps of one execution [LIM-2]."""


class Attribute(Generic[T]):
    """A durable variable; handlers work on a snapshot and their writes commit with the response [ATTR-2]."""

    def __init__(self, name: str, value_type: type[T], index: AttributeIndex | None = None) -> None:
        """Define the variable; it is usable once it stands in the Flow's persistence schema [FLOW-4].

        Args:
            name: Unique among all definitions of the Flow.
            value_type: The only type its values may have.
            index: Lets search find Flows by the value [ATTR-9].
        """
        self.name = name
        self.value_type = value_type
        self.index = index

    @overload
    def get(self, context: Context) -> T: ...
    @overload
    def get(self, context: Context, *, default: T) -> T: ...
    @overload
    def get(self, context: Context, *, default: None) -> T | None: ...
    def get(self, context: Context, *, default: object = _NO_DEFAULT) -> Any:
        """Give the value of the snapshot, or what this call wrote.

        Args:
            context: The handler's.
            default: Given when it is not set.

        Raises:
            KeyError: it is not set, and there is no default.
        """
        return _read(context.open_call(), self, self.name, default)

    def set(self, context: Context, value: T | None) -> None:
        """Write the value with the response; None deletes."""
        _write(context.open_call(), self, self.name, value)

    def delete(self, context: Context) -> None:
        """Delete the value with the response."""
        _write(context.open_call(), self, self.name, None)

    def lock(self) -> "AttributeLock":
        """Name the variable in a list of locks [LOCK-1]."""
        return AttributeLock(self)

    def key(self) -> str:
        """Give the key under which the value travels."""
        return self.name


class AttributeMap(InstanceMap[T]):
    """One declared name with a variable per instance key [ATTR-3]."""

    def __init__(self, name: str, value_type: type[T], index: AttributeIndex | None = None) -> None:
        """Define the map; see Attribute. An index must name its key, which all instances write [ATTR-9]."""
        super().__init__(name, value_type)
        self.index = index

    @overload
    def get(self, context: Context, instance: str) -> T: ...
    @overload
    def get(self, context: Context, instance: str, *, default: T) -> T: ...
    @overload
    def get(self, context: Context, instance: str, *, default: None) -> T | None: ...
    def get(self, context: Context, instance: str, *, default: object = _NO_DEFAULT) -> Any:
        """Give an instance's value of the snapshot, or what this call wrote; see Attribute."""
        return _read(context.open_call(), self, self.key(instance), default)

    def set(self, context: Context, instance: str, value: T | None) -> None:
        """Write an instance's value with the response; None deletes."""
        _write(context.open_call(), self, self.key(instance), value)

    def delete(self, context: Context, instance: str) -> None:
        """Delete an instance with the response."""
        _write(context.open_call(), self, self.key(instance), None)

    def lock(self, instance: str) -> "AttributeLock":
        """Name one instance in a list of locks; the others are not concerned [LOCK-1, ATTR-3]."""
        return AttributeLock(self, (instance,))

    def _keys(self, call: Call) -> Iterable[str]:
        unread = call.assign.references
        unchanged = (key for key in chain(call.assign.attributes, unread) if key not in call.written)
        return chain(unchanged, (key for key, data in call.written.items() if data is not None))


AnyAttribute: TypeAlias = Attribute[Any] | AttributeMap[Any]


@dataclass(frozen=True)
class AttributeLock:
    """An exclusive lock inside one execution, for the methods that list it; made by ``lock`` [LOCK-1..6]."""

    attribute: AnyAttribute
    instance: tuple[str, ...] = ()
    """The instance key, for a map; the Registry checks that it fits [LOCK-6]."""


def key_of(attribute: AnyAttribute, *instance: str) -> str:
    """Give the key of a plain Attribute, or of one instance of a map.

    Raises:
        ValueError: an instance key is missing, or given for a plain Attribute.
    """
    if isinstance(attribute, AttributeMap):
        if len(instance) != 1:
            raise ValueError(f"AttributeMap {attribute.name!r} needs exactly one instance key")
        return attribute.key(instance[0])
    if instance:
        raise ValueError(f"Attribute {attribute.name!r} is no map and takes no instance key")
    return attribute.key()


def _read(call: Call, attribute: AnyAttribute, key: str, default: object) -> Any:
    codec = call.scope.codec_of(attribute)
    data = call.written[key] if key in call.written else call.attribute(key)
    if data is None and default is not _NO_DEFAULT:
        return default
    if data is None:
        raise KeyError(f"{call.place}: Attribute {_shown(key)} is not set")
    return call.decode(codec, data, "Attribute", attribute.name)


def _write(call: Call, attribute: AnyAttribute, key: str, value: Any) -> None:
    codec = call.scope.codec_of(attribute)
    data = None if value is None else call.encode(codec, value, "Attribute", attribute.name)
    if data is not None and isinstance(attribute, AttributeMap):
        _check_instances(call, key)
    if attribute.index is not None:
        write = call.scope.index_write(attribute, value, f"{call.place}, Attribute {attribute.name!r}")
        call.indexed[write.key] = write
    # Writes are applied in call order, and of several to one key only the last counts [ATTR-2].
    call.written.pop(key, None)
    call.written[key] = data


def _check_instances(call: Call, key: str) -> None:
    """Refuse one map instance too many [LIM-2]; they are only counted when that is possible at all."""
    assign, written = call.assign, call.written
    if len(assign.attributes) + len(assign.references) + len(written) < MAP_INSTANCES_MAX:
        return
    kept = [known for known in chain(assign.attributes, assign.references) if known not in written]
    kept += [known for known, data in written.items() if data is not None]
    count = sum(1 for known in kept if MAP_KEY_SEPARATOR in known and known != key) + 1
    if count > MAP_INSTANCES_MAX:
        raise ValueTooLargeError.of("map instances", call.place, count, MAP_INSTANCES_MAX)


def _shown(key: str) -> str:
    name, separator, instance = key.partition(MAP_KEY_SEPARATOR)
    return f"{name!r}[{instance!r}]" if separator else repr(name)
