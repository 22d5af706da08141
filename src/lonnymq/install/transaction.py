"""The transaction of one call, with its errors translated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lonnymq.errors import ConnectionDropped
from lonnymq.server_errors import from_sqlstate

if TYPE_CHECKING:
    from psycopg import Connection, Cursor, Error

_SETTINGS = ("search_path", "row_security", "check_function_bodies", "lock_timeout")
_READ_SETTINGS = "SELECT " + ", ".join(f"pg_catalog.current_setting('{name}')" for name in _SETTINGS)
_RESTORE_SETTINGS = "SELECT " + ", ".join(f"pg_catalog.set_config('{name}', %s, TRUE)" for name in _SETTINGS)
_NOT_PERMITTED = "42501"
NO_CODE_OF_OTHERS = (
    "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', TRUE),"
    " pg_catalog.set_config('row_security', 'off', TRUE)"
)
"""Whoever may create a schema may create one named after this login, and PostgreSQL would look there for
functions and operators that fit better than its own. Or they may create the schema of the queue, and policies
on the tables of the installer. Both would run with the rights of this login. Without row_security, a query of
a table with policies is refused.
"""


def joins(conn: Connection[Any]) -> bool:
    """Whether a call becomes part of a transaction of the caller."""
    from psycopg.pq import TransactionStatus

    return conn.info.transaction_status != TransactionStatus.IDLE


def execute(cursor: Cursor[tuple[Any, ...]], statement: str) -> Cursor[tuple[Any, ...]]:
    return cursor.execute(statement.encode(cursor.connection.info.encoding), prepare=False)


def one(cursor: Cursor[tuple[Any, ...]], query: str) -> tuple[Any, ...] | None:
    return execute(cursor, query).fetchone()


@contextmanager
def transaction(conn: Connection[Any], schema: str) -> Iterator[Cursor[tuple[Any, ...]]]:
    """A cursor in a transaction. Restores the caller's settings, and translates PostgreSQL's errors to
    ours.
    """
    from psycopg import Cursor, Error
    from psycopg.rows import tuple_row

    is_joined = joins(conn)
    try:
        with conn.transaction(), Cursor(conn, row_factory=tuple_row) as cursor:
            if not is_joined:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            before = one(cursor, _READ_SETTINGS)
            execute(cursor, NO_CODE_OF_OTHERS)
            yield cursor
            if is_joined:
                cursor.execute(_RESTORE_SETTINGS, before)
    except Error as error:
        message = error.diag.message_primary or str(error)
        if error.sqlstate == _NOT_PERMITTED:
            from lonnymq.install.missing_rights import not_permitted

            raise not_permitted(conn, schema, message) from error
        ours = from_sqlstate(error.sqlstate, message, error.diag.message_hint)
        if ours is None and _is_connection_loss(error):
            ours = ConnectionDropped(message, "check that the database is up, then try again")
        if ours is None:
            raise
        raise ours from error


def _is_connection_loss(error: Error) -> bool:
    from psycopg import OperationalError

    code = error.sqlstate
    return isinstance(error, OperationalError) and (code is None or code.startswith(("08", "57P")))
