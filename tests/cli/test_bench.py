"""lonnymq bench: what it finds, and that it touches nothing but what it made."""

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lonnymq import Queue
from lonnymq.install import uninstall
from tests.cli.conftest import Login, Run
from tests.cli.running import NOWHERE, Done, on_terminal, run, start
from tests.cli.terminal import CONTROL
from tests.faults.pgbouncer import pgbouncer

QUICK = ("bench", "--seconds", "0.05", "--channels", "4")
KINDS = [(what, batch) for what in ("create", "consume") for batch in (1, 50, 500)]


def left(conn: psycopg.Connection) -> list[str]:
    found = conn.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'lonnymq\\_bench\\_%'")
    return [name for (name,) in found]


def announced(done: Done) -> tuple[int, str]:
    """How many messages it says it will write at most, and where."""
    found = re.search(r"at most ([\d,]+) messages \(.*\) are written into schema (\w+),", done.said)
    assert found, done.stderr
    return int(found[1].replace(",", "")), found[2]


def books(conn: psycopg.Connection) -> dict[str, list[Any]]:
    """Every row of the queue that was there before, with its place and who wrote it."""
    tables = conn.execute(
        "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = 'lonnymq'::regnamespace"
        " AND c.relkind = 'r'"
    ).fetchall()
    return {
        table: sorted(conn.execute(f"SELECT ctid::text, xmin::text, t::text FROM {table} t".encode()))
        for (table,) in tables
    }


def test_what_it_finds_beside_a_queue_that_it_does_not_touch(
    lonnymq: Run, queue: Queue, conn: psycopg.Connection
) -> None:
    queue.enqueue_many(range(10), channel="tenant-1")
    queue.enqueue_many(range(10), channel="noisy")
    queue.dequeue(3)
    before = books(conn)
    assert sum(len(rows) for rows in before.values()) > 20
    done = lonnymq(
        *QUICK, "--clients", "3", "--payload-bytes", "1000", "--json", env={"LONNYMQ_SCHEMA": "lonnymq"}
    )
    found = done.record
    assert books(conn) == before
    assert left(conn) == []
    assert done.stderr.count("\n") == 1
    most, schema = announced(done)
    assert re.fullmatch("lonnymq_bench_[0-9a-f]{8}", schema)
    assert found["schema"] == schema
    assert found["parameters"] == {"clients": 3, "channels": 4, "seconds": 0.05, "payload_bytes": 1000}
    assert 3 * 551 * 4 < found["messages_written"] <= most
    check_times(found)
    check_rates(found["rates"])
    check_fairness(found["fairness"])
    around = found["server"]
    assert (around["is_pooled"], around["database"]) == (False, conn.info.dbname)
    for name, value in around["settings"].items():
        assert conn.execute("SELECT current_setting(%s)", [name]).fetchone() == (value,)
    assert {"server_version", "synchronous_commit", "fsync", "shared_buffers"} <= set(around["settings"])


def check_times(found: dict[str, Any]) -> None:
    assert found["round_trip_ms"] > 0
    assert found["commit_ms"] > 0
    lone = found["latency"]
    assert 0 < lone["p50_ms"] <= lone["p99_ms"]
    assert lone["messages"] >= 5


def check_rates(rates: list[dict[str, Any]]) -> None:
    assert [(rate["what"], rate["batch"]) for rate in rates] == KINDS
    for rate in rates:
        assert len(rate["rounds"]) == 3
        assert min(rate["rounds"]) > 0
        assert rate["per_second"] == sorted(rate["rounds"])[1]
        assert 0 < rate["client_cpu"] <= 1
        assert rate["wal_bytes_per_message"] > (1000 if rate["what"] == "create" else 50)


def check_fairness(fairness: dict[str, Any]) -> None:
    assert fairness["noisy_backlog"] == 1_000
    assert fairness["messages"] >= 5
    assert 1 <= fairness["position_median"] <= fairness["position_worst"] < 100
    assert 500 < fairness["fifo_position_median"] <= 1_001


