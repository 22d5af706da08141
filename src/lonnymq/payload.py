"""Encodes payloads as the content of messages, and decodes them: JSON or MessagePack. Bytes are stored as
they are. Pickle is never used.

Plain values are dicts, lists, tuples, strings, numbers, booleans and None. The standard library writes and
reads them as JSON, whatever else is installed. Instances of pydantic models, dataclasses, msgspec Structs and
attrs classes are written as objects, also inside plain values; all but the models need msgspec:
`pip install 'lonnymq[typed]'`. Everything else is refused, for example a set or a datetime outside of such an
instance. So are NaN and infinities, wherever they are.

MessagePack needs msgspec too, and has bytes as values.
"""

from __future__ import annotations

import importlib
import json
import math
from datetime import datetime
from typing import Any, NamedTuple, NoReturn, TypeVar, overload

from lonnymq.errors import BrokenContent, LonnyMQError, MissingExtra, NotEncodable, UnknownContentType

try:
    msgspec: Any = importlib.import_module("msgspec")
except ImportError:  # it is optional
    msgspec = None

JSON = "application/json"
MSGPACK = "application/msgpack"
BYTES = "application/octet-stream"
HEADER = "content-type"
INSTALL = "pip install 'lonnymq[typed]'"
ALLOWED = (
    "give dicts, lists, strings, finite numbers, booleans or None, or instances of dataclasses, msgspec "
    "Structs or pydantic models"
)
PLAIN = (dict, list, str, int, float, bool)

T = TypeVar("T")


class Payload(NamedTuple):
    """The content of a message, and its content type."""

    content: bytes
    content_type: str | None
    """None for bytes that were given without a type."""


