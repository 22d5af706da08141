"""A clock for tests: the engine's time stands still until the test moves it, for all connections alike."""

import psycopg
from psycopg import sql

INSTALL = """
    CREATE TABLE {schema}.fake_clock (
        since TIMESTAMPTZ PRIMARY KEY DEFAULT clock_timestamp(), -- when the test set it
        at BIGINT NOT NULL);
    -- VOLATILE, as the real one: a transaction sees the clock move.
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
    """Replaces the schema's `clock_ms()` and `transaction_ms()` by ones that show what the test says.

    Needs an autocommit connection, with no transaction open when the clock is moved: others see what is
    committed. A REPEATABLE READ transaction sees the clock as of its snapshot.
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
        """May go back, as clocks do."""
        self._conn.execute(self._set.format(schema=self._schema, at=at))
        self._at = at

    def advance(self, ms: int) -> int:
        self.set(self._at + ms)
        return self._at
