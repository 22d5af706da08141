"""Schemas in Spark's DDL, such as `id BIGINT, lines ARRAY<STRUCT<name: STRING>>`, parsed without a JVM.

Data sources run in processes of Spark that have none, so pyspark's own parser cannot be called there.
"""

from __future__ import annotations

import re

from pyspark.sql import types

from lonnymq.errors import InvalidArgument

TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*')|(\w+)|([<>(),:]))")
SIMPLE: dict[str, types.DataType] = {
    "boolean": types.BooleanType(),
    "tinyint": types.ByteType(),
    "byte": types.ByteType(),
    "smallint": types.ShortType(),
    "short": types.ShortType(),
    "int": types.IntegerType(),
    "integer": types.IntegerType(),
    "bigint": types.LongType(),
    "long": types.LongType(),
    "float": types.FloatType(),
    "real": types.FloatType(),
    "double": types.DoubleType(),
    "string": types.StringType(),
    "binary": types.BinaryType(),
    "date": types.DateType(),
    "timestamp": types.TimestampType(),
    "timestamp_ltz": types.TimestampType(),
    "timestamp_ntz": types.TimestampNTZType(),
}
DECIMALS = {"decimal", "dec", "numeric"}
MAX_PRECISION = 38
END = ""


def parse_struct(text: str) -> types.StructType:
    """
    >>> parse_struct("id BIGINT NOT NULL, tags ARRAY<STRING>").simpleString()
    'struct<id:bigint,tags:array<string>>'
    >>> parse_struct("struct<`a b`: decimal(10, 2)>").simpleString()
    'struct<a b:decimal(10,2)>'
    """
    tokens = _Tokens(text)
    if tokens.word() == "struct" and tokens.peek(1) == "<":
        tokens.take("struct")
        found = tokens.struct()
    else:
        found = types.StructType(tokens.fields(END))
    tokens.take(END)
    return found


class _Tokens:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        self.at = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            found = TOKEN.match(text, position)
            if found is None:
                raise self.refused(f"{text[position:].strip()[:30]!r} is not part of a schema")
            self.tokens.append(found[0].strip())
            position = found.end()

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else END

    def word(self) -> str:
        return self.peek().lower()

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def take(self, expected: str) -> None:
        found = self.next()
        if found.lower() != expected:
            raise self.refused(f"expected {expected or 'the end'!r}, not {found or 'the end'!r}")

    def fields(self, end: str) -> list[types.StructField]:
        """The fields up to the token `end`, which is not taken."""
        found: list[types.StructField] = []
        while not found or self.word() == ",":
            if found:
                self.take(",")
            found.append(self.field())
        if self.peek() != end:
            raise self.refused(f"expected ',' or {end or 'the end'!r}, not {self.peek() or 'the end'!r}")
        names = [field.name for field in found]
        if len(set(names)) < len(names):
            raise self.refused(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
        return found

    def field(self) -> types.StructField:
        name = self.next()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        elif not re.fullmatch(r"\w+", name):
            raise self.refused(f"expected the name of a field, not {name or 'the end'!r}")
        if self.peek() == ":":
            self.take(":")
        kind = self.type()
        if self.word() == "not":
            self.take("not")
            self.take("null")
        if self.word() == "comment":
            self.take("comment")
            self.next()
        return types.StructField(name, kind)

    def type(self) -> types.DataType:
        name = self.next().lower()
        if name in SIMPLE:
            return SIMPLE[name]
        if name in DECIMALS:
            return self.decimal()
        if name == "array":
            self.take("<")
            element = self.type()
            self.take(">")
            return types.ArrayType(element)
        if name == "map":
            self.take("<")
            key = self.type()
            self.take(",")
            value = self.type()
            self.take(">")
            return types.MapType(key, value)
        if name == "struct":
            return self.struct()
        raise self.refused(f"{name or 'the end'!r} is not a type that contents can have")

    def struct(self) -> types.StructType:
        self.take("<")
        fields = self.fields(">")
        self.take(">")
        return types.StructType(fields)

    def decimal(self) -> types.DecimalType:
        if self.peek() != "(":
            return types.DecimalType()
        self.take("(")
        precision, scale = self.number(), 0
        if self.peek() == ",":
            self.take(",")
            scale = self.number()
        self.take(")")
        if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
            raise self.refused(f"decimal({precision},{scale}) does not exist")
        return types.DecimalType(precision, scale)

    def number(self) -> int:
        token = self.next()
        if not token.isdecimal():
            raise self.refused(f"expected a number, not {token or 'the end'!r}")
        return int(token)

    @staticmethod
    def refused(why: str) -> InvalidArgument:
        return InvalidArgument(why, "a schema looks like: id BIGINT, total DECIMAL(10,2), tags ARRAY<STRING>")
