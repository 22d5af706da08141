"""JSON contents as values of a Spark schema, exactly: decimals keep their digits, and nothing is guessed.

As Spark's own reader does, a missing field is null, other fields are ignored, a STRING takes any value as
JSON text, and BINARY is base64. Unlike it, a timestamp without a zone is in UTC, and a number is not a time.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, NoReturn

from pyspark.sql import types

Convert = Callable[[Any], Any]
WHOLE = {types.ByteType: 8, types.ShortType: 16, types.IntegerType: 32, types.LongType: 64}
LARGEST_FLOAT = 3.4028235677973366e38
CONSTANTS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
SHOWN = 40


class BadContent(ValueError):
    """A content does not have the given schema. `path` says where."""

    def __init__(self, why: str, path: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.why}" if self.path else self.why

    def inside(self, name: str) -> BadContent:
        separator = "" if not self.path or self.path.startswith("[") else "."
        return BadContent(self.why, f"{name}{separator}{self.path}")


def json_reader(schema: types.StructType) -> Callable[[bytes], dict[str, Any] | None]:
    """A function from content to a value for Arrow. It raises BadContent."""
    convert = _or_null(_converter(schema))

    def read(content: bytes) -> dict[str, Any] | None:
        try:
            value = json.loads(content.decode(), parse_float=Decimal, parse_constant=_not_json)
        except UnicodeDecodeError as error:
            raise BadContent(f"the content is not UTF-8, at byte {error.start}") from None
        except BadContent:
            raise
        except (ValueError, RecursionError) as error:
            raise BadContent(f"the content is not JSON: {error}") from None
        found: dict[str, Any] | None = convert(value)
        return found

    return read


def _not_json(constant: str) -> NoReturn:
    raise BadContent(f"the content is not JSON: it contains {constant}")


def _converter(kind: types.DataType) -> Convert:  # noqa: PLR0911 # one per type
    match kind:
        case types.StructType():
            return _struct(kind)
        case types.ArrayType():
            return _array(_or_null(_converter(kind.elementType)))
        case types.MapType():
            return _map(_or_null(_converter(kind.valueType)))
        case types.DecimalType():
            return _decimal(kind.precision, kind.scale)
        case types.DoubleType():
            return lambda value: _double(value, math.inf)
        case types.FloatType():
            return lambda value: _double(value, LARGEST_FLOAT)
        case types.ByteType() | types.ShortType() | types.IntegerType() | types.LongType():
            return _whole(WHOLE[type(kind)], kind.simpleString())
    return SIMPLE[type(kind)]


def _or_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _struct(kind: types.StructType) -> Convert:
    fields = [(field.name, _converter(field.dataType)) for field in kind.fields]

    def convert(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _not_a("an object", value)
        found = {}
        for name, each in fields:
            given = value.get(name)
            if given is not None:
                try:
                    given = each(given)
                except BadContent as error:
                    raise error.inside(name) from None
            found[name] = given
        return found

    return convert


def _array(each: Convert) -> Convert:
    def convert(value: object) -> list[Any]:
        if not isinstance(value, list):
            raise _not_a("an array", value)
        found = []
        for number, one in enumerate(value):
            try:
                found.append(each(one))
            except BadContent as error:
                raise error.inside(f"[{number}]") from None
        return found

    return convert


def _map(each: Convert) -> Convert:
    def convert(value: object) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise _not_a("an object", value)
        found = []
        for key, one in value.items():
            try:
                found.append((_string(key), each(one)))
            except BadContent as error:
                raise error.inside(f"[{key!r}]") from None
        return found

    return convert


def _whole(bits: int, name: str) -> Convert:
    most = 2 ** (bits - 1)

    def convert(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _not_a("a whole number", value)
        if not -most <= value < most:
            raise BadContent(f"{_shown(value)} is out of range for {name}")
        return value

    return convert


def _double(value: object, largest: float) -> float:
    if isinstance(value, str) and value in CONSTANTS:
        return CONSTANTS[value]
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        raise _not_a("a number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= largest or math.isinf(number):
        raise BadContent(f"{_shown(value)} is too large")
    return number


def _decimal(precision: int, scale: int) -> Convert:
    context, unit = Context(prec=precision, rounding=ROUND_HALF_UP), Decimal(1).scaleb(-scale)

    def convert(value: object) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            raise _not_a("a number", value)
        try:
            number = Decimal(value)
            if not number.is_finite():
                raise _not_a("a number", value)
            return number.quantize(unit, context=context)
        except InvalidOperation:
            if isinstance(value, str):
                try:
                    Decimal(value)
                except InvalidOperation:
                    raise _not_a("a number", value) from None
            raise BadContent(f"{_shown(value)} does not fit into decimal({precision},{scale})") from None

    return convert


def _string(value: object) -> str:
    if not isinstance(value, str):
        value = str(value) if isinstance(value, Decimal) else json.dumps(value, default=float)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadContent("a text has half of a character (a lone surrogate)") from None
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise _not_a("true or false", value)
    return value


def _binary(value: object) -> bytes:
    try:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    except ValueError:
        pass
    raise _not_a("base64", value)


def _datetime(value: object) -> datetime:
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value)
    except ValueError:
        pass
    raise _not_a("a time such as 2030-01-31T12:00:00Z", value)


def _timestamp(value: object) -> datetime:
    found = _datetime(value)
    try:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except OverflowError:
        raise _not_a("a time such as 2030-01-31T12:00:00Z", value) from None


def _timestamp_ntz(value: object) -> datetime:
    found = _datetime(value)
    if found.tzinfo is not None:
        raise _not_a("a time without a zone", value)
    return found


def _date(value: object) -> date:
    try:
        if isinstance(value, str):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise _not_a("a date such as 2030-01-31", value)


SIMPLE: dict[type[types.DataType], Convert] = {
    types.StringType: _string,
    types.BooleanType: _boolean,
    types.BinaryType: _binary,
    types.DateType: _date,
    types.TimestampType: _timestamp,
    types.TimestampNTZType: _timestamp_ntz,
}


def _shown(value: object) -> str:
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, default=float)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _not_a(wanted: str, value: object) -> BadContent:
    return BadContent(f"{_shown(value)} is not {wanted}")
