"""The parameters that several topics take, with their bounds."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, with_config

from lonnymq.message_options import TEXT_MAX_BYTES

LAST_ID = 9 * 10**18
"""No id is larger. The largest number of PostgreSQL is, but OpenAPI would tell it rounded up."""
LIMIT_MAX = 500
PAGE_SIZE = 50

TEXT = {"pattern": r"^[^\x00]*$"}
"""PostgreSQL stores no NUL characters. Patterns are for readers of the schema: what breaks one is refused
elsewhere, with a better message.
"""
RATE = {"pattern": r"^(0|inherit|[1-9][0-9]{0,5}(\.[0-9]{1,3})?/(([1-9][0-9]{0,2})?(s|min)|h|day))$"}


def _name(text: str) -> str:
    if "\0" in text:
        raise ValueError("it contains a NUL character")
    if len(text.encode(errors="replace")) > TEXT_MAX_BYTES:
        raise ValueError(f"it is longer than {TEXT_MAX_BYTES} bytes")
    return text


def _number(value: object) -> object:
    """JSON has one kind of numbers, so 3.0 is an integer. Texts and truth values are not."""
    if isinstance(value, bool | str):
        raise ValueError("it is not a number")  # noqa: TRY004 - pydantic takes no other error
    return value


def _rate(text: str) -> str:
    if not re.fullmatch(RATE["pattern"], text):
        raise ValueError("it is not a rate: give one such as 20/s, 100/min or 1/5min, or 0 for no limit")
    return text


exact = with_config(ConfigDict(extra="forbid"))
"""For a body with optional fields: refuse one that does not exist. A misspelt one would change nothing."""
RateText = Annotated[str, Field(max_length=50, json_schema_extra=RATE), AfterValidator(_rate)]
NUMBER = BeforeValidator(_number)
"""For whole numbers in a body. Put it last."""
PathId = Annotated[int, Path(ge=1, le=LAST_ID)]
QueryId = Annotated[int, Query(ge=1, le=LAST_ID)]
Name = Annotated[
    str, AfterValidator(_name), Query(min_length=1, max_length=TEXT_MAX_BYTES, json_schema_extra=TEXT)
]
"""Of a channel, a lane or a batch."""
GivenName = Annotated[
    str, AfterValidator(_name), Field(min_length=1, max_length=TEXT_MAX_BYTES, json_schema_extra=TEXT)
]
"""The same in a body."""
Prefix = Annotated[str, Query(max_length=TEXT_MAX_BYTES, description="How the names begin.")]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
_CHARACTER = r'[^"\\\x00-\x1f]|\\["\\bfnrt]|\\u00(?:0[1-9a-f]|1[0-9a-f])'
CURSOR = (
    rf'^\["(?:{_CHARACTER})*", '
    r"(?:0|-?[1-9][0-9]{0,3}|32767), (?:0|-?[1-9][0-9]{0,17}), [1-9][0-9]{0,17}\]$"
)
"""A channel, a rank, a time and an id, as the SQL function cursor_write writes them."""
Cursor = Annotated[str, Query(max_length=2_000, pattern=CURSOR)]
"""From the answer of the page before."""
