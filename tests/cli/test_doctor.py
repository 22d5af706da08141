"""lonnymq doctor. The tests' server runs without fsync and full_page_writes, which are always two
problems.
"""

import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from lonnymq import NewMessage, Queue
from lonnymq.doctor import queue_checks, server_checks
from lonnymq.doctor.run_checks import SCHEMA_CHECK
from lonnymq.formatting import HOUR
from lonnymq.install import install
from tests.cli.conftest import Login, Run
from tests.cli.running import run
from tests.database import Connect, unique_name
from tests.faults.pgbouncer import pgbouncer

TIMEOUT_S = 10.0
Look = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def look(lonnymq: Run) -> Look:
    def by_name(*arguments: str) -> dict[str, dict[str, Any]]:
        return {found["check"]: found for found in lonnymq("doctor", "--json", *arguments).records}

    return by_name


@pytest.fixture
def threshold(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """So that a test need not wait for an hour, or fill a disk."""

    def lower(**limits: float) -> None:
        for name, limit in limits.items():
            holder = server_checks if hasattr(server_checks, name) else queue_checks
            monkeypatch.setattr(holder, name, limit)

    return lower


def test_a_queue_that_is_well(lonnymq: Run, look: Look) -> None:
    found = look()
    assert list(found) == [*server_checks.SERVER_CHECKS, SCHEMA_CHECK, *queue_checks.QUEUE_CHECKS]
    wrong = {name for name, finding in found.items() if finding["status"] != "ok"}
    assert wrong == {"fsync", "full page writes"}
    done = lonnymq("doctor")
    assert done.code == 1
    assert "problem  fsync" in done.stdout
    assert "-> set fsync = on" in done.stdout
    assert done.stderr.endswith(" ok, 2 problems\n")


def test_it_says_what_to_do_about_all_that_is_not_well(lonnymq: Run, threshold: Callable[..., None]) -> None:
    threshold(OLDEST_VERSION=99, FEW_CONNECTIONS=1.0, BLOATED_BYTES=0)
    for finding in lonnymq("doctor", "--json").records:
        assert bool(finding["advice"]) == (finding["status"] != "ok"), finding


def test_the_server(look: Look, threshold: Callable[..., None], conn: psycopg.Connection) -> None:
    threshold(OLDEST_VERSION=99)
    assert look()["server"]["status"] == "problem"
    name = sql.Identifier(conn.info.dbname)
    conn.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit TO off").format(name))
    assert look()["synchronous commit"]["status"] == "warning"


def test_connections(look: Look, threshold: Callable[..., None]) -> None:
    threshold(FEW_CONNECTIONS=1.0)
    assert look()["connections"]["status"] == "warning"
    threshold(VERY_FEW_CONNECTIONS=1.0)
    assert look()["connections"]["status"] == "problem"


def test_the_clock(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    for off in (-90, 90):
        monkeypatch.setattr(time, "time", lambda off=off: real() + off)
        found = look()["clock"]
        assert (found["status"], "differ by" in found["message"]) == ("warning", True)


def test_open_transactions(look: Look, connect: Connect, threshold: Callable[..., None]) -> None:
    conn = connect(autocommit=False)
    conn.execute("SELECT 1")
    pid = conn.info.backend_pid
    assert look()["open transactions"]["status"] == "ok"
    threshold(OLD_TRANSACTION_MS=0)
    found = look()["open transactions"]
    assert (found["status"], f"session {pid} has had a transaction open" in found["message"]) == (
        "warning",
        True,
    )
    threshold(IDLE_TRANSACTION_MS=0)
    found = look()["open transactions"]
    assert (found["status"], f"session {pid} has been idle" in found["message"]) == ("warning", True)
    threshold(VERY_OLD_TRANSACTION_MS=0)
    assert look()["open transactions"]["status"] == "problem"
    threshold(OLD_TRANSACTION_MS=HOUR, VERY_OLD_TRANSACTION_MS=HOUR)
    conn.pgconn.send_query(b"SELECT pg_sleep(60)")
    found = look()["open transactions"]
    assert (found["status"], "the oldest has been open for" in found["message"]) == ("ok", True), (
        "it is at work"
    )
    conn.cancel_safe()
    while conn.pgconn.get_result() is not None:
        pass
    conn.rollback()
    assert look()["open transactions"] == {
        "check": "open transactions",
        "status": "ok",
        "message": "none",
        "advice": None,
    }


def test_prepared_transactions(look: Look, conn: psycopg.Connection, threshold: Callable[..., None]) -> None:
    name = unique_name("doctor")
    conn.execute("BEGIN")
    conn.execute("SELECT pg_current_xact_id()")
    conn.execute(f"PREPARE TRANSACTION '{name}'".encode())
    try:
        assert look()["prepared transactions"]["status"] == "ok"
        threshold(OLD_TRANSACTION_MS=0)
        found = look()["prepared transactions"]
        assert (found["status"], name in found["message"]) == ("warning", True)
        threshold(VERY_OLD_TRANSACTION_MS=0)
        assert look()["prepared transactions"]["status"] == "problem"
    finally:
        conn.execute(f"ROLLBACK PREPARED '{name}'".encode())


def test_replication_slots(look: Look, conn: psycopg.Connection, threshold: Callable[..., None]) -> None:
    name = unique_name("doctor")
    conn.execute("SELECT pg_create_physical_replication_slot(%s)", [name])
    try:
        assert look()["replication slots"]["status"] == "ok"
        threshold(OLD_XIDS=0)
        found = look()["replication slots"]
        assert (found["status"], "holds back vacuum" in found["message"]) == ("problem", True)
    finally:
        conn.execute("SELECT pg_drop_replication_slot(%s)", [name])


@pytest.mark.parametrize("value", ["off", "FALSE"])
def test_autovacuum_that_is_off_for_a_table(look: Look, conn: psycopg.Connection, value: str) -> None:
    conn.execute(f"ALTER TABLE notice SET (autovacuum_enabled = {value})".encode())
    found = look()["autovacuum"]
    assert found["status"] == "problem"
    conn.execute(f"{found['advice']}".encode())
    assert look()["autovacuum"]["status"] == "ok"


def test_dead_rows(queue: Queue, look: Look, threshold: Callable[..., None]) -> None:
    queue.enqueue_many(range(20))
    queue.cancel_many(range(1, 21))
    queue.close()  # a session that ends tells its statistics
    threshold(DEAD_ROWS=10)
    deadline = time.monotonic() + TIMEOUT_S
    while (found := look()["dead rows"])["status"] == "ok":
        assert time.monotonic() < deadline
    assert "table message has" in found["message"]


def test_bloat(look: Look, threshold: Callable[..., None], conn: psycopg.Connection) -> None:
    threshold(BLOATED_BYTES=1)
    found = look()["bloat"]
    assert (found["status"], " KiB for " in found["message"]) == ("warning", True)
    if found["advice"].startswith("REINDEX"):
        conn.execute(f"{found['advice']}".encode())


def test_consumers_that_are_away(
    queue: Queue, look: Look, lonnymq: Run, threshold: Callable[..., None]
) -> None:
    assert look()["consumers"]["message"] == "no message was ever dequeued"
    queue.enqueue(1)
    assert look()["consumers"]["status"] == "warning", "nobody looked for it"
    lonnymq("stats")
    assert look()["consumers"]["status"] == "warning", "somebody looked, and took nothing"
    queue.enqueue(2, channel="b")
    queue.dequeue()
    assert look()["consumers"]["status"] == "ok", "one waits, and one was just taken"
    threshold(NOT_DEQUEUED_MS=0)
    assert look()["consumers"]["status"] == "warning"
    queue.complete_many(queue.dequeue(10))
    queue.dequeue()
    assert look()["consumers"]["status"] == "ok"


def test_a_lane_that_nobody_serves(
    queue: Queue, look: Look, conn: psycopg.Connection, threshold: Callable[..., None]
) -> None:
    queue.enqueue(1)
    queue.enqueue_many(NewMessage(number, lane="mail") for number in range(3))
    assert queue.dequeue(lanes=["default"])
    assert look()["lanes"]["status"] == "ok", "a worker may be about to start"
    conn.execute("UPDATE message SET dequeue_at = dequeue_at - 120000, created_at = created_at - 120000")
    assert look()["lanes"]["message"] == (
        "messages in lane 'mail' are due, and no consumer has asked for it yet"
    )
    queue.dequeue(lanes=["mail"])
    queue.dispatch()
    assert look()["lanes"]["status"] == "ok", "it is served, though a message is old"
    threshold(NOT_DEQUEUED_MS=0)
    assert "has asked for it for " in look()["lanes"]["message"]
    queue.set(paused=True)
    assert look()["lanes"]["status"] == "ok"


def test_nobody_is_missed_where_nothing_is_due(queue: Queue, look: Look, lonnymq: Run) -> None:
    queue.channel("paused").set(paused=True)
    queue.enqueue(1, channel="paused")
    queue.enqueue(2, delay=600)
    for _ in range(2):
        assert look()["consumers"]["status"] == "ok"
        lonnymq("stats")
    queue.enqueue(3)
    assert look()["consumers"]["status"] == "warning"
    queue.set(paused=True)
    assert look()["consumers"]["status"] == "ok"


def test_maintenance(queue: Queue, look: Look, threshold: Callable[..., None]) -> None:
    queue.enqueue(1, delay=600)
    queue.dequeue()
    assert look()["maintenance"]["message"] == "1 row to clean up"
    threshold(LEFTOVER_ROWS=1)
    assert look()["maintenance"]["status"] == "warning"
    queue.maintain()
    assert look()["maintenance"]["status"] == "ok"


def test_the_history(queue: Queue, look: Look, conn: psycopg.Connection) -> None:
    queue.set(history=True)
    queue.maintain()
    assert look()["history"]["message"] == "partitions exist for 7 days ahead"
    for (name,) in conn.execute(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'finished'::regclass"
        " AND inhrelid <> 'finished_other'::regclass"
    ).fetchall():
        conn.execute(f"DROP TABLE {name}".encode())
    assert look()["history"]["status"] == "warning"


def test_followers(look: Look, conn: psycopg.Connection, threshold: Callable[..., None]) -> None:
    conn.execute("SELECT history_follow('lake', pg_current_snapshot()::text)")
    assert look()["followers"]["message"] == "1, none behind"
    threshold(LAGGING_MS=0)
    found = look()["followers"]
    assert (found["status"], "'lake' last read" in found["message"]) == ("warning", True)


def test_pause_and_notify(queue: Queue, lonnymq: Run, look: Look) -> None:
    """What it says helps."""
    queue.set(paused=True, notify=False)
    found = look()
    assert (found["pause"]["status"], found["listen"]["status"]) == ("warning", "warning")
    for check in ("pause", "listen"):
        command = found[check]["advice"].split("`")[1].split()
        assert lonnymq(*command[1:]).code == 0
    found = look()
    assert (found["pause"]["status"], found["listen"]["status"]) == ("ok", "ok")


@pytest.mark.debian("pgbouncer")
def test_a_pooler_in_between(dsn: str) -> None:
    """What is left in a session stays there: its next client would find no table without its schema."""
    with pgbouncer(dsn) as pooler:
        before = sorted(pooler.sessions())
        found = {f["check"]: f for f in run("doctor", "--json", dsn=pooler.dsn).records}
        assert sorted(pooler.sessions()) == before
    assert (found["listen"]["status"], "pooler" in found["listen"]["message"]) == ("warning", True)
    assert {name for name, finding in found.items() if finding["status"] != "ok"} == {
        "fsync",
        "full page writes",
        "listen",
    }


def test_roles(conn: psycopg.Connection, look: Look, schema: str) -> None:
    def roles() -> dict[str, Any]:
        return look("--schema", schema)["roles"]

    assert roles()["status"] == "ok"
    names = {"schema": sql.Identifier(schema), "observer": sql.Identifier(f"{schema}_observer")}
    for change in (
        "REVOKE EXECUTE ON FUNCTION {schema}.queue_stats() FROM {observer}",
        "REVOKE SELECT ON {schema}.history FROM {observer}",
        "REVOKE USAGE ON SCHEMA {schema} FROM {observer}",
    ):
        conn.execute(sql.SQL(change).format(**names))
        assert (roles()["status"], f"{schema}_observer may not" in roles()["message"]) == ("problem", True)
        install(conn, schema)
        assert roles()["status"] == "ok"
    conn.execute(
        sql.SQL("REASSIGN OWNED BY {observer} TO current_user; DROP OWNED BY {observer}").format(**names)
    )
    conn.execute(sql.SQL("DROP ROLE {observer}").format(**names))
    assert (roles()["status"], roles()["message"]) == ("problem", f"missing: {schema}_observer")
    install(conn, schema)


def test_rights(conn: psycopg.Connection, look: Look, lonnymq: Run, login: Login, schema: str) -> None:
    def rights() -> dict[str, Any]:
        return look("--schema", schema)["rights"]

    other = str(psycopg.conninfo.conninfo_to_dict(login())["user"])
    quoted = f'"{schema}"'
    names = {"schema": sql.Identifier(schema), "other": sql.Identifier(other)}
    assert rights()["status"] == "ok"
    conn.execute(sql.SQL("GRANT SELECT ON {schema}.history TO {other}").format(**names))
    assert (rights()["status"], f"{other} has SELECT on {quoted}.history" in rights()["message"]) == (
        "warning",
        True,
    )
    assert lonnymq("verify", "--schema", schema).code == 0
    for change, says in {
        "GRANT EXECUTE ON FUNCTION {schema}.rebuild() TO PUBLIC": f"PUBLIC has EXECUTE on {quoted}.rebuild()",
        "GRANT SELECT ON {schema}.dead TO {other}": f"{other} has SELECT on {quoted}.dead",
        "ALTER TABLE {schema}.finished_other OWNER TO {other}": f"{quoted}.finished_other belongs to {other}",
    }.items():
        conn.execute(sql.SQL(change).format(**names))
        found = rights()
        assert (found["status"], says in found["message"]) == ("problem", True), found
        refused = lonnymq("verify", "--schema", schema)
        assert (refused.code, says in refused.stderr, found["advice"] in refused.stderr) == (1, True, True)
        conn.execute(found["advice"].encode())
        assert rights()["status"] == "warning"
    conn.execute(sql.SQL("DROP OWNED BY {other}").format(**names))


def test_credentials(conn: psycopg.Connection, look: Look, login: Login, schema: str) -> None:
    def credentials() -> dict[str, Any]:
        return look("--schema", schema)["credentials"]

    name = str(psycopg.conninfo.conninfo_to_dict(login(f"{schema}_observer"))["user"])
    role = sql.Identifier(name)
    conn.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
    assert credentials()["message"] == "no login is bound to channels"
    conn.execute("SELECT credential_bind(%s, '{mine}')", [name])
    assert (credentials()["status"], credentials()["message"]) == ("ok", "1 login bound to channels")
    conn.execute(sql.SQL("GRANT pg_read_all_data TO {}").format(role))
    assert (credentials()["status"], "can read the queue's tables" in credentials()["message"]) == (
        "problem",
        True,
    )
    conn.execute(sql.SQL("REVOKE pg_read_all_data FROM {}").format(role))
    gone = unique_name("gone")
    conn.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(gone)))
    conn.execute("SELECT credential_bind(%s, '{}')", [gone])
    conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(gone)))
    found = credentials()
    assert (found["status"], gone in found["message"]) == ("warning", True)
    conn.execute(found["advice"].removeprefix("if it is gone for good: ").encode())
    assert credentials()["status"] == "ok"
    conn.execute("DELETE FROM credential")
    assert (credentials()["status"], "are lost" in credentials()["message"]) == ("problem", True)


