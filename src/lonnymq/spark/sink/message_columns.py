"""The columns of a DataFrame as the columns of messages.

The driver checks the columns before anything runs; executors check the rows, batch by batch. They check what
the queue would refuse, because here the error can name the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types

from lonnymq.errors import InvalidArgument
from lonnymq.message_options import OPTIONS, TEXT_MAX_BYTES, UNCHANGED, Kind
from lonnymq.payload import JSON
from lonnymq.spark.sink.headers import headers
from lonnymq.spark.sink.json_values import json_texts, obstacle
from lonnymq.spark.sink.row_batch import Rows, shortened
from lonnymq.spark.sink.text_check import check_texts

TIME_MAX = 2**53
INT_MAX = 2**31 - 1
NAMES_A_CHANNEL = "name the channel with 1 to 255 bytes of text"
Kinds = tuple[type[types.DataType], ...]
NESTED: Kinds = (types.StructType, types.MapType, types.ArrayType)
WHOLE: Kinds = (types.IntegralType,)
NUMBER: Kinds = (types.NumericType,)
TEXT: Kinds = (types.StringType,)
BY_KIND: Mapping[Kind, tuple[Kinds, str]] = {
    Kind.NUMBER: (WHOLE, "a whole number"),
    Kind.TEXT: (TEXT, "a string"),
}
COLUMNS: Mapping[str, tuple[Kinds, str]] = {
    "channel": (TEXT, "a string"),
    "content": ((types.BinaryType, *TEXT, *NESTED), "binary, a string, or a struct, map or array for JSON"),
    "run_at": ((types.TimestampType,), "a timestamp"),
    "dequeue_at": (WHOLE, "a whole number of Unix milliseconds"),
    **{name: BY_KIND[OPTIONS[name].kind] for name in UNCHANGED},
    "unique_for": (NUMBER, "a number of seconds"),
    "headers": ((*TEXT, types.StructType, types.MapType), "a map, a struct, or a string of JSON"),
    "claim": ((types.StructType,), "the claim of a consuming stream"),
    "error": (TEXT, "a string"),
}
CLAIM = {"consumer": TEXT, "seq": WHOLE, "generation": WHOLE, "id": WHOLE}


class InvalidColumns(InvalidArgument):
    """The DataFrame does not have the columns of messages. Nothing was written."""


class ConsumerClaim(NamedTuple):
    """A claim of a consuming stream, whose messages the sink completes."""

    consumer: str
    generation: int
    seq: int


class FailedMessage(NamedTuple):
    """A message of a claim that the stream could not process."""

    consumer: str
    generation: int
    id: int
    error: str


@dataclass(frozen=True)
class Contents:
    """Which column has what. It is pickled and sent to executors."""

    places: Mapping[str, int]
    channel: str | None
    content_type: str | None
    """The content type, for rows whose headers have none."""

    @classmethod
    def of(
        cls,
        schema: types.StructType,
        *,
        channel: str | None = None,
        content_type: str | None = None,
        completes: bool = False,
    ) -> Self:
        places = _places(schema)
        fields = {name: schema.fields[place].dataType for name, place in places.items()}
        _check_which(fields, channel, completes=completes)
        for name, kind in fields.items():
            _check_type(name, kind)
        if channel is not None and not 1 <= len(channel.encode()) <= TEXT_MAX_BYTES:
            raise InvalidColumns(f"the channel {shortened(channel)} is not a valid name", NAMES_A_CHANNEL)
        is_nested = isinstance(fields["content"], NESTED)
        return cls(places, channel, content_type or (JSON if is_nested else None))

    def staged(
        self,
        rows: pa.RecordBatch,
        first: int,
        content_max_bytes: int,
        positions: Sequence[int] | None = None,
    ) -> pa.RecordBatch:
        """Turn rows into the columns of messages. Columns without values are left out. Errors name rows by
        their numbers, which begin with `first`; `positions`, from `failures`, say which rows are left.
        """
        given = Rows(rows, self.places, first, positions)
        for name in self.places:
            check_texts(given, name)
        columns = {
            "channel": _channels(given, self.channel),
            "content": _contents(given, content_max_bytes),
            "dequeue_at": _times(given),
            "headers": headers(given, self.content_type),
            "unique_for_ms": _unique_fors(given),
            **{name: _option(given, name) for name in UNCHANGED},
        }
        return pa.record_batch({name: column for name, column in columns.items() if column is not None})

    def claims(self, rows: pa.RecordBatch, first: int) -> set[ConsumerClaim]:
        """The last claim of each consumer and generation among the rows."""
        given = Rows(rows, self.places, first)
        column = given.column("claim")
        if column is None:
            return set()
        fields = dict(zip((field.name for field in column.type), column.flatten(), strict=True))
        for field in fields.values():
            given.refuse(field.is_null(), "the claim is null")
        last = pa.table(fields).group_by(["consumer", "generation"]).aggregate([("seq", "max")]).to_pylist()
        return {ConsumerClaim(row["consumer"], row["generation"], row["seq_max"]) for row in last}

    def failures(
        self, rows: pa.RecordBatch, first: int
    ) -> tuple[pa.RecordBatch, Sequence[int] | None, list[FailedMessage]]:
        """The rows without an error, their positions if others are left out, and the messages of the others.
        `claims` has checked that every row has a claim.
        """
        place = self.places.get("error")
        if place is None or rows.column(place).null_count == len(rows):
            return rows, None, []
        check_texts(Rows(rows, self.places, first), "error")
        errors = rows.column(place)
        failed = rows.filter(errors.is_valid())
        claims = failed.column(self.places["claim"]).to_pylist()
        texts = failed.column(place).to_pylist()
        kept = errors.is_null()
        return (
            rows.filter(kept),
            pc.indices_nonzero(kept).to_pylist(),
            [
                FailedMessage(claim["consumer"], claim["generation"], claim["id"], text.replace("\0", ""))
                for claim, text in zip(claims, texts, strict=True)
            ],
        )


def _places(schema: types.StructType) -> dict[str, int]:
    """The position of each column. Spark's names are not case-sensitive."""
    known = f"the columns are {', '.join(COLUMNS)}"
    places: dict[str, int] = {}
    for place, name in enumerate(schema.names):
        if name.lower() not in COLUMNS:
            raise InvalidColumns(f"the column {name!r} is not known", f"{known}: select these")
        if name.lower() in places:
            raise InvalidColumns(f"there are two columns {name.lower()!r}", known)
        places[name.lower()] = place
    return places


