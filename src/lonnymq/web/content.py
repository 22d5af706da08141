"""Shows what is in a message: decoded, with secrets hidden, and not more than a page can hold."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from lonnymq.errors import PayloadError
from lonnymq.payload import JSON, MSGPACK, decode
from lonnymq.web.redact import Redaction

CHARACTERS_MAX = 20_000
DECODED_MAX = 1_000_000
"""Bytes. What is larger is not decoded, and so it is not shown: secrets could not be hidden."""
BINARY_MAX = 512
LINE_BYTES = 16
LINE_BREAKS = "\n\r\t"

Form = Literal["json", "text", "binary", "hidden"]
TOO_LARGE = "it is too large"
TOO_DEEP = "it is too deeply nested"
MAY_HAVE_SECRETS = "it cannot be decoded, and may have secrets"


@dataclass(frozen=True, slots=True)
class Shown:
    """Content for people. `text` is JSON, plain text or a hexadecimal dump, as `form` says. For `hidden`, it
    says why the content is not shown. With `is_cut`, there is more than is shown.
    """

    form: Form
    text: str
    content_type: str | None
    content_bytes: int
    is_cut: bool


def shown(content: bytes, content_type: object, redaction: Redaction) -> Shown:
    """
    >>> shown(b'{"token": "x"}', "application/json", Redaction()).text
    '{\\n  "token": "[hidden]"\\n}'
    """
    form, text = _read(content, content_type, redaction)
    named = content_type if isinstance(content_type, str) else None
    is_cut = len(text) > CHARACTERS_MAX or (form == "binary" and len(content) > BINARY_MAX)
    return Shown(form, text[:CHARACTERS_MAX], named, len(content), is_cut)


def shown_json(value: Any, redaction: Redaction) -> str:
    """A JSON value, such as the headers of a message."""
    try:
        return _json_text(value, redaction)[:CHARACTERS_MAX]
    except (RecursionError, ValueError):
        return f"(not shown: {TOO_DEEP})"


def _read(content: bytes, content_type: object, redaction: Redaction) -> tuple[Form, str]:
    if len(content) > DECODED_MAX:
        return "hidden", TOO_LARGE
    try:
        value = _decoded(content, content_type)
    except (PayloadError, TypeError) as error:
        if isinstance(error.__cause__, RecursionError):
            return "hidden", TOO_DEEP
        return _plain(content, redaction)
    try:
        return "json", _json_text(value, redaction)
    except (RecursionError, TypeError, ValueError):
        return "hidden", TOO_DEEP


def _plain(content: bytes, redaction: Redaction) -> tuple[Form, str]:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    text = text.removeprefix("\ufeff")
    if all(character.isprintable() or character in LINE_BREAKS for character in text):
        return "text", redaction.hide_text(text)
    if redaction.has_word(content.replace(b"\0", b"").decode("latin-1")):  # UTF-16 has zeros between letters
        return "hidden", MAY_HAVE_SECRETS
    return "binary", _hexadecimal(content[:BINARY_MAX])


def _decoded(content: bytes, content_type: object) -> Any:
    """The value in JSON or MessagePack. Content of other types, or without one, may be JSON too: then its
    secrets must be hidden as well.
    """
    known = str(content_type or "").partition(";")[0].strip().lower()
    if known in {JSON, MSGPACK}:
        return decode(content, known)
    value = decode(content, JSON)
    if not isinstance(value, dict | list):
        raise TypeError("a text that happens to be a JSON value")
    return value


def _json_text(value: Any, redaction: Redaction) -> str:
    hidden = redaction.hide(_with_text_keys(value))
    text = json.dumps(hidden, ensure_ascii=False, indent=2, default=_other)
    return text.encode("utf-8", "backslashreplace").decode()  # JSON may have lone surrogates


def _with_text_keys(value: Any) -> Any:
    """MessagePack has keys of any type."""
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else str(key): _with_text_keys(part) for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [_with_text_keys(part) for part in value]
    return value


def _other(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _hexadecimal(content: bytes) -> str:
    """
    >>> print(_hexadecimal(b"Hi\\x00"))
    0000  48 69 00                                         Hi.
    """
    lines = []
    for at in range(0, len(content), LINE_BYTES):
        part = content[at : at + LINE_BYTES]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)  # noqa: PLR2004 - ASCII
        lines.append(f"{at:04x}  {part.hex(' '):<47}  {letters}")
    return "\n".join(lines)
