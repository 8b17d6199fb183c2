"""Locks of Step methods and RPCs as Attribute keys, checked against the schema [LOCK-1, LOCK-6]."""

from collections.abc import Mapping, Sequence
from typing import Any

from dexsdk._names import name_fault
from dexsdk.attribute import Attribute, AttributeLock, AttributeMap
from dexsdk.errors import FlowDefinitionError


def lock_keys(locks: Sequence[AttributeLock], definitions: Mapping[str, Any], place: str) -> tuple[str, ...]:
    """Give the keys that the locks stand for.

    Raises:
        FlowDefinitionError: a lock stands twice, is of no declared Attribute, or its instance key is missing, illegal
            or one too many [LOCK-6].
    """
    if not locks:
        return ()
    faults = [fault for lock in locks if (fault := _fault(lock, definitions)) is not None]
    keys = [] if faults else [lock.attribute.key(*lock.instance) for lock in locks]
    faults += [f"the lock of {key!r} is listed twice" for key in dict.fromkeys(keys) if keys.count(key) > 1]
    if faults:
        raise FlowDefinitionError(*(f"{place}: {fault}" for fault in faults))
    return tuple(keys)


def preload_names(attributes: Sequence[Any], definitions: Mapping[str, Any], place: str) -> tuple[str, ...]:
    """Give the names of Attributes and AttributeMaps to fetch before the call.

    Raises:
        FlowDefinitionError: one of them is not declared [FLOW-4].
    """
    for attribute in attributes:
        is_attribute = isinstance(attribute, Attribute | AttributeMap)
        if not is_attribute or definitions.get(attribute.name) is not attribute:
            raise FlowDefinitionError(f"{place}: {attribute!r} to preload is not in the persistence schema")
    return tuple(dict.fromkeys(attribute.name for attribute in attributes))


def _fault(lock: object, definitions: Mapping[str, Any]) -> str | None:
    if not isinstance(lock, AttributeLock):
        return f"{lock!r} is no lock of an Attribute"
    attribute = lock.attribute
    if definitions.get(attribute.name) is not attribute:
        return f"the locked Attribute {attribute.name!r} is not in the persistence schema"
    if isinstance(attribute, AttributeMap):
        if len(lock.instance) != 1:
            return f"the lock of AttributeMap {attribute.name!r} needs exactly one instance key"
        return name_fault(lock.instance[0], f"instance key of {attribute.name!r}")
    return f"the lock of Attribute {attribute.name!r} takes no instance key" if lock.instance else None
