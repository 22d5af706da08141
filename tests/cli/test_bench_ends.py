"""lonnymq bench, ended before its time: its schema goes, or it says that it is left."""

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

LONG = ("bench", "--seconds", "2", "--channels", "4")
TIMEOUT_S = 60.0
AT_RATES = 1_500
"""More messages than wait before the rates are measured."""


@contextmanager
def begun(dsn: str) -> Iterator["subprocess.Popen[str]"]:
    """Tests that a shell runs in the background are deaf to Ctrl-C, and so is what they start."""
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


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
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


def until_nobody_is_there(conn: psycopg.Connection) -> None:
    """The clients have ended too."""
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
    [("SIGINT", 130), ("SIGTERM", 143), pytest.param("SIGHUP", 129, marks=pytest.mark.slow)],
)
def test_a_signal_leaves_nothing(dsn: str, conn: psycopg.Connection, number: str, code: int) -> None:
    with begun(dsn) as bench:
        until_at_rates(conn)
        bench.send_signal(signal.Signals[number])
        out, err = bench.communicate(timeout=TIMEOUT_S)
    assert (bench.returncode, out) == (code, "")
    assert "Traceback" not in err
    assert "is left" not in err
    assert left(conn) == []
    until_nobody_is_there(conn)


def test_ctrl_c_on_a_terminal(dsn: str, conn: psycopg.Connection) -> None:
    with Terminal(*LONG, dsn=dsn) as terminal:
        terminal.until(lambda: "a lone message" in terminal.raw)
        terminal.press("\x03")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.raw
    assert left(conn) == []
    until_nobody_is_there(conn)


@pytest.mark.slow
def test_one_that_is_killed_is_told_of_by_the_next(dsn: str, conn: psycopg.Connection, lonnymq: Run) -> None:
    with begun(dsn) as bench:
        until_at_rates(conn)
        [schema] = left(conn)
        bench.kill()
    conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    done = lonnymq(*QUICK)
    assert done.code == 0
    assert left(conn) == [schema]
    assert f"`lonnymq uninstall --schema {schema}` removes it" in done.said
    until_nobody_is_there(conn)
    assert lonnymq("uninstall", "--schema", schema, "--yes").code == 0
    assert left(conn) == []


def test_the_clients_of_one_that_is_killed_end(dsn: str, conn: psycopg.Connection) -> None:
    with begun(dsn) as bench:
        until(lambda: waiting(conn) > 0)
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
    return state != "Z"  # of whom nobody asks


def test_a_client_that_ends(dsn: str, conn: psycopg.Connection) -> None:
    with begun(dsn) as bench:
        until(lambda: waiting(conn) > 0)
        os.kill(children(bench.pid)[0], signal.SIGKILL)
        out, err = bench.communicate(timeout=TIMEOUT_S)
    assert (bench.returncode, out) == (1, "")
    assert "lonnymq: a client ended, with -9" in err
    assert left(conn) == []


CUT_OFF = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = %s AND application_name LIKE 'lonnymq%%'"
)


def test_connections_that_break(dsn: str, conn: psycopg.Connection) -> None:
    with begun(dsn) as bench:
        until_at_rates(conn)
        conn.execute(CUT_OFF, [conn.info.dbname])
        out, err = bench.communicate(timeout=TIMEOUT_S)
    assert (bench.returncode, out) == (3, ""), err
    assert "connection" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert "is left" not in err
    assert left(conn) == []


@pytest.mark.slow
def test_a_database_that_stays_away(dsn: str, conn: psycopg.Connection, lonnymq: Run) -> None:
    admin = psycopg.connect(make_conninfo(dsn, dbname="postgres"), autocommit=True)
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    database = sql.Identifier(conn.info.dbname)
    with admin, begun(dsn) as bench:
        until_at_rates(conn)
        [schema] = left(conn)
        admin.execute(allow.format(database, sql.SQL("FALSE")))
        try:
            admin.execute(CUT_OFF, [conn.info.dbname])
            out, err = bench.communicate(timeout=TIMEOUT_S)
        finally:
            admin.execute(allow.format(database, sql.SQL("TRUE")))
    assert (bench.returncode, out) == (3, ""), err
    assert f"Schema {schema} is left: `lonnymq uninstall --schema {schema}` removes it." in err
    assert "Traceback" not in err
    assert lonnymq("uninstall", "--schema", schema, "--yes").code == 0
    assert left(conn) == []


@pytest.mark.slow
def test_who_does_not_wait_for_the_removal_is_told_what_is_left(dsn: str, conn: psycopg.Connection) -> None:
    with begun(dsn) as bench, psycopg.connect(dsn) as reader:
        until_at_rates(conn)
        [schema] = left(conn)
        reader.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(sql.Identifier(schema, "message")))
        bench.send_signal(signal.SIGINT)
        until_removal_waits(conn)
        bench.send_signal(signal.SIGINT)
        out, err = bench.communicate(timeout=TIMEOUT_S)
    assert (bench.returncode, out) == (130, ""), err
    assert f"Schema {schema} is left: `lonnymq uninstall --schema {schema}` removes it." in err
    assert left(conn) == [schema]


@pytest.mark.slow
def test_a_removal_that_deadlocks_is_tried_again(dsn: str, conn: psycopg.Connection) -> None:
    """Of the two, it is the removal that gives way: it looks for deadlocks sooner."""
    conn.execute(
        sql.SQL("ALTER DATABASE {} SET deadlock_timeout TO '3s'").format(sql.Identifier(conn.info.dbname))
    )
    with begun(dsn) as bench, psycopg.connect(dsn, options="-c deadlock_timeout=60s") as reader:
        until_at_rates(conn)
        [schema] = left(conn)
        reader.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(sql.Identifier(schema, "message")))
        bench.send_signal(signal.SIGINT)
        until_removal_waits(conn)
        install(reader, schema)  # takes the lock that the removal has, and is let on
        reader.rollback()
        _, err = bench.communicate(timeout=TIMEOUT_S)
    assert (bench.returncode, "is left" in err) == (130, False), err
    assert left(conn) == []
