"""Values to bytes and back: canonical JSON by default, own codecs for own types [VAL-1..4].

Equal values give equal bytes: keys are sorted and the text is compact, so that the server can compare inputs without
looking into them [VAL-3]. Decoders and checks are compiled once per annotation.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from dexsdk._value_checks import Check, UnfitValueError, plain_builtin
from dexsdk._values import CheckCompiler, UnsupportedAnnotationError, find_cycle, is_pydantic_model
from dexsdk.errors import FlowDefinitionError, ValueMappingError, ValueTooLargeError

T = TypeVar("T")

VALUE_BYTES_MAX = 64 * 1024 * 1024
"""Encoded size of one value [LIM-1]."""

_LONG_NUMBER_DIGITS = 19
_LONG_NUMBER = re.compile(rb"\d{%d}" % _LONG_NUMBER_DIGITS)
"""Only bytes with such a run of digits can hold an int outside int64, which the decoder would let through."""

_SCANNED_BYTES = 1024 * 1024
"""Above so many bytes the search for long numbers goes over them in parts, with tools that take 2 ns a byte instead of
up to 70."""
_DIGITS_MARKED = bytes(48 if 48 <= byte < 58 else 32 for byte in range(256))
_MARKED_NUMBER = b"0" * _LONG_NUMBER_DIGITS

_DECODER_PATH = re.compile(r" - at `(\$.*)`$")


class OversizedValueError(UnfitValueError):
    """The encoded value exceeds its limit [LIM-1]."""

    def __init__(self, size: int) -> None:
        super().__init__(f"has {size} bytes, the limit is {VALUE_BYTES_MAX}")
        self.size = size


class Codec(Protocol[T]):
    """How values of one type become bytes. The bytes are JSON text: the CLI and the UI show them."""

    def encode(self, value: T) -> bytes:
        """Give the JSON text of a value."""
        ...

    def decode(self, data: bytes) -> T:
        """Give the value back."""
        ...


def _identity(value: Any) -> Any:
    return value


class JsonCodec(Codec[T]):
    """A codec made of two functions between an own type and what JSON can say."""

    def __init__(
        self,
        type_name: str,
        decoder: Callable[[Any], T],
        encoder: Callable[[T], Any] = _identity,
        expected_type: type[T] | None = None,
    ) -> None:
        """Make the codec.

        Args:
            type_name: How errors call the type.
            decoder: Builds a value from decoded JSON.
            encoder: Gives what JSON can say: dicts, lists, texts, numbers, bools and None.
            expected_type: Values of another class are refused before the encoder sees them.
        """
        self.type_name = type_name
        self._decoder = decoder
        self._encoder = encoder
        self._expected_type = expected_type

    def encode(self, value: T) -> bytes:
        """Give the canonical JSON of what the encoder made."""
        if self._expected_type is not None and not isinstance(value, self._expected_type):
            raise UnfitValueError(f"expected {self.type_name}, got {type(value).__name__}", is_wrong_type=True)
        plain = self._encoder(value)
        _PLAIN_CHECK(plain)
        return _PLAIN_ENCODER.encode(plain)

    def decode(self, data: bytes) -> T:
        """Give the value that the decoder makes of the JSON."""
        return self._decoder(msgspec.json.decode(data))


class CodecRegistry:
    """Finds the codec of an annotation: an own one, or canonical JSON made from the annotation."""

    def __init__(self, codecs: Mapping[Any, Codec[Any]] | None = None) -> None:
        """Take the own codecs by the type they are for.

        A codec also serves fields of its type, unless JSON knows the type already (e.g. a dataclass).
        """
        self._own: dict[Any, Codec[Any]] = dict(codecs or {})
        self._compiler = CheckCompiler(own for own in self._own if isinstance(own, type))
        self._encoder = msgspec.json.Encoder(order="sorted", enc_hook=self._to_encodable)
        self._resolved: dict[Any, Codec[Any]] = {}
        self._unannotated = self.resolve(Any)

    def resolve(self, type_hint: Any) -> "Codec[Any]":
        """Give the codec of an annotation; the same one each time.

        Raises:
            FlowDefinitionError: values of the annotation cannot travel.
        """
        try:
            known = self._resolved.get(type_hint)
        except TypeError:  # An annotation with unhashable metadata can neither be remembered nor have an own codec.
            return self._compile(type_hint)
        if known is None:
            own = self._own.get(type_hint)
            known = self._resolved[type_hint] = self._compile(type_hint) if own is None else _GuardedCodec(own)
        return known

    def codec_of(self, value: Any) -> "Codec[Any]":
        """Give the codec of a value that has no annotation: its class's own one, else canonical JSON."""
        cls = type(value)
        return self.resolve(cls) if cls in self._own else self._unannotated

    def _compile(self, type_hint: Any) -> Codec[Any]:
        try:
            check = self._compiler.compile(type_hint)
            decoder = msgspec.json.Decoder(Any if type_hint is object else type_hint, dec_hook=self._from_decoded)
        except (UnsupportedAnnotationError, TypeError) as error:
            raise FlowDefinitionError(f"annotation {_annotation_text(type_hint)}: {error}") from error
        return _AnnotationCodec(check, self._encoder.encode, decoder.decode)

    def _to_encodable(self, value: Any) -> Any:
        own = self._own.get(type(value))
        if own is not None:
            return msgspec.Raw(own.encode(value))
        if is_pydantic_model(type(value)):
            return value.model_dump(mode="json", by_alias=True)
        if isinstance(value, str | int | float):
            return plain_builtin(value)
        if isinstance(value, bytes):
            return bytes(value)
        if isinstance(value, Mapping):
            return dict(value)
        raise UnfitValueError(f"no codec is known for {type(value).__qualname__}")

    def _from_decoded(self, cls: type, value: Any) -> Any:
        if cls is object:
            return value
        own = self._own.get(cls)
        if own is not None:
            return own.decode(_PLAIN_ENCODER.encode(value))
        if is_pydantic_model(cls):
            return _read_model(cls, _PLAIN_ENCODER.encode(value))
        raise ValueError(f"no codec is known for {cls.__qualname__}")


