"""Headers as JSON texts."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from lonnymq.payload import HEADER
from lonnymq.spark.sink.json_values import plain_values
from lonnymq.spark.sink.row_batch import Rows

MAX_BYTES = 65_536
NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
HINT = f"give a JSON object of at most {MAX_BYTES:,} bytes, or null for none"


def headers(given: Rows, content_type: str | None) -> pa.Array | None:
    """The headers of each row, with the content type added where it is missing. Equal texts are read once."""
    column = given.column("headers")
    default = (
        None if content_type is None else pa.scalar(_json_text({HEADER: content_type}), pa.large_string())
    )
    if column is None:
        return None if default is None else pa.repeat(default, len(given))
    if pa.types.is_nested(column.type):
        values, indices = plain_values(column), pa.arange(0, len(column))
    else:
        encoded = column.dictionary_encode()
        values, indices = encoded.dictionary.cast(pa.large_binary()).to_pylist(), encoded.indices
    written = []
    for number, value in enumerate(values):
        try:
            written.append(None if value is None else _json_text(_typed(_read(value), content_type)))
        except (ValueError, RecursionError) as error:
            given.refuse(pc.equal(indices, number), f"the headers are not valid, {error}", HINT)
    each = pa.array(written, pa.large_string()).take(indices)
    return each if default is None else each.fill_null(default)


def _read(value: object) -> dict[str, Any]:
    found = json.loads(value.decode(), parse_constant=_not_json) if isinstance(value, bytes) else value
    if not isinstance(found, dict):
        raise ValueError(f"they are of type {type(found).__name__}")  # noqa: TRY004
    return found


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _typed(value: dict[str, Any], content_type: str | None) -> dict[str, Any]:
    if content_type is None or value.get(HEADER) is not None:
        return value
    return {**value, HEADER: content_type}


def _json_text(value: dict[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if NUL.search(text):
        raise ValueError("they contain a NUL character, which PostgreSQL cannot store")
    size = len(text.encode())
    if size > MAX_BYTES:
        raise ValueError(f"they are {size} bytes long")
    return text
