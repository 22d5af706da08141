"""lonnymq bench when it is interrupted: it removes its schema, or says that it could not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lonnymq.install import install
from tests.cli.conftest import Run
from tests.cli.running import environment
from tests.cli.terminal import Terminal
from tests.cli.test_bench import QUICK, left

pytestmark = pytest.mark.slow

LONG = ("bench", "--seconds", "2", "--channels", "4")
TIMEOUT_S = 60.0
AT_RATES = 1_500
"""More messages than are waiting before the rates are measured."""


@contextmanager
def begun(dsn: str) -> Iterator["subprocess.Popen[str]"]:
    """With the default handler of SIGINT: what a shell starts in the background ignores it."""
    with subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, "-W", "error", "-m", "lonnymq", *LONG],
        env=environment(dsn),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        yield started
        started.kill()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def waiting(conn: psycopg.Connection) -> int:
    """Messages in the bench's queue."""
    for schema in left(conn):
        found = conn.execute(
            sql.SQL("SELECT COUNT(*) FROM {}").format(sql.Identifier(schema, "message"))
        ).fetchone()
        assert found is not None
        return int(found[0])
    return 0


def until_at_rates(conn: psycopg.Connection) -> None:
    until(lambda: waiting(conn) > AT_RATES)


def until_begun(conn: psycopg.Connection) -> None:
    """Its schema is there, and its clients run."""
    until(lambda: waiting(conn) > 0)


def until_nobody_is_there(conn: psycopg.Connection) -> None:
    """The clients have exited, too."""
    until(
        lambda: (
            not conn.execute(
                "SELECT FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name = 'lonnymq'"
            ).fetchall()
        )
    )


@pytest.mark.parametrize(
    ("number", "code"),
    [
        ("SIGINT", 130),
        pytest.param("SIGTERM", 143, marks=pytest.mark.long),
        pytest.param("SIGHUP", 129, marks=pytest.mark.long),
    ],
)
def test_a_signal_leaves_nothing(dsn: str, conn: psycopg.Connection, number: str, code: int) -> None:
    with begun(dsn) as bench:
        if number == "SIGINT":
            until_at_rates(conn)
        else:
            until_begun(conn)
        bench.send_signal(signal.Signals[number])
        out, err = bench.communicate(timeout=TIMEOUT_S)
    assert (bench.returncode, out) == (code, "")
    assert "Traceback" not in err
    assert "was not removed" not in err
    assert left(conn) == []
    until_nobody_is_there(conn)


@pytest.mark.long
def test_ctrl_c_on_a_terminal(dsn: str, conn: psycopg.Connection) -> None:
    with Terminal(*LONG, dsn=dsn) as terminal:
        terminal.until(lambda: "latency of a message" in terminal.raw)
        terminal.press("\x03")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.raw
    assert left(conn) == []
    until_nobody_is_there(conn)


def test_the_next_benchmark_reports_the_schema_of_a_killed_one(
    dsn: str, conn: psycopg.Connection, lonnymq: Run
) -> None:
    with begun(dsn) as bench:
        until_begun(conn)
        [schema] = left(conn)
        bench.kill()
    conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    done = lonnymq(*QUICK)
    assert done.code == 0
    assert left(conn) == [schema]
    assert f"remove it with `lonnymq uninstall --schema {schema}`" in done.said
    until_nobody_is_there(conn)
    assert lonnymq("uninstall", "--schema", schema, "--yes").code == 0
    assert left(conn) == []


@pytest.mark.long
def test_the_clients_of_a_killed_benchmark_exit(dsn: str, conn: psycopg.Connection) -> None:
    with begun(dsn) as bench:
        until_begun(conn)
        clients = children(bench.pid)
        assert len(clients) == 2
        bench.kill()
        bench.wait()
    until(lambda: not any(is_alive(client) for client in clients))


