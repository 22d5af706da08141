"""The database that is looked at, and how a check says what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lonnymq.statement import identifier

if TYPE_CHECKING:
    from psycopg import Connection


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """What a check found; and where it is not ok, what to do about it."""

    check: str
    status: Status
    says: str
    advice: str | None = None


@dataclass(frozen=True)
class Verdict:
    status: Status
    says: str
    advice: str | None = None


@dataclass(frozen=True)
class Patient:
    """The database that is looked at, and the schema in it."""

    conn: Connection[Any]
    schema: str

    @property
    def name(self) -> str:
        return identifier(self.schema)

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        from psycopg import RawCursor
        from psycopg.rows import tuple_row

        with RawCursor(self.conn, row_factory=tuple_row) as cursor:
            return cursor.execute(query.encode(), parameters).fetchall()

    def one(self, query: str, *parameters: object) -> tuple[Any, ...]:
        return self.rows(query, *parameters)[0]

    def setting(self, name: str) -> str:
        return str(self.one("SELECT current_setting($1)", name)[0])


Check = Callable[[Patient], Verdict]
"""Asks the database one thing."""


def ok(says: str) -> Verdict:
    return Verdict(Status.OK, says)


def warning(says: str, advice: str) -> Verdict:
    return Verdict(Status.WARNING, says, advice)


def problem(says: str, advice: str) -> Verdict:
    return Verdict(Status.PROBLEM, says, advice)
