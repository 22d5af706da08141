"""Values as a message's content, and back. JSON and MessagePack; bytes are left as they are; pickle never.

Plain values (dicts, lists, texts, numbers) need nothing but Python. Typed ones, which are msgspec Structs,
dataclasses, attrs classes and pydantic models, and MessagePack need msgspec: `pip install 'lonnymq[typed]'`.
"""

from __future__ import annotations

import importlib
import json
from typing import Any, NamedTuple, TypeVar, overload

from lonnymq.errors import BrokenContent, LonnyMQError, MissingExtra, NotEncodable, UnknownContentType

try:
    msgspec: Any = importlib.import_module("msgspec")
except ImportError:  # an extra
    msgspec = None

JSON = "application/json"
MSGPACK = "application/msgpack"
BYTES = "application/octet-stream"
HEADER = "content-type"
INSTALL = "pip install 'lonnymq[typed]'"
PLAIN = (dict, list, str, int, float, bool)

T = TypeVar("T")


class Payload(NamedTuple):
    """What a message holds, and what says how to read it."""

    content: bytes
    content_type: str | None
    """None for bytes, which say nothing about themselves."""


def encode(value: Any, content_type: str | None = None) -> Payload:
    """The value as content of this type: JSON, unless another is given. Bytes are of the type that is given.

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
            f"{content_type!r} is not written here", f"use {JSON!r} or {MSGPACK!r}, or give bytes"
        )
    plain = _of_model(value)
    try:
        if content_type == MSGPACK:
            return Payload(_msgspec().msgpack.encode(plain), MSGPACK)
        if msgspec is not None:
            return Payload(msgspec.json.encode(plain), JSON)
        return Payload(json.dumps(plain, separators=(",", ":"), allow_nan=False).encode(), JSON)
    except LonnyMQError:
        raise
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        hint = None if msgspec is not None else f"dataclasses and the like need msgspec: {INSTALL}"
        raise NotEncodable(
            f"{type(value).__name__} cannot be written as {content_type}: {error}", hint
        ) from error


@overload
def decode(content: bytes, content_type: str | None) -> Any: ...
@overload
def decode(content: bytes, content_type: str | None, kind: type[T]) -> T: ...
def decode(content: bytes, content_type: str | None, kind: Any = Any) -> Any:
    """The value that the content stands for; checked against `kind` and made into one, where it is given.

    >>> decode(b'{"id":7}', "application/json")
    {'id': 7}
    """
    known = (content_type or BYTES).partition(";")[0].strip().lower()
    if known == BYTES:
        return _as_bytes(content, kind)
    if known not in {JSON, MSGPACK}:
        raise UnknownContentType(
            f"content of type {content_type!r} is not read here", "read the message's content, which is bytes"
        )
    try:
        if _is_model(kind):
            return kind.model_validate(_read(content, known, Any))
        return _read(content, known, kind)
    except LonnyMQError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        wanted = "" if kind is Any else f" for {getattr(kind, '__name__', kind)}"
        raise BrokenContent(f"the content is not {known}{wanted}: {error}") from error


def convert(value: Any, kind: Any) -> Any:
    """A value that was read as plain, made into one of this kind; as it is where there is no msgspec.

    >>> convert(7, int)
    7
    """
    try:
        if _is_model(kind):
            return kind.model_validate(value)
        return value if msgspec is None else msgspec.convert(value, kind)
    except (ValueError, TypeError, RecursionError) as error:
        raise BrokenContent(f"{value!r:.100} is no {getattr(kind, '__name__', kind)}: {error}") from error


class Payloaded:
    """What has a payload: `content`, and `headers` that may name its type."""

    __slots__ = ()

    content: bytes | None
    headers: Any

    @property
    def content_type(self) -> str | None:
        """As the headers have it; None where they say nothing."""
        return self.headers.get(HEADER) if isinstance(self.headers, dict) else None

    @property
    def payload(self) -> Any:
        """The value that the content stands for; bytes where nothing says what they are."""
        return decode(self._kept(), self.content_type)

    def decode(self, kind: type[T]) -> T:
        """The value, checked and made into what is asked for: a Struct, a dataclass, a pydantic model."""
        return decode(self._kept(), self.content_type, kind)

    def _kept(self) -> bytes:
        if self.content is None:
            raise BrokenContent("the content was not kept", "set history_content=True to keep what finishes")
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
            f"the content is bytes and says nothing of a {getattr(kind, '__name__', kind)}",
            f"create it with a value instead of bytes, or with a {HEADER!r} header",
        )
    return content


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "model_validate") and hasattr(kind, "model_dump")


def _of_model(value: Any) -> Any:
    return value.model_dump(mode="json") if _is_model(type(value)) else value


def _msgspec() -> Any:
    if msgspec is None:
        raise MissingExtra("this needs msgspec", INSTALL)
    return msgspec
