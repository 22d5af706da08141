"""A temporary schema to measure in, removed whatever happens."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from lonnymq.cli.database import connect
from lonnymq.cli.exit_on_signal import exit_on_signal
from lonnymq.cli.printing import note
from lonnymq.errors import Deadlock, NotPermitted, SchemaMissing
from lonnymq.install import install, uninstall
from lonnymq.statement import identifier

if TYPE_CHECKING:
    from psycopg import Connection

PREFIX = "lonnymq_bench_"
ATTEMPTS = 3


def new_name() -> str:
    return PREFIX + secrets.token_hex(4)


def find_leftovers(conn: Connection[Any]) -> list[str]:
    """Schemas of benchmarks that were killed, or that are still running."""
    found = conn.execute(
        "SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname ~ %s ORDER BY 1",
        [f"^{PREFIX}[0-9a-f]{{8}}$"],
    )
    return [name for (name,) in found]


def check_rights(conn: Connection[Any]) -> None:
    for database, login, may_create in conn.execute(
        "SELECT current_database(), current_user,"
        " pg_catalog.has_database_privilege(current_database(), 'CREATE')"
    ):
        if not may_create:
            raise NotPermitted(
                f"{login} may not create a schema in database {database}",
                f"GRANT CREATE ON DATABASE {identifier(database)} TO {identifier(login)}",
            )


@contextmanager
def scratch_schema(conn: Connection[Any], dsn: str | None, schema: str) -> Iterator[None]:
    """Install the queue for the block. Uninstall over a new connection, as `conn` may be broken by then."""
    with exit_on_signal(signal.SIGTERM, signal.SIGHUP):
        try:
            install(conn, schema)
            yield
        except BaseException:
            with suppress(Exception):  # a note was printed; the first error matters more
                _remove(dsn, schema)
            raise
        _remove(dsn, schema)


def _remove(dsn: str | None, schema: str) -> None:
    try:
        for left in reversed(range(ATTEMPTS)):
            with connect(dsn) as conn:
                try:
                    uninstall(conn, schema)
                except Deadlock:  # with the last call of a client that was killed
                    if not left:
                        raise
                else:
                    return
    except SchemaMissing:
        return
    except BaseException:
        note(f"Schema {schema} was not removed: run `lonnymq uninstall --schema {schema}`.")
        raise
