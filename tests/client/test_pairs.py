"""Two commands in one round trip: each in a transaction of its own, and the second only after the first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from lonnymq.client.calls import Pair, Request, Steps
from lonnymq.statement import Command, Row, Statement
from tests.queues import KINDS, made


@dataclass(frozen=True)
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
def test_each_is_a_transaction_of_its_own(dsn: str, conn: psycopg.Connection, kind: str) -> None:
    with made(kind, dsn) as it:
        for count in range(1, 8):  # beyond the number of times after which drivers prepare
            last = it.queue.perform(together(NOTE, NOTE))
            assert (len(set(noted(conn))), noted(conn)[-1]) == (2 * count, last)


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure(dsn: str, conn: psycopg.Connection, kind: str) -> None:
    """Of the first: the second is not run. Of the second: the first is committed. The connection is good."""
    with made(kind, dsn) as it:
        with pytest.raises(Exception, match="division by zero"):
            it.queue.perform(together(FAIL, NOTE))
        assert noted(conn) == []
        with pytest.raises(Exception, match="division by zero"):
            it.queue.perform(together(NOTE, FAIL))
        assert len(noted(conn)) == 1
        assert it.queue.stats().waiting == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_breaks(dsn: str, conn: psycopg.Connection, kind: str) -> None:
    """Both may be repeated, and are."""
    breaks = Ask("SELECT pg_terminate_backend(pg_backend_pid()) FROM public.noted HAVING count(*) = 1")
    with made(kind, dsn) as it:
        with pytest.raises(IndexError):  # the second time it answers, with no row
            it.queue.perform(together(NOTE, breaks))
        assert len(noted(conn)) == 2
