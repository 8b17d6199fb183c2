"""What AttributeMap and ChannelMap share: one declared name, and something per instance key [ATTR-3, CHAN-6]."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from dexpb.v1.frames import MAP_KEY_SEPARATOR
from dexsdk._call import Call
from dexsdk._names import check_name
from dexsdk.context import Context

T = TypeVar("T")


class InstanceMap(ABC, Generic[T]):
    """A definition whose content is apart by instance key."""

    def __init__(self, name: str, value_type: type[T]) -> None:
        """Define the map; it is usable once it stands in the Flow's persistence schema [FLOW-4].

        Args:
            name: Unique among all definitions of the Flow.
            value_type: The only type its values may have.
        """
        self.name = name
        self.value_type = value_type

    def get_map_size(self, context: Context) -> int:
        """Count the instances that have content, with what this call changed."""
        return len(self.get_all_instance_keys(context))

    def get_all_instance_keys(self, context: Context) -> list[str]:
        """List the instances that have content ascending by code point, with what this call changed."""
        call = context.open_call()
        call.scope.codec_of(self)
        prefix = self.name + MAP_KEY_SEPARATOR
        return sorted({key.removeprefix(prefix) for key in self._keys(call) if key.startswith(prefix)})

    def key(self, instance: str) -> str:
        """Give the key under which an instance travels."""
        return self.name + MAP_KEY_SEPARATOR + check_name(instance, f"instance key of {self.name!r}")

    @abstractmethod
    def _keys(self, call: Call) -> Iterable[str]:
        """Keys with content in the call's view, those of other definitions among them."""