def test_a_login_that_sees_little(login: Login, schema: str) -> None:
    done = run("doctor", "--json", "--schema", schema, dsn=login(f"{schema}_observer"))
    found = {finding["check"]: finding for finding in done.records}
    for name in ("schema", "roles", "consumers", "maintenance"):
        assert (found[name]["status"], "not checked: " in found[name]["message"]) == ("warning", True)
    assert "cannot see the sessions of others" in found["open transactions"]["message"]
    assert found["listen"]["status"] == "ok"
    assert done.stderr == ""


def test_a_schema_that_is_missing_or_does_not_fit(lonnymq: Run, conn: psycopg.Connection) -> None:
    for schema, change, says in (
        ("nowhere", "SELECT", "LonnyMQ is not installed in schema"),
        (
            "lonnymq",
            "UPDATE installation SET contract = 0, release = '0.0.1'",
            "older than this package needs",
        ),
    ):
        conn.execute(change.encode())
        done = lonnymq("doctor", "--schema", schema)
        assert done.code == 4
        assert says in done.stdout
        assert "PostgreSQL" in done.stdout, "the server is looked at all the same"
        assert "followers" not in done.stdout, "the queue is not"
        assert "Traceback" not in done.stderr
    assert lonnymq("doctor", "--schema", "pg_x").code == 2


def test_a_schema_of_another_release(look: Look, conn: psycopg.Connection) -> None:
    conn.execute("UPDATE installation SET release = '0.0.9'")
    found = look()["schema"]
    assert (found["status"], "0.0.9" in found["message"]) == ("warning", True)


def test_a_login_that_is_bound_to_channels(conn: psycopg.Connection, login: Login, schema: str) -> None:
    """PostgreSQL's errors and the queue's own are told alike, and the other checks go on."""
    dsn = login(f"{schema}_observer")
    user = sql.Literal(conninfo_to_dict(dsn)["user"])
    bind = sql.SQL("SELECT {}.credential_bind({}, '{{mine}}')")
    conn.execute(bind.format(sql.Identifier(schema), user))
    done = run("doctor", "--json", "--schema", schema, dsn=dsn)
    found = {finding["check"]: finding for finding in done.records}
    refused = [name for name, finding in found.items() if "is bound to channels" in str(finding)]
    assert refused
    assert {found[name]["status"] for name in refused} == {"warning"}