def until_removal_waits(conn: psycopg.Connection) -> None:
    until(
        lambda: conn.execute(
            "SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
            " WHERE a.datname = current_database() AND l.mode = 'AccessExclusiveLock' AND NOT l.granted"
        ).fetchall()
    )


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # a zombie


@pytest.mark.long
def test_a_client_that_is_killed(dsn: str, conn: psycopg.Connection) -> None:
    with begun(dsn) as bench:
        until_begun(conn)
        os.kill(children(bench.pid)[0], signal.SIGKILL)
        out, err = bench.communicate(timeout=TIMEOUT_S)
    assert (bench.returncode, out) == (1, "")
    assert "lonnymq: a client process exited with code -9" in err
    assert left(conn) == []


CUT_OFF = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = %s AND application_name LIKE 'lonnymq%%'"
)


@pytest.mark.long
def test_connections_that_break(dsn: str, conn: psycopg.Connection) -> None:
    with begun(dsn) as bench:
        until_at_rates(conn)
        conn.execute(CUT_OFF, [conn.info.dbname])
        out, err = bench.communicate(timeout=TIMEOUT_S)
    assert (bench.returncode, out) == (3, ""), err
    assert "connection" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert "was not removed" not in err
    assert left(conn) == []


def test_a_database_that_stays_unreachable(dsn: str, conn: psycopg.Connection, lonnymq: Run) -> None:
    admin = psycopg.connect(make_conninfo(dsn, dbname="postgres"), autocommit=True)
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    database = sql.Identifier(conn.info.dbname)
    with admin, begun(dsn) as bench:
        until_begun(conn)
        [schema] = left(conn)
        admin.execute(allow.format(database, sql.SQL("FALSE")))
        try:
            admin.execute(CUT_OFF, [conn.info.dbname])
            out, err = bench.communicate(timeout=TIMEOUT_S)
        finally:
            admin.execute(allow.format(database, sql.SQL("TRUE")))
    assert (bench.returncode, out) == (3, ""), err
    assert f"Schema {schema} was not removed: run `lonnymq uninstall --schema {schema}`." in err
    assert "Traceback" not in err
    assert lonnymq("uninstall", "--schema", schema, "--yes").code == 0
    assert left(conn) == []


@pytest.mark.long
def test_a_second_ctrl_c_does_not_wait_for_the_removal(dsn: str, conn: psycopg.Connection) -> None:
    with begun(dsn) as bench, psycopg.connect(dsn) as reader:
        until_begun(conn)
        [schema] = left(conn)
        reader.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(sql.Identifier(schema, "message")))
        bench.send_signal(signal.SIGINT)
        until_removal_waits(conn)
        bench.send_signal(signal.SIGINT)
        out, err = bench.communicate(timeout=TIMEOUT_S)
    assert (bench.returncode, out) == (130, ""), err
    assert f"Schema {schema} was not removed: run `lonnymq uninstall --schema {schema}`." in err
    assert left(conn) == [schema]


@pytest.mark.long
def test_a_removal_that_deadlocks_is_tried_again(dsn: str, conn: psycopg.Connection) -> None:
    """PostgreSQL cancels the removal, as its deadlock_timeout is the shorter one."""
    conn.execute(
        sql.SQL("ALTER DATABASE {} SET deadlock_timeout TO '3s'").format(sql.Identifier(conn.info.dbname))
    )
    with begun(dsn) as bench, psycopg.connect(dsn, options="-c deadlock_timeout=60s") as reader:
        until_begun(conn)
        [schema] = left(conn)
        reader.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(sql.Identifier(schema, "message")))
        bench.send_signal(signal.SIGINT)
        until_removal_waits(conn)
        install(reader, schema)  # waits for the lock of the removal until that is cancelled
        reader.rollback()
        _, err = bench.communicate(timeout=TIMEOUT_S)
    assert (bench.returncode, "was not removed" in err) == (130, False), err
    assert left(conn) == []
