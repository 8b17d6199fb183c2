"""Whether a value may travel: it fits its annotation and JSON can carry it exactly [VAL-1, VAL-2, TYPE-2].

The JSON encoder would write null for NaN, pass ints beyond int64, and take a str where the annotation says int. So a
check compiled from the annotation walks the value before it is encoded; for simple types that is one comparison.
"""

import dataclasses
import enum
import sys
import typing
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import inspect as annotations

from dexsdk._value_checks import (
    CHECK_BY_ANNOTATION,
    CHECK_BY_CLASS,
    PASSED_BY_ENCODER,
    Check,
    UnfitValueError,
    fields_check,
    instance_check,
    key_step,
    literal_check,
    mapping_check,
    optional_check,
    plain_builtin,
    pydantic_check,
    sequence_check,
    tuple_check,
    typed_dict_check,
    union_check,
    walk_fields,
    walk_mapping,
    walk_sequence,
)


class UnsupportedAnnotationError(TypeError):
    """No value of this annotation can travel, or no codec is known for a class in it."""


class _Forward:
    """Stands for the check of a class while that check is being compiled: a field may name its own class."""

    __slots__ = ("target",)

    target: Check

    def __call__(self, value: Any) -> None:
        self.target(value)


class CheckCompiler:
    """Compiles annotations into checks; one per codec registry, because own types differ."""

    def __init__(self, own_types: Iterable[type]) -> None:
        self._own_types = frozenset(own_types)
        self._structures: dict[Any, Check] = {}

    def compile(self, annotation: Any) -> Check:
        """Compile the check of an annotation.

        Raises:
            UnsupportedAnnotationError: values of it cannot travel.
        """
        if annotation is object or annotation is Any:
            return self._check_dynamic
        try:
            return self._compile(annotations.type_info(annotation))
        except (TypeError, NameError) as error:
            raise UnsupportedAnnotationError(str(error)) from error

    def _compile(self, node: annotations.Type) -> Check:
        simple = CHECK_BY_ANNOTATION.get(type(node))
        return simple or self._compile_container(node) or self._compile_class(node)

    def _compile_container(self, node: annotations.Type) -> Check | None:
        match node:
            case annotations.ListType(item_type=item):
                # Sequence annotations look like list here, and tuples are sequences.
                return sequence_check("list", self._compile(item), accepts=(list, tuple))
            case annotations.VarTupleType(item_type=item):
                return sequence_check("tuple", self._compile(item), accepts=(tuple,))
            case annotations.SetType(item_type=item) | annotations.FrozenSetType(item_type=item):
                return sequence_check("set", self._compile(item), accepts=(set, frozenset))
            case annotations.TupleType(item_types=items):
                return tuple_check([self._compile(item) for item in items])
            case annotations.DictType(key_type=key, value_type=value):
                return self._compile_mapping(key, value)
            case annotations.UnionType(types=types):
                return self._compile_union(types)
        return None

    def _compile_class(self, node: annotations.Type) -> Check:
        match node:
            case annotations.LiteralType(values=values):
                return literal_check(values)
            case annotations.EnumType(cls=cls):
                return instance_check(cls)
            case annotations.StructType() | annotations.DataclassType() | annotations.NamedTupleType():
                return self._compile_structure(node.cls, node.fields)
            case annotations.TypedDictType(cls=cls, fields=fields):
                return self._compile_typed_dict(cls, fields)
            case annotations.AnyType():
                return self._check_dynamic
            case annotations.CustomType(cls=cls):
                return self._compile_custom(cls)
        raise UnsupportedAnnotationError(f"values of {type(node).__name__} cannot travel")

    def _compile_union(self, types: Iterable[annotations.Type]) -> Check:
        members = [self._compile(member) for member in types if not isinstance(member, annotations.NoneType)]
        check = members[0] if len(members) == 1 else union_check(members)
        return optional_check(check) if len(members) < len(tuple(types)) else check

    def _compile_mapping(self, key: annotations.Type, value: annotations.Type) -> Check:
        # A bare dict has keys of any type; the walk refuses those that are not str.
        if not isinstance(key, annotations.StrType | annotations.AnyType):
            raise UnsupportedAnnotationError("mappings need str keys")
        return mapping_check(self._compile(value))

    def _compile_structure(self, cls: Any, fields: Iterable[annotations.Field]) -> Check:
        known = self._structures.get(cls)
        if known is not None:
            return known
        compiled = self._structures[cls] = _Forward()
        checks = [(field.name, self._compile(field.type)) for field in fields]
        compiled.target = fields_check(typing.get_origin(cls) or cls, checks, self._check_dynamic)
        return compiled

    def _compile_typed_dict(self, cls: Any, fields: Iterable[annotations.Field]) -> Check:
        known = self._structures.get(cls)
        if known is not None:
            return known
        compiled = self._structures[cls] = _Forward()
        required = frozenset(field.encode_name for field in fields if field.required)
        checks = {field.encode_name: self._compile(field.type) for field in fields}
        compiled.target = typed_dict_check(cls.__name__, required, checks, self._check_dynamic)
        return compiled

    def _compile_custom(self, cls: type) -> Check:
        if cls is object:
            return self._check_dynamic
        if is_pydantic_model(cls):
            return pydantic_check(cls, self._check_dynamic)
        if cls in self._own_types:
            return instance_check(cls)
        raise UnsupportedAnnotationError(f"no codec is known for {cls.__module__}.{cls.__qualname__}")

    def _check_dynamic(self, value: Any) -> None:
        """Check a value that has no annotation by what it is."""
        check = CHECK_BY_CLASS.get(type(value))
        if check is not None:
            check(value)
        elif isinstance(value, Mapping):
            walk_mapping(value, self._check_dynamic)
        elif isinstance(value, list | tuple | set | frozenset):
            walk_sequence(value, self._check_dynamic)
        else:
            self._check_object(value)

    def _check_object(self, value: Any) -> None:
        cls = type(value)
        if isinstance(value, enum.Enum):
            self._check_dynamic(value.value)
        elif dataclasses.is_dataclass(cls):
            walk_fields(value, [(field.name, self._check_dynamic) for field in dataclasses.fields(cls)])
        elif isinstance(value, msgspec.Struct):
            walk_fields(value, [(name, self._check_dynamic) for name in value.__struct_fields__])
        elif is_pydantic_model(cls):
            walk_mapping(vars(value), self._check_dynamic)
        elif isinstance(value, str | int | float):
            self._check_dynamic(plain_builtin(value))
        elif cls not in self._own_types and not isinstance(value, PASSED_BY_ENCODER):
            raise UnfitValueError(f"{cls.__module__}.{cls.__qualname__} is no value type and has no codec")


def is_pydantic_model(cls: Any) -> bool:
    """Whether a class is a pydantic model; pydantic stays optional, and a model cannot exist before its import."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)


def find_cycle(value: Any) -> str | None:
    """Give the path at which a value contains itself, or None; only called once a walk has gone too deep."""
    path: list[str] = []
    return "$" + "".join(path) if _enter(value, [], path) else None


def _enter(value: Any, holders: list[int], path: list[str]) -> bool:
    if id(value) in holders:
        return True
    holders.append(id(value))
    for step, child in _children(value):
        path.append(step)
        if _enter(child, holders, path):
            return True
        path.pop()
    holders.pop()
    return False


def _children(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(key_step(key), child) for key, child in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return [(f"[{index}]", child) for index, child in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [("." + field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, msgspec.Struct):
        return [("." + name, getattr(value, name)) for name in value.__struct_fields__]
    if is_pydantic_model(type(value)):
        return [("." + name, child) for name, child in vars(value).items()]
    return ()
