"""Encodes payloads as the content of messages, and decodes them: JSON or MessagePack. Bytes are stored as
they are. Pickle is never used.

Plain values (dicts, lists, strings, numbers) and pydantic models as JSON need only this package. msgspec
Structs, dataclasses, attrs classes and MessagePack need msgspec: `pip install 'lonnymq[typed]'`.
"""

from __future__ import annotations

import importlib
import json
from typing import Any, NamedTuple, TypeVar, overload

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
    plain = _dumped(value)
    try:
        if content_type == MSGPACK:
            return Payload(_msgspec().msgpack.encode(plain), MSGPACK)
        if msgspec is not None:
            return Payload(msgspec.json.encode(plain), JSON)
        return Payload(json.dumps(plain, separators=(",", ":"), allow_nan=False).encode(), JSON)
    except LonnyMQError:
        raise
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        hint = None if msgspec is not None else f"dataclasses and other typed values need msgspec: {INSTALL}"
        raise NotEncodable(
            f"cannot encode a {type(value).__name__} as {content_type}: {error}", hint
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
    known = (content_type or BYTES).partition(";")[0].strip().lower()
    if known == BYTES:
        return _as_bytes(content, kind)
    if known not in {JSON, MSGPACK}:
        raise UnknownContentType(
            f"cannot decode content of type {content_type!r}", "use the message's content, which is bytes"
        )
    try:
        if _is_model(kind):
            return kind.model_validate(_read(content, known, Any))
        return _read(content, known, kind)
    except LonnyMQError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        wanted = "" if kind is Any else f" for {_name(kind)}"
        raise BrokenContent(f"the content is not {known}{wanted}: {error}") from error


def convert(value: Any, kind: Any) -> Any:
    """Convert a decoded value to this type. Without msgspec, only pydantic models are converted.

    >>> convert(7, int)
    7
    """
    try:
        if _is_model(kind):
            return kind.model_validate(value)
        return value if msgspec is None else msgspec.convert(value, kind)
    except (ValueError, TypeError, RecursionError) as error:
        raise BrokenContent(f"{value!r:.100} is not of type {_name(kind)}: {error}") from error


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


def _read(content: bytes, content_type: str, kind: Any) -> Any:
    if content_type == MSGPACK:
        return _msgspec().msgpack.decode(content, type=kind)
    if msgspec is None and (kind is Any or kind in PLAIN):
        return _checked(json.loads(content), kind)
    return _msgspec().json.decode(content, type=kind)


def _checked(value: Any, kind: Any) -> Any:
    if kind is not Any and not isinstance(value, kind):
        raise BrokenContent(f"the content is {type(value).__name__}, not {kind.__name__}")
    return value


def _as_bytes(content: bytes, kind: Any) -> bytes:
    if kind not in {Any, bytes}:
        raise UnknownContentType(
            f"the content is plain bytes, which cannot be decoded as {_name(kind)}",
            f"enqueue a value instead of bytes, or add the header {HEADER!r}",
        )
    return content


def _name(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "model_validate") and hasattr(kind, "model_dump")


def _dumped(value: Any) -> Any:
    return value.model_dump(mode="json") if _is_model(type(value)) else value


def _msgspec() -> Any:
    if msgspec is None:
        raise MissingExtra("msgspec is not installed", INSTALL)
    return msgspec