def test_for_people_in_a_database_without_a_queue(dsn: str, conn: psycopg.Connection) -> None:
    uninstall(conn)
    done = start(*QUICK, "--clients", "1", dsn=dsn, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert conn.execute("SELECT FROM pg_namespace WHERE nspname ~ 'lonnymq'").fetchall() == []
    shown = done.stdout.decode("ascii")
    lines = shown.splitlines()
    assert re.fullmatch(r"PostgreSQL \d+\.\d+.*, database lonnymq_test_\w+, directly", lines[0])
    assert "synchronous_commit on, fsync off, shared_buffers" in lines[1]
    assert lines[2] == "1 client process, 4 channels, 100 bytes a message; medians of 3 rounds"
    for name in ("round trip of an empty query", "commit of a message", "lone message, 99 % within"):
        assert re.search(rf"^{name} +[\d.]+ m?s +#+$", shown, re.MULTILINE), shown
    for name in ("create, 1 a call", "create, 500 a call", "take and complete, 50 a call"):
        assert re.search(rf"^{name} +[\d,]+ +#+ +\d+% +[\d,]+ B$", shown, re.MULTILINE), shown
    assert "Beside a tenant with 1,000 messages, those of quiet ones were served as number" in shown
    assert "WAL is all that the server wrote meanwhile" in shown
    assert "waits for no disk, as fsync is off" in shown


def test_it_fits_80_columns_and_shows_how_far_it_is(dsn: str) -> None:
    code, shown = on_terminal(QUICK, dsn)
    assert code == 0
    assert "take and complete, 500 a call" in shown.partition("PostgreSQL")[0]
    result = CONTROL.sub("", shown).replace("\r", "").partition("PostgreSQL")[2]
    assert max(len(line.rstrip()) for line in result.split("\n")) <= 80
    assert re.search(r"take and complete, 500 a call +[\d,]+ +█+ +\d+% +[\d,]+ B", result)


def test_a_login_that_may_make_no_schema(login: Login, conn: psycopg.Connection) -> None:
    address = login()
    user = psycopg.conninfo.conninfo_to_dict(address)["user"]
    done = run(*QUICK, dsn=address)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    grant = f'GRANT CREATE ON DATABASE "{conn.info.dbname}" TO "{user}"'
    assert f"may not make a schema in database {conn.info.dbname} ({grant})" in done.stderr


def test_a_login_with_that_right_alone(
    login: Login, conn: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it may not read of the server is left out. What is in the folder is not imported."""
    (tmp_path / "json.py").write_text("raise SystemExit('this is not for you')")
    monkeypatch.chdir(tmp_path)
    address = login()
    user = sql.Identifier(str(psycopg.conninfo.conninfo_to_dict(address)["user"]))
    database = sql.Identifier(conn.info.dbname)
    conn.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, user))
    conn.execute("REVOKE EXECUTE ON FUNCTION pg_current_wal_insert_lsn() FROM PUBLIC")
    try:
        done = run(*QUICK, dsn=address)
    finally:
        conn.execute(sql.SQL("REVOKE CREATE ON DATABASE {} FROM {}").format(database, user))
    assert done.code == 0, done.stderr
    assert left(conn) == []
    assert re.search(r"^create, 1 a call +[\d,]+ +█+ +\d+%$", done.stdout, re.MULTILINE), done.stdout
    assert "what the server writes as WAL, this login may not see" in done.stdout


def test_no_database() -> None:
    for dsn, says in ((None, "give --dsn, or set LONNYMQ_DSN"), (NOWHERE, "")):
        done = run(*QUICK, dsn=dsn)
        assert (done.code, done.stdout, done.stderr.count("\n")) == (3, "", 1), done.stderr
        assert says in done.stderr
        assert "cret" not in done.stderr


WRONG = [
    (["--clients", "0"], "--clients"),
    (["--clients", "1000"], "--clients"),
    (["--channels", "1"], "--channels"),
    (["--seconds", "0"], "--seconds"),
    (["--seconds", "soon"], "--seconds"),
    (["--payload-bytes", "-1"], "--payload-bytes"),
    (["--payload-bytes", "1000000"], "that would write up to"),
    (["--schema", "lonnymq"], "No such option"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG, ids=str)
def test_wrong_use(lonnymq: Run, conn: psycopg.Connection, arguments: list[str], says: str) -> None:
    done = lonnymq("bench", *arguments)
    assert (done.code, done.stdout) == (2, ""), done.stderr
    assert says in done.said
    assert left(conn) == []


def test_help() -> None:
    done = run("bench", "--help")
    text = " ".join(done.stdout.replace("│", " ").split())
    assert "Example: lonnymq bench --clients 4" in text
    for quantile in (
        "--dsn",
        "an object a line",
        "makes a schema of its own",
        "removes it",
        "loads the server",
    ):
        assert quantile in text


@pytest.mark.slow
@pytest.mark.debian("pgbouncer")
def test_through_a_pooler(dsn: str, conn: psycopg.Connection) -> None:
    with pgbouncer(dsn) as pooler:
        done = run(*QUICK, "--json", dsn=pooler.dsn)
        assert all(session.synchronous_commit == "on" for session in pooler.sessions())
    assert done.record["server"]["is_pooled"] is True
    assert any("consumers look every second" in sentence for sentence in done.record["findings"])
    assert left(conn) == []