def _check_which(names: Mapping[str, Any], channel: str | None, *, completes: bool) -> None:
    if "content" not in names:
        raise InvalidColumns("there is no column 'content'", "rename the column with the messages to content")
    if "channel" not in names and channel is None:
        raise InvalidColumns("there is no column 'channel'", "add it, or the option channel for all rows")
    if "channel" in names and channel is not None:
        raise InvalidColumns("both a column 'channel' and an option channel are given", "give one of them")
    if {"run_at", "dequeue_at"} <= names.keys():
        raise InvalidColumns("both columns 'run_at' and 'dequeue_at' are given", "drop one")
    if "claim" in names and not completes:
        raise InvalidColumns(
            "there is a column 'claim'",
            "use the option complete=true to finish the claimed messages, or drop the column",
        )
    if "error" in names and not completes:
        raise InvalidColumns(
            "there is a column 'error'", "it is for consuming streams that are written with complete=true"
        )
    if "error" in names and "id" not in getattr(names.get("claim"), "names", ["id"]):
        raise InvalidColumns(
            "the column 'error' needs the ids of messages, and 'claim' has none", "keep all fields of claim"
        )
    if completes and "claim" not in names:
        raise InvalidColumns(
            "complete=true needs the column 'claim' of the consuming stream", "select it too"
        )


def _check_type(name: str, kind: types.DataType) -> None:
    kinds, wanted = COLUMNS[name]
    is_right = isinstance(kind, kinds)
    if name == "claim" and isinstance(kind, types.StructType):
        names = {field.name for field in kind.fields}
        is_right = names | {"id"} == CLAIM.keys() and all(
            isinstance(field.dataType, CLAIM[field.name]) for field in kind.fields
        )
    if not is_right:
        hint = "cast it to a timestamp in its time zone" if isinstance(kind, types.TimestampNTZType) else None
        raise InvalidColumns(f"the column {name!r} is {kind.simpleString()}, not {wanted}", hint)
    why = obstacle(kind, name) if isinstance(kind, NESTED) else None
    if why is not None:
        raise InvalidColumns(
            f"the column {name!r} cannot be written as JSON: {why}", "cast it, for example to string"
        )


