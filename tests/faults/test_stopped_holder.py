"""A server process is stopped (SIGSTOP, a frozen container) while it holds the dispatch lock.

Nothing in PostgreSQL can terminate a process that does not run. Messages that were dispatched before are
served meanwhile; new ones wait until the process continues or is killed. When it continues, its session is
terminated at once.
"""

import os
import signal
from collections.abc import Iterator

import psycopg
import pytest

from lonnymq.embedded import Server
from lonnymq.install import install
from tests.database import create_database
from tests.faults.clusters import cluster, connect
from tests.invariants import dequeue, dispatch, drain
from tests.isolation.shared_database import fail_on_lock_wait, until, value
from tests.sql.test_dequeue import fill


@pytest.fixture(scope="module")
def own_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    """A separate cluster: on a shared one, DROP DATABASE would wait for the stopped process."""
    with cluster(pytestconfig.getoption("--pg")) as server:
        create_database(server, "queue")
        with connect(server, "queue") as conn:
            install(conn, schema="lonnymq")
        yield server


@pytest.mark.slow
def test_a_stopped_dispatch(own_server: Server) -> None:
    with connect(own_server, "queue") as conn, connect(own_server, "queue") as holder:
        fill(conn, a=5)
        conn.execute("SELECT message_create('b', 'not yet dispatched')")
        holder.execute("BEGIN")
        holder.execute("SELECT dispatch()")
        os.kill(holder.info.backend_pid, signal.SIGSTOP)
        try:
            start = value(conn, "SELECT clock_ms()")
            with fail_on_lock_wait(conn):
                conn.execute("SELECT message_create('c', 'meanwhile')")
                assert value(conn, "SELECT dispatch()") is True
                taken, _ = dequeue(conn, 10)
                assert [message.channel for message in taken] == ["a"] * 5
                for message in taken:
                    conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
            until(
                lambda: value(conn, "SELECT clock_ms() > %s", start + 6_000),
                "the time of the lock guard to pass",
            )
            assert dequeue(conn, 10)[0] == [], "new messages wait"
        finally:
            os.kill(holder.info.backend_pid, signal.SIGCONT)
        gone = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %s)"
        until(
            lambda: value(conn, gone, holder.info.backend_pid), "the session of the holder to be terminated"
        )
        assert {message.channel for message in drain(conn)} == {"b", "c"}
        dispatch(conn)
        with pytest.raises(psycopg.Error, match="terminating connection"):
            holder.execute("COMMIT")
