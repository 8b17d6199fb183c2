"""Keys of search with their types, one type for each on the whole server, for ever [ATTR-10].

They are no projection: a key is known from the first worker or client that names it, before it has a value.
"""

from dexd.core.index_values import IndexKeyTypes
from dexd.core.rejections import Code, Rejection
from dexd.engine.batch import OpenBatch
from dexd.log.event_log import IndexKeyRow


class IndexKeys:
    """What is known, the open batch included."""

    __slots__ = ("types",)

    def __init__(self, types: IndexKeyTypes) -> None:
        """Begin with what the log has."""
        self.types = types

    def refuse(self, named: IndexKeyTypes) -> Rejection | None:
        """Refuse keys that have another type already."""
        for key, type_ in named.items():
            known = self.types.get(key, type_)
            if known is not type_:
                return Rejection(
                    Code.INDEX_TYPE_CONFLICT,
                    f"index key {key!r} is {known.name} on this server, and {type_.name} here",
                    {"index_key": key, "expected": known.name, "found": type_.name},
                )
        return None

    def has_all(self, named: IndexKeyTypes) -> bool:
        """Whether nothing of it is new."""
        return all(key in self.types for key in named)

    def learn(self, named: IndexKeyTypes, batch: OpenBatch) -> None:
        """Keep the type of new keys with the batch."""
        for key, type_ in named.items():
            if key not in self.types:
                self.types[key] = type_
                batch.index_keys.append(IndexKeyRow(key, type_.value))