def _channels(given: Rows, option: str | None) -> pa.Array:
    channels = given.column("channel")
    if channels is None:
        return pa.repeat(pa.scalar(option, pa.string()), len(given))
    given.refuse(channels.is_null(), "a channel needs a name", NAMES_A_CHANNEL)
    _check_text(given, channels, "channel", NAMES_A_CHANNEL)
    return channels


def _option(given: Rows, name: str) -> pa.Array | None:
    """The column of an option, checked as message_check would; None if there is no such column."""
    values, option = given.column(name), OPTIONS[name]
    if values is None:
        return None
    hint = f"{option.allowed}, or null"
    if option.choices:
        is_unknown = pc.invert(pc.is_in(values, pa.array([*option.choices, None], values.type)))
        given.refuse(is_unknown, f"{name} is not known", hint)
        return values
    if option.kind is Kind.TEXT:
        _check_text(given, values, name.replace("_", " "), hint, option.least or 0, option.most)
        return values
    outside = _is_outside(values.cast(pa.int64()), option.least or 0, option.most or 0)
    given.refuse(outside, f"{name} is out of range", hint)
    return values.cast(pa.int64() if (option.most or 0) > INT_MAX else pa.int32())


def _unique_fors(given: Rows) -> pa.Array | None:
    """How long keys are held after their messages have finished, in milliseconds. Each needs a key."""
    keys, option = given.column("dedupe_key"), OPTIONS["unique_for"]
    for name in ("unique_while", "unique_for"):
        values = given.column(name)
        if values is not None:
            no_key = pc.is_valid(values) if keys is None else pc.and_(pc.is_valid(values), pc.is_null(keys))
            given.refuse(no_key, f"{name} is given without a dedupe key", "give a dedupe_key, too")
    seconds = given.column("unique_for")
    if seconds is None:
        return None
    exact = seconds.cast(pa.float64())
    is_outside = pc.invert(
        pc.and_(
            pc.greater_equal(exact, option.least or 0),
            pc.less_equal(exact, option.most or 0),  # false for NaN
        )
    )
    given.refuse(is_outside, "unique_for is out of range", f"{option.allowed}, or null")
    return pc.round(pc.multiply(exact, 1000)).cast(pa.int64())


def _check_text(
    given: Rows,
    texts: pa.Array,
    what: str,
    hint: str,
    least: int = 1,
    most: int | None = TEXT_MAX_BYTES,
) -> None:
    lengths = pc.binary_length(texts)
    is_outside = pc.or_(pc.less(lengths, least), pc.greater(lengths, INT_MAX if most is None else most))
    given.refuse(is_outside, lambda at: f"the {what} is {lengths[at]} bytes long", hint)
    given.refuse(pc.match_substring(texts, "\0"), f"the {what} contains a NUL, which PostgreSQL cannot store")


def _contents(given: Rows, max_bytes: int) -> pa.Array:
    contents = given.required("content")
    given.refuse(contents.is_null(), "a message needs content")
    if pa.types.is_nested(contents.type):
        contents = json_texts(contents)
    elif pa.types.is_string(contents.type):
        contents = contents.cast(pa.binary())
    elif pa.types.is_large_string(contents.type):
        contents = contents.cast(pa.large_binary())
    lengths = pc.binary_length(contents)
    given.refuse(
        pc.greater(lengths, max_bytes),
        lambda at: f"the content is {lengths[at]} bytes long",
        f"at most {max_bytes} bytes are allowed; queue_set(p_content_max_bytes => ...) changes that",
    )
    return contents


def _times(given: Rows) -> pa.Array | None:
    run_at, times = given.column("run_at"), given.column("dequeue_at")
    if run_at is not None:
        times = _floor_to_ms(run_at.cast(pa.int64()))
    if times is None:
        return None
    times = times.cast(pa.int64())
    given.refuse(
        _is_outside(times, -TIME_MAX, TIME_MAX), "the time is out of range", "give Unix milliseconds"
    )
    return times


def _floor_to_ms(microseconds: pa.Array) -> pa.Array:
    toward_zero = pc.divide(microseconds, 1000)
    return pc.subtract(toward_zero, pc.greater(pc.multiply(toward_zero, 1000), microseconds).cast(pa.int64()))


def _is_outside(numbers: pa.Array, least: int, most: int) -> pa.Array:
    return pc.or_(pc.less(numbers, least), pc.greater(numbers, most))
