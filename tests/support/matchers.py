"""Expectations that state only what a test is about."""

from typing import Any


class Like:
    """Equals any object of the class whose named fields have the given values."""

    def __init__(self, kind: type[Any], /, **fields: Any) -> None:
        unknown = [name for name in fields if not hasattr(kind, name)]
        assert not unknown, f"{kind.__name__} has no {unknown}"
        self._kind = kind
        self._fields = fields

    def __eq__(self, other: object) -> bool:
        return type(other) is self._kind and all(getattr(other, name) == value for name, value in self._fields.items())

    def __hash__(self) -> int:
        return hash(self._kind)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._fields.items())
        return f"<{self._kind.__name__} with {fields or 'anything'}>"
