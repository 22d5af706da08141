"""Two commands in one round trip: each is a transaction, and the second runs only if the first succeeds."""

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from lonnymq.client.calls import Pair, Request, Steps
from lonnymq.statement import Command, Row, Statement, command
from tests.queues import KINDS, opened_queue


@command
class Ask(Command[Any]):
    function = "ask"
    is_harmless = True

    query: str

    def statement(self, schema: str) -> Statement:  # noqa: ARG002
        return Statement(self.query, ())

    def decode(self, rows: Sequence[Row]) -> Any:
        return rows[0][0]


NOTE = Ask("INSERT INTO public.noted SELECT CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT) RETURNING xid")
FAIL = Ask("SELECT 1 / 0")


def together(first: Ask, second: Ask) -> Request[Any]:
    def steps() -> Steps[Any]:
        answer: Any = yield Pair(first, second)
        return answer

    return Request(steps())


def noted(conn: psycopg.Connection) -> list[int]:
    return [xid for (xid,) in conn.execute("SELECT xid FROM public.noted ORDER BY xid")]


@pytest.fixture(autouse=True)
def table(conn: psycopg.Connection) -> None:
    conn.execute("CREATE TABLE public.noted (xid BIGINT)")


@pytest.mark.parametrize("kind", KINDS)
def test_each_command_is_a_transaction(dsn: str, conn: psycopg.Connection, kind: str) -> None:
    with opened_queue(kind, dsn) as opened:
        for count in range(1, 8):  # more often than a driver needs to prepare the statement
            last = opened.queue.perform(together(NOTE, NOTE))
            assert (len(set(noted(conn))), noted(conn)[-1]) == (2 * count, last)


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure(dsn: str, conn: psycopg.Connection, kind: str) -> None:
    """If the first fails, the second does not run. If the second fails, the first is committed."""
    with opened_queue(kind, dsn) as opened:
        with pytest.raises(Exception, match="division by zero"):
            opened.queue.perform(together(FAIL, NOTE))
        assert noted(conn) == []
        with pytest.raises(Exception, match="division by zero"):
            opened.queue.perform(together(NOTE, FAIL))
        assert len(noted(conn)) == 1
        assert opened.queue.stats().waiting == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_breaks(dsn: str, conn: psycopg.Connection, kind: str) -> None:
    """Both commands are harmless to repeat, so both are repeated."""
    break_connection = Ask(
        "SELECT pg_terminate_backend(pg_backend_pid()) FROM public.noted HAVING count(*) = 1"
    )
    with opened_queue(kind, dsn) as opened:
        with pytest.raises(IndexError):  # the second time it returns no row
            opened.queue.perform(together(NOTE, break_connection))
        assert len(noted(conn)) == 2