def encode(value: Any, content_type: str | None = None) -> Payload:
    """Encode a value as JSON, or as the given content type. Bytes are returned unchanged, with that type.

    >>> encode({"id": 7})
    Payload(content=b'{"id":7}', content_type='application/json')
    >>> encode(b"as it is")
    Payload(content=b'as it is', content_type=None)
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return Payload(bytes(value), content_type)
    content_type = content_type or JSON
    if content_type not in {JSON, MSGPACK}:
        raise UnknownContentType(
            f"cannot encode a value as {content_type!r}", f"use {JSON!r} or {MSGPACK!r}, or give bytes"
        )
    try:
        if content_type == MSGPACK:
            return Payload(_msgspec().msgpack.encode(_packable(value)), MSGPACK)
        return Payload(_JSON_ENCODER.encode(value).encode(), JSON)
    except LonnyMQError:
        raise
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotEncodable(
            f"cannot encode a {type(value).__name__} as {content_type}: {error}", ALLOWED
        ) from error


@overload
def decode(content: bytes, content_type: str | None) -> Any: ...
@overload
def decode(content: bytes, content_type: str | None, kind: type[T]) -> T: ...
def decode(content: bytes, content_type: str | None, kind: Any = Any) -> Any:
    """Decode content. With `kind`, check the value, and convert it to that type.

    >>> decode(b'{"id":7}', "application/json")
    {'id': 7}
    """
    if content_type is not None and not isinstance(content_type, str):  # a header may be any JSON value
        raise UnknownContentType(f"the content type {content_type!r} is not a string", f"use {JSON!r}")
    known = (content_type or BYTES).partition(";")[0].strip().lower()
    if known == BYTES:
        return _as_bytes(content, kind)
    if known not in {JSON, MSGPACK}:
        raise UnknownContentType(
            f"cannot decode content of type {content_type!r}", "use the message's content, which is bytes"
        )
    try:
        if is_model(kind):
            return kind.model_validate(_read(content, known, Any))
        return _read(content, known, kind)
    except LonnyMQError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        wanted = "" if kind is Any else f" for {_name(kind)}"
        raise BrokenContent(f"the content is not {known}{wanted}: {error}") from error


def convert(value: Any, kind: Any) -> Any:
    """Convert a decoded value to this type: with pydantic if it is a model, otherwise with msgspec.

    >>> convert([1, 2], set)
    {1, 2}
    """
    try:
        if is_model(kind):
            return kind.model_validate(value)
        return _msgspec().convert(value, kind, dec_hook=_model_from, str_keys=True)  # as JSON has them
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, LonnyMQError):
            raise
        raise BrokenContent(f"{value!r:.100} is not of type {_name(kind)}: {error}") from error


def simplify(value: Any) -> Any:
    """The opposite of convert: a value of any type that msgspec supports, or a pydantic model, as plain
    values. Without msgspec, other values are returned as they are.

    >>> simplify({1})
    [1]
    """
    if is_model(type(value)):
        return value.model_dump(mode="json")
    if msgspec is None or value is None or type(value) in {str, int, float, bool}:
        return value
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_fields)
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, LonnyMQError):
            raise
        raise NotEncodable(f"cannot encode a {type(value).__name__}: {error}") from error


class Payloaded:
    """The base of messages with a payload. It is decoded from `content`; `headers` may have its type."""

    __slots__ = ()

    content: bytes | None
    headers: Any

    @property
    def content_type(self) -> str | None:
        """The content type in the headers; None if they have none."""
        return self.headers.get(HEADER) if isinstance(self.headers, dict) else None

    @property
    def payload(self) -> Any:
        """The decoded content; the bytes if there is no content type."""
        return decode(self._stored_content(), self.content_type)

    def decode(self, kind: type[T]) -> T:
        """Decode the content as this type: a Struct, a dataclass, a pydantic model and others."""
        return decode(self._stored_content(), self.content_type, kind)

    def _stored_content(self) -> bytes:
        if self.content is None:
            raise BrokenContent(
                "the history does not have the content",
                "queue.set(history_content=True) keeps it from now on",
            )
        return self.content


def is_model(kind: Any) -> bool:
    """Whether it is a class of pydantic models."""
    return isinstance(kind, type) and hasattr(kind, "model_validate") and hasattr(kind, "model_dump")


def _read(content: bytes, content_type: str, kind: Any) -> Any:
    if content_type == MSGPACK:
        value = _finite(_msgspec().msgpack.decode(content))
        if kind is Any:
            return value
        return _msgspec().msgpack.decode(content, type=kind, dec_hook=_model_from)
    if kind is Any or kind in PLAIN:
        return _checked(_plain_json(content), kind)
    return _msgspec().json.decode(content, type=kind, dec_hook=_model_from)


def _plain_json(content: bytes) -> Any:
    """msgspec is faster. Where it succeeds, the standard library gives the same value; where it does not, the
    standard library decides, so that values and errors are the same without msgspec.
    """
    if msgspec is not None:
        try:
            return msgspec.json.decode(content)
        except (ValueError, RecursionError):
            pass
    return _JSON_DECODER.decode(str(content, "utf-8"))


def _checked(value: Any, kind: Any) -> Any:
    if kind is Any or type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return float(value)
    raise BrokenContent(f"the content is {type(value).__name__}, not {kind.__name__}")


def _as_bytes(content: bytes, kind: Any) -> bytes:
    if kind not in {Any, bytes}:
        raise UnknownContentType(
            f"the content is plain bytes, which cannot be decoded as {_name(kind)}",
            f"enqueue a value instead of bytes, or add the header {HEADER!r}",
        )
    return content


def _name(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


def _fields(value: Any) -> Any:
    """An instance of a class with declared fields, as plain values."""
    kind = type(value)
    if is_model(kind):
        return value.model_dump(mode="json")
    if _has_fields(kind):
        return _msgspec(kind).to_builtins(value, str_keys=True, enc_hook=_fields)
    raise TypeError(f"a value of type {kind.__name__} is not a JSON value")


def _has_fields(kind: type) -> bool:
    return any(hasattr(kind, f"__{name}__") for name in ("dataclass_fields", "struct_fields", "attrs_attrs"))


def _model_from(kind: Any, value: Any) -> Any:
    """For msgspec: a pydantic model inside a type that msgspec converts."""
    if is_model(kind):
        return kind.model_validate(value)
    raise TypeError(f"msgspec cannot make a {_name(kind)}")


def _packable(value: Any) -> Any:  # noqa: PLR0911 - one for each kind of value
    """The value as msgspec can write it in MessagePack."""
    if value is None or isinstance(value, bool | bytes):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # msgspec refuses subclasses
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return _finite(float.__float__(value))
    if isinstance(value, dict):
        return {_packable(key): _packable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_packable(item) for item in value]
    if _has_fields(type(value)) and not is_model(type(value)):
        native = (bytes, bytearray, memoryview, datetime)
        return _finite(_msgspec().to_builtins(value, builtin_types=native, enc_hook=_fields))
    return _packable(_fields(value))


def _finite(value: Any) -> Any:
    """The same value. Raises ValueError if NaN or an infinity is in it."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    if isinstance(value, dict):
        for key, item in value.items():
            _finite(key)
            _finite(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _finite(item)
    return value


def _finite_float(text: str) -> float:
    return float(_finite(float(text)))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _msgspec(kind: type | None = None) -> Any:
    if msgspec is None:
        needs = "" if kind is None else f", which {kind.__name__} needs"
        raise MissingExtra(f"msgspec is not installed{needs}", INSTALL)
    return msgspec


_JSON_ENCODER = json.JSONEncoder(
    ensure_ascii=False,
    check_circular=False,  # a circular reference is a RecursionError; the check takes as long as the rest
    allow_nan=False,
    separators=(",", ":"),
    default=_fields,
)
_JSON_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite_float)
