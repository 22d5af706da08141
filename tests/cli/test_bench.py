"""lonnymq bench: its results, and that it touches nothing but its own schema."""

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

pytestmark = pytest.mark.slow

QUICK = ("bench", "--seconds", "0.05", "--channels", "4")
KINDS = [(what, batch) for what in ("enqueue", "consume") for batch in (1, 50, 500)]


def left(conn: psycopg.Connection) -> list[str]:
    found = conn.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'lonnymq\\_bench\\_%'")
    return [name for (name,) in found]


def announced(done: Done) -> tuple[int, str]:
    """How many messages it announces to write at most, and into which schema."""
    found = re.search(r"writes at most ([\d,]+) messages \(.*\) into schema (\w+),", done.said)
    assert found, done.stderr
    return int(found[1].replace(",", "")), found[2]


def all_rows(conn: psycopg.Connection) -> dict[str, list[Any]]:
    """Every row of the existing queue, with its ctid and xmin."""
    tables = conn.execute(
        "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = 'lonnymq'::regnamespace"
        " AND c.relkind = 'r'"
    ).fetchall()
    return {
        table: sorted(conn.execute(f"SELECT ctid::text, xmin::text, t::text FROM {table} t".encode()))
        for (table,) in tables
    }


def test_results_and_an_existing_queue_stays_untouched(
    lonnymq: Run, queue: Queue, conn: psycopg.Connection
) -> None:
    queue.enqueue_many(range(10), channel="tenant-1")
    queue.enqueue_many(range(10), channel="noisy")
    queue.dequeue(3)
    before = all_rows(conn)
    assert sum(len(rows) for rows in before.values()) > 20
    done = lonnymq(
        *QUICK, "--clients", "3", "--payload-bytes", "1000", "--json", env={"LONNYMQ_SCHEMA": "lonnymq"}
    )
    found = done.record
    assert all_rows(conn) == before
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
    server = found["server"]
    assert (server["is_pooled"], server["database"]) == (False, conn.info.dbname)
    for name, value in server["settings"].items():
        assert conn.execute("SELECT current_setting(%s)", [name]).fetchone() == (value,)
    assert {"server_version", "synchronous_commit", "fsync", "shared_buffers"} <= set(server["settings"])


def check_times(found: dict[str, Any]) -> None:
    assert found["round_trip_ms"] > 0
    assert found["commit_ms"] > 0
    latency = found["latency"]
    assert 0 < latency["p50_ms"] <= latency["p99_ms"]
    assert latency["messages"] >= 5


def check_rates(rates: list[dict[str, Any]]) -> None:
    assert [(rate["what"], rate["batch"]) for rate in rates] == KINDS
    for rate in rates:
        assert len(rate["rounds"]) == 3
        assert min(rate["rounds"]) > 0
        assert rate["per_second"] == sorted(rate["rounds"])[1]
        assert 0 < rate["client_cpu"] <= 1
        assert rate["wal_bytes_per_message"] > (1000 if rate["what"] == "enqueue" else 50)


def check_fairness(fairness: dict[str, Any]) -> None:
    assert fairness["noisy_backlog"] == 1_000
    assert fairness["messages"] >= 5
    assert 1 <= fairness["position_median"] <= fairness["position_worst"] < 100
    assert 500 < fairness["fifo_position_median"] <= 1_001


def test_output_for_people_in_a_database_without_a_queue(dsn: str, conn: psycopg.Connection) -> None:
    uninstall(conn)
    done = start(*QUICK, "--clients", "1", dsn=dsn, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert conn.execute("SELECT FROM pg_namespace WHERE nspname ~ 'lonnymq'").fetchall() == []
    shown = done.stdout.decode("ascii")
    lines = shown.splitlines()
    assert re.fullmatch(r"PostgreSQL \d+\.\d+.*, database lonnymq_test_\w+, direct connection", lines[0])
    assert "synchronous_commit on, fsync off, shared_buffers" in lines[1]
    assert lines[2] == "1 client process, 4 channels, 100 bytes per message; medians of 3 rounds"
    for name in ("round trip of an empty query", "commit of one message", "latency of a message, 99 %"):
        assert re.search(rf"^{name} +[\d.]+ m?s +#+$", shown, re.MULTILINE), shown
    for name in ("enqueue, 1 per call", "enqueue, 500 per call", "consume, 50 per call"):
        assert re.search(rf"^{name} +[\d,]+ +#+ +\d+% +[\d,]+ B$", shown, re.MULTILINE), shown
    assert (
        "While a noisy tenant had 1,000 messages waiting, a new message of a quiet tenant was served" in shown
    )
    assert "WAL: all that the server wrote meanwhile" in shown
    assert "does not wait for the disk, because fsync is off" in shown


def test_it_fits_80_columns_and_shows_how_far_it_is(dsn: str) -> None:
    code, shown = on_terminal(QUICK, dsn)
    assert code == 0
    assert "consume, 500 per call" in shown.partition("PostgreSQL")[0]
    result = CONTROL.sub("", shown).replace("\r", "").partition("PostgreSQL")[2]
    assert max(len(line.rstrip()) for line in result.split("\n")) <= 80
    assert re.search(r"consume, 500 per call +[\d,]+ +█+ +\d+% +[\d,]+ B", result)


def test_a_login_that_may_not_create_a_schema(login: Login, conn: psycopg.Connection) -> None:
    address = login()
    user = psycopg.conninfo.conninfo_to_dict(address)["user"]
    done = run(*QUICK, dsn=address)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    grant = f'GRANT CREATE ON DATABASE "{conn.info.dbname}" TO "{user}"'
    assert f"may not create a schema in database {conn.info.dbname} ({grant})" in done.stderr


@pytest.mark.long  # the test before has a login without it, and the first one all results
def test_a_login_with_only_that_privilege(
    login: Login, conn: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaves out what it may not read of the server. Does not import from the current folder."""
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
    assert re.search(r"^enqueue, 1 per call +[\d,]+ +█+ +\d+%$", done.stdout, re.MULTILINE), done.stdout
    assert "This login may not see how much WAL the server writes" in done.stdout


def test_no_database() -> None:
    for dsn, says in ((None, "pass --dsn, or set LONNYMQ_DSN"), (NOWHERE, "")):
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
    (["--payload-bytes", "1000000"], "this would write up to"),
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
    for text_part in (
        "--dsn",
        "one object per line",
        "Creates a temporary schema",
        "removes it",
        "under load",
    ):
        assert text_part in text


@pytest.mark.debian("pgbouncer")
def test_through_a_pooler(dsn: str, conn: psycopg.Connection) -> None:
    with pgbouncer(dsn) as pooler:
        done = run(*QUICK, "--json", dsn=pooler.dsn)
        assert all(session.synchronous_commit == "on" for session in pooler.sessions())
    assert done.record["server"]["is_pooled"] is True
    assert any("consumers poll once per second" in sentence for sentence in done.record["findings"])
    assert left(conn) == []
