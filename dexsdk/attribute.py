"""Typed durable variables of one execution [ATTR-1..6]."""

from typing import Any, Generic, TypeAlias, TypeVar

from dexpb.v1.frames import MAP_KEY_SEPARATOR
from dexsdk._call import Call
from dexsdk._names import check_name
from dexsdk.context import Context

T = TypeVar("T")


class Attribute(Generic[T]):
    """A durable variable; handlers work on a snapshot and their writes commit with the response [ATTR-2]."""

    def __init__(self, name: str, value_type: type[T]) -> None:
        """Define the variable; it is usable once it stands in the Flow's persistence schema [FLOW-4].

        Args:
            name: Unique among all definitions of the Flow.
            value_type: The only type its values may have.
        """
        self.name = name
        self.value_type = value_type

    def get(self, context: Context) -> T:
        """Give the value of the snapshot, or what this call wrote.

        Raises:
            KeyError: it is not set.
        """
        value: T = _read(context.open_call(), self, self.name)
        return value

    def set(self, context: Context, value: T | None) -> None:
        """Write the value with the response; None deletes."""
        _write(context.open_call(), self, self.name, value)

    def delete(self, context: Context) -> None:
        """Delete the value with the response."""
        _write(context.open_call(), self, self.name, None)

    def key(self) -> str:
        """Give the key under which the value travels."""
        return self.name


class AttributeMap(Generic[T]):
    """One declared name with a variable per instance key [ATTR-3]."""

    def __init__(self, name: str, value_type: type[T]) -> None:
        """Define the map; it is usable once it stands in the Flow's persistence schema [FLOW-4].

        Args:
            name: Unique among all definitions of the Flow.
            value_type: The only type its values may have.
        """
        self.name = name
        self.value_type = value_type

    def get(self, context: Context, instance: str) -> T:
        """Give an instance's value of the snapshot, or what this call wrote.

        Raises:
            KeyError: it is not set.
        """
        value: T = _read(context.open_call(), self, self.key(instance))
        return value

    def set(self, context: Context, instance: str, value: T | None) -> None:
        """Write an instance's value with the response; None deletes."""
        _write(context.open_call(), self, self.key(instance), value)

    def delete(self, context: Context, instance: str) -> None:
        """Delete an instance with the response."""
        _write(context.open_call(), self, self.key(instance), None)

    def get_map_size(self, context: Context) -> int:
        """Count the instances, this call's writes included."""
        return len(self.get_all_instance_keys(context))

    def get_all_instance_keys(self, context: Context) -> list[str]:
        """List the instance keys ascending by code point, this call's writes included."""
        call = context.open_call()
        call.scope.codec_of(self)
        prefix = self.name + MAP_KEY_SEPARATOR
        keys = {key for key in call.assign.attributes if key.startswith(prefix)}
        for key, data in call.written.items():
            if key.startswith(prefix):
                (keys.discard if data is None else keys.add)(key)
        return sorted(key.removeprefix(prefix) for key in keys)

    def key(self, instance: str) -> str:
        """Give the key under which an instance's value travels."""
        return self.name + MAP_KEY_SEPARATOR + check_name(instance, f"instance key of {self.name!r}")


AnyAttribute: TypeAlias = Attribute[Any] | AttributeMap[Any]


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


def _read(call: Call, attribute: AnyAttribute, key: str) -> Any:
    codec = call.scope.codec_of(attribute)
    data = call.written[key] if key in call.written else call.assign.attributes.get(key)
    if data is None:
        raise KeyError(f"{call.place}: Attribute {_shown(key)} is not set")
    return call.decode(codec, data, "Attribute", attribute.name)


def _write(call: Call, attribute: AnyAttribute, key: str, value: Any) -> None:
    codec = call.scope.codec_of(attribute)
    data = None if value is None else call.encode(codec, value, "Attribute", attribute.name)
    # Writes are applied in call order, and of several to one key only the last counts [ATTR-2].
    call.written.pop(key, None)
    call.written[key] = data


def _shown(key: str) -> str:
    name, separator, instance = key.partition(MAP_KEY_SEPARATOR)
    return f"{name!r}[{instance!r}]" if separator else repr(name)