class _AnnotationCodec(Codec[Any]):
    """Canonical JSON of one annotation."""

    __slots__ = ("_check", "_decode", "_encode")

    def __init__(self, check: Check, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> None:
        self._check = check
        self._encode = encode
        self._decode = decode

    def encode(self, value: Any) -> bytes:
        try:
            self._check(value)
            data = self._encode(value)
        except UnfitValueError:
            raise
        except RecursionError:
            raise _depth_fault(value) from None
        except Exception as error:
            raise UnfitValueError(f"cannot be encoded: {error}") from error
        if len(data) > VALUE_BYTES_MAX:
            raise OversizedValueError(len(data))
        return data

    def decode(self, data: bytes) -> Any:
        try:
            value = self._decode(data)
        except Exception as error:
            raise _decode_fault(error) from error
        if len(data) >= _LONG_NUMBER_DIGITS and _has_long_number(data):
            self._check(value)
        return value


class _GuardedCodec(Codec[Any]):
    """An own codec whose result is made canonical, and whose errors become faults of the value."""

    __slots__ = ("_own",)

    def __init__(self, own: Codec[Any]) -> None:
        self._own = own

    def encode(self, value: Any) -> bytes:
        try:
            data = _PLAIN_ENCODER.encode(msgspec.json.decode(self._own.encode(value)))
        except UnfitValueError:
            raise
        except Exception as error:
            raise UnfitValueError(f"own codec cannot encode {type(value).__qualname__}: {error}") from error
        if len(data) > VALUE_BYTES_MAX:
            raise OversizedValueError(len(data))
        return data

    def decode(self, data: bytes) -> Any:
        try:
            return self._own.decode(data)
        except Exception as error:
            raise _decode_fault(error) from error


def _has_long_number(data: bytes) -> bool:
    if len(data) <= _SCANNED_BYTES:
        return _LONG_NUMBER.search(data) is not None
    for position in range(0, len(data), _SCANNED_BYTES):
        part = data[position : position + _SCANNED_BYTES + _LONG_NUMBER_DIGITS - 1]
        if _MARKED_NUMBER in part.translate(_DIGITS_MARKED):
            return True
    return False


def encode_value(codec: Codec[Any], value: Any, place: str) -> bytes:
    """Encode a value, or say where it could not be.

    Args:
        codec: The codec of the declared type.
        value: What user code gave.
        place: Flow type, Step or RPC, method, and what the value is, for the error.

    Raises:
        FlowDefinitionError: the value does not fit the declared type [TYPE-2].
        ValueMappingError: JSON cannot carry the value [VAL-5].
        ValueTooLargeError: the value exceeds its limit [LIM-3].
    """
    try:
        return codec.encode(value)
    except UnfitValueError as error:
        raise placed(error, place) from error


def decode_value(codec: Codec[Any], data: bytes, place: str) -> Any:
    """Decode stored bytes, or say where they did not fit; no bytes are the value None.

    Raises:
        ValueMappingError: the bytes do not fit the declared type [VAL-5].
    """
    try:
        return codec.decode(data or b"null")
    except UnfitValueError as error:
        raise ValueMappingError(place, error.path, error.reason) from error


def placed(error: UnfitValueError, place: str) -> FlowDefinitionError | ValueMappingError | ValueTooLargeError:
    """Give the error that users see for a value they gave: a wrong type is a fault of the code [TYPE-2, VAL-5]."""
    if isinstance(error, OversizedValueError):
        return ValueTooLargeError.of("value", place, error.size, VALUE_BYTES_MAX)
    if error.is_wrong_type:
        return FlowDefinitionError(f"{place}: {error.path}: {error.reason}")
    return ValueMappingError(place, error.path, error.reason)


def _read_model(cls: Any, data: bytes) -> Any:
    """Read a pydantic model; JSON mode is strict about numbers yet reads dates from text, unlike Python mode."""
    try:
        return cls.model_validate_json(data, strict=True)
    except ValueError as error:
        # The model's own text repeats the payload, which no message of ours may [ERR-3].
        first = error.errors(include_url=False)[0]  # type: ignore[attr-defined] # pydantic is optional
        raise ValueError(f"field {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _depth_fault(value: Any) -> UnfitValueError:
    try:
        path = find_cycle(value)
    except RecursionError:
        path = None
    if path is None:
        return UnfitValueError("nested too deeply")
    return UnfitValueError("the value contains itself", path=path.removeprefix("$"))


def _decode_fault(error: Exception) -> UnfitValueError:
    if isinstance(error, UnfitValueError):
        return error
    text = str(error)
    match = _DECODER_PATH.search(text)
    if match is None:
        return UnfitValueError(text)
    return UnfitValueError(text[: match.start()], path=match.group(1).removeprefix("$"))


def _annotation_text(type_hint: Any) -> str:
    return type_hint.__qualname__ if isinstance(type_hint, type) else str(type_hint)


_PLAIN_ENCODER = msgspec.json.Encoder(order="sorted")
_PLAIN_CHECK = CheckCompiler(()).compile(Any)
