"""The database under inspection, and the result of a check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lonnymq.statement import identifier

if TYPE_CHECKING:
    from psycopg import Connection


NO_OTHER_SCHEMA = b"SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', TRUE)"
"""Somebody else's functions must not run with the rights of this login: see lonnymq.install.transaction. For
one transaction: behind a pooler, another client would find what is set for the session, as it would find
prepared statements.
"""


class CheckStatus(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """What a check found, and unless that is ok, what to do about it."""

    check: str
    status: CheckStatus
    message: str
    advice: str | None = None


@dataclass(frozen=True)
class CheckResult:
    status: CheckStatus
    message: str
    advice: str | None = None


@dataclass(frozen=True)
class Database:
    """A connection to the database under inspection, and the schema of the queue."""

    conn: Connection[Any]
    schema: str

    @property
    def name(self) -> str:
        return identifier(self.schema)

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        from psycopg import RawCursor
        from psycopg.rows import tuple_row

        with self.conn.transaction(), RawCursor(self.conn, row_factory=tuple_row) as cursor:
            cursor.execute(NO_OTHER_SCHEMA, prepare=False)
            return cursor.execute(query.encode(), parameters, prepare=False).fetchall()

    def one(self, query: str, *parameters: object) -> tuple[Any, ...]:
        return self.rows(query, *parameters)[0]

    def setting(self, name: str) -> str:
        return str(self.one("SELECT current_setting($1)", name)[0])


Check = Callable[[Database], CheckResult]
"""Checks one thing."""


def ok(message: str) -> CheckResult:
    return CheckResult(CheckStatus.OK, message)


def warning(message: str, advice: str) -> CheckResult:
    return CheckResult(CheckStatus.WARNING, message, advice)


def problem(message: str, advice: str) -> CheckResult:
    return CheckResult(CheckStatus.PROBLEM, message, advice)
