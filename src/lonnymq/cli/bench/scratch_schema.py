"""A schema of its own to measure in, that is removed whatever happens."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from lonnymq.cli.database import connect
from lonnymq.cli.printing import note
from lonnymq.errors import Deadlock, NotPermitted, SchemaMissing
from lonnymq.install import install, uninstall
from lonnymq.statement import identifier

if TYPE_CHECKING:
    from psycopg import Connection

PREFIX = "lonnymq_bench_"
TRIES = 3
SIGNALLED = 128
ENDING = (signal.SIGTERM, signal.SIGHUP)


def new_name() -> str:
    return PREFIX + secrets.token_hex(4)


def left_behind(conn: Connection[Any]) -> list[str]:
    """Of runs that were killed, or that go on elsewhere."""
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
                f"{login} may not make a schema in database {database}",
                f"GRANT CREATE ON DATABASE {identifier(database)} TO {identifier(login)}",
            )


@contextmanager
def ground(conn: Connection[Any], dsn: str | None, schema: str) -> Iterator[None]:
    """Installed in the block; removed on a connection of its own, as the other may be what failed."""
    with _ended_by_signal():
        try:
            install(conn, schema)
            yield
        except BaseException:
            with suppress(Exception):  # it has said what is left; why all this ends is more to the point
                _remove(dsn, schema)
            raise
        _remove(dsn, schema)


def _remove(dsn: str | None, schema: str) -> None:
    try:
        for left in reversed(range(TRIES)):
            with connect(dsn) as conn:
                try:
                    uninstall(conn, schema)
                except Deadlock:  # with the last call of a client that was ended
                    if not left:
                        raise
                else:
                    return
    except SchemaMissing:
        return
    except BaseException:
        note(f"Schema {schema} is left: `lonnymq uninstall --schema {schema}` removes it.")
        raise


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """Who is told to end tidies up first."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(SIGNALLED + number)

    before = {number: signal.signal(number, end) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
