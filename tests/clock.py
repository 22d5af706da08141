"""Clocks for tests, shared by all connections.

FakeClock stands still until the test moves it; RestlessClock moves at every reading, so also inside a
call.
"""

from collections.abc import Sequence

import psycopg
from psycopg import sql

INSTALL = """
    CREATE TABLE {schema}.fake_clock (
        since TIMESTAMPTZ PRIMARY KEY DEFAULT clock_timestamp(), -- when the test set it
        at BIGINT NOT NULL);
    -- VOLATILE, like the real one: a transaction sees the clock move.
    CREATE OR REPLACE FUNCTION {schema}.clock_ms ()
    RETURNS BIGINT LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
    BEGIN
        RETURN (SELECT at FROM {schema}.fake_clock ORDER BY since DESC LIMIT 1);
    END $$;
    -- What the clock showed when the transaction began.
    CREATE OR REPLACE FUNCTION {schema}.transaction_ms ()
    RETURNS BIGINT LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
    BEGIN
        RETURN COALESCE(
            (SELECT at FROM {schema}.fake_clock WHERE since <= now() ORDER BY since DESC LIMIT 1),
            (SELECT at FROM {schema}.fake_clock ORDER BY since LIMIT 1));
    END $$
"""


class FakeClock:
    """Replaces the schema's `clock_ms()` and `transaction_ms()`: they return what the test sets.

    Needs an autocommit connection, and no open transaction when the clock is moved, because others see
    only what is committed. A REPEATABLE READ transaction sees the clock as of its snapshot.
    """

    def __init__(
        self, conn: psycopg.Connection, at: int = 1_700_000_000_000, schema: str = "lonnymq"
    ) -> None:
        self._conn = conn
        self._set = sql.SQL("INSERT INTO {schema}.fake_clock (at) VALUES ({at})")
        self._schema = sql.Identifier(schema)
        with conn.transaction():
            conn.execute(sql.SQL(INSTALL).format(schema=self._schema))
            self.set(at)

    @property
    def at(self) -> int:
        """Unix milliseconds."""
        return self._at

    def set(self, at: int) -> None:
        """May go back, as real clocks do."""
        self._conn.execute(self._set.format(schema=self._schema, at=at))
        self._at = at

    def advance(self, ms: int) -> int:
        self.set(self._at + ms)
        return self._at


RESTLESS = """
    -- A sequence is shared by all sessions and does not roll back, so every reading counts.
    CREATE SEQUENCE {schema}.fake_reading MINVALUE 0;
    CREATE TABLE {schema}.fake_steps (
        only_row BOOLEAN PRIMARY KEY DEFAULT TRUE,
        steps BIGINT[] NOT NULL,
        pace_ms NUMERIC NOT NULL,
        repeats BOOLEAN NOT NULL);
    CREATE OR REPLACE FUNCTION {schema}.clock_ms ()
    RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
    DECLARE
        v_n BIGINT := nextval('{schema}.fake_reading');
    BEGIN
        RETURN (
            SELECT c.at + (v_n * s.pace_ms)::BIGINT
                + COALESCE(s.steps[CASE WHEN s.repeats THEN v_n % cardinality(s.steps) ELSE v_n END + 1], 0)
            FROM {schema}.fake_steps s
            CROSS JOIN (SELECT at FROM {schema}.fake_clock ORDER BY since DESC LIMIT 1) c);
    END $$
"""


class RestlessClock(FakeClock):
    """Shows a different time at every reading, so that time also passes inside a call."""

    def __init__(
        self, conn: psycopg.Connection, at: int = 1_700_000_000_000, schema: str = "lonnymq"
    ) -> None:
        super().__init__(conn, at, schema)
        conn.execute(sql.SQL(RESTLESS).format(schema=self._schema))
        self.step()

    def step(self, *steps: int) -> None:
        """The next readings differ from `at` by these steps, in ms; later ones show `at`."""
        self._write(steps, 0, repeats=False)

    def jitter(self, steps: Sequence[int], pace_ms: float) -> None:
        """Each reading advances the time by `pace_ms` and adds one of the steps, in turn."""
        self._write(steps, pace_ms, repeats=True)

    def _write(self, steps: Sequence[int], pace_ms: float, *, repeats: bool) -> None:
        with self._conn.transaction():
            table = sql.SQL("{}.fake_steps").format(self._schema)
            self._conn.execute(sql.SQL("DELETE FROM {}").format(table))
            self._conn.execute(
                sql.SQL("INSERT INTO {} (steps, pace_ms, repeats) VALUES (%s, %s, %s)").format(table),
                (list(steps), pace_ms, repeats),
            )
            self._conn.execute(
                sql.SQL("SELECT setval({}, 0, FALSE)").format(
                    sql.Literal(f"{self._schema.as_string()}.fake_reading")
                )
            )
