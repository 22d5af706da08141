"""Arrays as PostgreSQL's text. psycopg would inspect each element, which takes longer than the whole call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def as_text(values: Sequence[Any]) -> str:
    r"""
    >>> as_text([1, None]), as_text([b"\xff", None]), as_text(['say "a"', None])
    ('{1,NULL}', '{"\\\\xff",NULL}', '{"say \\"a\\"",NULL}')
    """
    kinds = {type(value) for value in values} - {type(None)}
    if all(issubclass(kind, bytes | bytearray | memoryview) for kind in kinds):
        parts = ["NULL" if value is None else f'"\\\\x{value.hex()}"' for value in values]
    elif all(issubclass(kind, str) for kind in kinds):
        texts = {value: "NULL" if value is None else _quoted(value) for value in set(values)}
        parts = [texts[value] for value in values]
    else:  # numbers, UUIDs
        parts = ["NULL" if value is None else str(value) for value in values]
    return "{" + ",".join(parts) + "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
