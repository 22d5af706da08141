"""Find texts that are not UTF-8. Spark's strings may contain any bytes, for example after a cast."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lonnymq.spark.sink.row_batch import Rows

HINT = "correct it, or pass the bytes in a binary column"


def check_texts(given: Rows, name: str) -> None:
    """Raise RowRefused for a row whose text, at any depth of the column, is not UTF-8."""
    column = given.column(name)
    found = None if column is None or _is_valid(column) else _broken(column, name)
    if found is not None:
        at, path, reason = found
        given.refuse_row(at, f"{path} is not UTF-8: {reason}", HINT)


def _is_valid(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _broken(column: pa.Array, path: str) -> tuple[int, str, str] | None:
    """The row of the first broken text, its path, and what is wrong with it."""
    kind = column.type
    if pa.types.is_struct(kind):
        parts = zip(column.flatten(), (f"{path}.{field.name}" for field in kind), strict=True)
        found = (_broken(part, name) for part, name in parts)
        return min(filter(None, found), default=None)
    if pa.types.is_map(kind):
        column = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        return _in_lists(column, path)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _in_lists(column, f"{path}[]")
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return None
    for at, octets in enumerate(column.cast(pa.large_binary()).to_pylist()):
        try:
            octets is None or octets.decode()
        except UnicodeDecodeError as error:
            return at, path, f"{error.reason} at byte {error.start + 1}"
    return None


def _in_lists(column: pa.Array, path: str) -> tuple[int, str, str] | None:
    found = _broken(column.flatten(), path)
    if found is None:
        return None
    at, path, reason = found
    return pc.list_parent_indices(column)[at].as_py(), path, reason
