"""Runs a plan without making others wait for long.

DDL needs exclusive locks. While it waits for an open transaction, every later call on the table waits behind
it. So each attempt has a short lock_timeout and is rolled back if it cannot get a lock; the next one follows
after a pause without locks.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lonnymq.errors import Deadlock
from lonnymq.install.lock_holders import Holder, holders, schema_locked
from lonnymq.install.plan import LOCK_TIMEOUT_MS
from lonnymq.install.transaction import execute, joins, one, transaction

if TYPE_CHECKING:
    from psycopg import Connection

WAIT_S = 30.0
"""How long to retry by default: about ten attempts."""
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
AUTOVACUUM_TIMEOUT_MS = 1200
"""PostgreSQL cancels an autovacuum that blocks a lock for longer than deadlock_timeout, a second by
default.
"""


def run(conn: Connection[Any], schema: str, statements: Sequence[str], wait: float) -> None:
    """Run the statements in one transaction, and retry for up to `wait` seconds while others hold locks
    that it needs. In a transaction of the caller there is one attempt, because its locks cannot be released
    in between. Raises SchemaLocked.
    """
    from psycopg.errors import LockNotAvailable

    began = time.monotonic()
    deadline = began if joins(conn) else began + wait
    pause = FIRST_PAUSE_S
    timeout_ms = LOCK_TIMEOUT_MS
    attempts = 1
    while True:
        attempt = _Attempt(conn, schema)
        try:
            return attempt.run(statements, timeout_ms)
        except (LockNotAvailable, Deadlock) as error:
            found = attempt.holders()
            if time.monotonic() + pause > deadline:
                if isinstance(error, Deadlock):
                    raise
                tried = f"{attempts} attempt{'s' if attempts > 1 else ''} in {time.monotonic() - began:.0f} s"
                raise schema_locked(schema, found, tried, attempt.role()) from error
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - so that two installers do not collide again
        is_autovacuum = any(holder.is_autovacuum for holder in found)
        timeout_ms = AUTOVACUUM_TIMEOUT_MS if is_autovacuum else LOCK_TIMEOUT_MS
        pause = min(2 * pause, LONGEST_PAUSE_S)
        attempts += 1


# Keeps a shorter lock_timeout of the caller.
_SET_LOCK_TIMEOUT = """
SELECT pg_catalog.set_config('lock_timeout', '{0}', TRUE) FROM pg_catalog.pg_settings s
WHERE s.name = 'lock_timeout' AND CAST(s.setting AS INT) NOT BETWEEN 1 AND {0}"""


class _Attempt:
    def __init__(self, conn: Connection[Any], schema: str) -> None:
        self._conn, self._schema = conn, schema
        self._before = {holder.transaction for holder in self._all_holders()}
        self._statement = ""

    def run(self, statements: Sequence[str], timeout_ms: int) -> None:
        with transaction(self._conn, self._schema) as cursor:
            execute(cursor, _SET_LOCK_TIMEOUT.format(timeout_ms))
            for statement in statements:
                self._statement = statement
                execute(cursor, statement)

    def holders(self) -> list[Holder]:
        """The transactions that blocked it: those that have held a lock for as long as the attempt waited."""
        found = [
            holder
            for holder in self._all_holders()
            if holder.transaction in self._before or holder.is_older_than_lock_timeout
        ]
        narrowed = [holder.narrowed(self._statement) for holder in found]
        return [holder for holder in narrowed if holder is not None] or found

    def role(self) -> str:
        with transaction(self._conn, self._schema) as cursor:
            return str((one(cursor, "SELECT current_user") or ("",))[0])

    def _all_holders(self) -> list[Holder]:
        with transaction(self._conn, self._schema) as cursor:
            return holders(cursor, self._schema)
