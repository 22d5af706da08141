"""Installing, upgrading and uninstalling beside open transactions: nobody waits long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lonnymq import Queue, errors
from lonnymq.install import (
    SqlFiles,
    inspect,
    install,
    plan,
    read,
    run_plan,
    script,
    uninstall,
    uninstall_plan,
    upgrade,
)
from lonnymq.install.files import Step, View
from lonnymq.install.plan import LOCK_TIMEOUT_MS
from tests.database import Connect, unique_name, until_waiting

Conn = psycopg.Connection[Any]

LONGEST_S = LOCK_TIMEOUT_MS / 1000
SLACK_S = 1.5
"""Extra time for a busy machine."""
FILES = read()
NUMBER = FILES.last_step + 1
ALTERING = SqlFiles(
    (*FILES.steps, Step(NUMBER, "more", "ALTER TABLE message ADD extra INT;")), FILES.functions, FILES.views
)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as made:
        yield made


@contextmanager
def holding(conn: Conn, query: str) -> Iterator[None]:
    with conn.transaction():
        conn.execute(query.encode())
        yield


@pytest.fixture
def holder(connect: Connect) -> Conn:
    """A transaction that is left open, and has only read `message`."""
    conn = connect(application_name="left open", autocommit=False)
    conn.execute("SELECT FROM message")
    return conn


def columns(conn: Conn) -> set[str]:
    query = "SELECT attname FROM pg_attribute WHERE attrelid = 'message'::REGCLASS"
    return {name for (name,) in conn.execute(query)}


def test_nobody_waits_behind_an_upgrade_that_waits(
    holder: Conn, connect: Connect, pool: ThreadPoolExecutor
) -> None:
    """Creates go on all the time; the upgrade succeeds once the transaction that blocks it has ended."""
    upgrading, watcher = connect(), connect()
    producer = connect(options="-c search_path=lonnymq -c statement_timeout=20s")
    done = pool.submit(upgrade, upgrading, "lonnymq", ALTERING)
    longest, waits = 0.0, 0
    try:
        while waits < 3:
            began = time.monotonic()
            producer.execute("SELECT message_create('a', '')")
            took = time.monotonic() - began
            longest, waits = max(longest, took), waits + (took > LONGEST_S / 10)
            assert not done.done(), done.exception()
    finally:
        holder.rollback()
    assert done.result(60).step == NUMBER
    assert longest < LONGEST_S + SLACK_S
    assert "extra" in columns(watcher)


@pytest.mark.slow
def test_an_upgrade_gives_up_and_names_who_is_in_the_way(holder: Conn, connect: Connect) -> None:
    conn = connect()
    began = time.monotonic()
    with pytest.raises(errors.SchemaLocked) as raised:
        upgrade(conn, "lonnymq", ALTERING, wait=4)
    assert time.monotonic() - began < 4 + LONGEST_S + 2 * SLACK_S
    pid, role = holder.info.backend_pid, holder.info.user
    message, hint = raised.value.message, raised.value.hint or ""
    assert message.startswith('could not lock what is in schema "lonnymq" (')
    assert "attempts in" in message
    assert f"pid {pid} (role \"{role}\", application 'left open', open for" in message
    assert "query: 'SELECT FROM message') holds \"message\"" in message
    assert f"SELECT pg_terminate_backend({pid});" in hint
    assert "extra" not in columns(conn)
    assert inspect(conn).step == FILES.last_step
    conn.execute(hint[hint.index("SELECT") :].encode())
    assert upgrade(conn, "lonnymq", ALTERING).step == NUMBER


def test_uninstall_gives_up_and_names_everything_in_the_way(holder: Conn, connect: Connect) -> None:
    other, conn = connect(), connect()
    with holding(other, "SELECT FROM dead"), pytest.raises(errors.SchemaLocked) as raised:
        uninstall(conn, wait=0)
    for blocker, relation in ((holder, "message"), (other, "dead")):
        assert f"pid {blocker.info.backend_pid} (" in str(raised.value)
        assert f'holds "{relation}"' in str(raised.value)
    assert "(1 attempt in" in raised.value.message
    assert inspect(conn).step == FILES.last_step
    holder.rollback()
    uninstall(conn)


def test_sessions_that_are_not_in_the_way_are_not_named(holder: Conn, connect: Connect) -> None:
    other = connect()
    with holding(other, "SELECT FROM dead"), pytest.raises(errors.SchemaLocked) as raised:
        upgrade(connect(), "lonnymq", ALTERING, wait=0)
    assert str(holder.info.backend_pid) in str(raised.value)
    assert str(other.info.backend_pid) not in str(raised.value)


def test_a_prepared_transaction_is_named(connect: Connect) -> None:
    conn, name = connect(), unique_name("it's")
    with connect(autocommit=False) as preparing:
        preparing.execute("SELECT queue_set(p_notify => FALSE)")
        preparing.commit()
        preparing.execute("SELECT message_create('a', '')")
        preparing.execute(sql.SQL("PREPARE TRANSACTION {}").format(name))
        preparing.commit()
    try:
        with pytest.raises(errors.SchemaLocked) as raised:
            upgrade(conn, "lonnymq", ALTERING, wait=0)
    finally:
        undo = sql.SQL("ROLLBACK PREPARED {}").format(name).as_string(conn)
        conn.execute(undo.encode())
    assert (
        f'prepared transaction {sql.quote(name)} (role "{conn.info.user}", open for' in raised.value.message
    )
    assert 'holds "message"' in raised.value.message
    assert f"{undo};" in (raised.value.hint or "")


def test_what_a_plain_role_sees_of_it(conn: Conn, connect: Connect) -> None:
    """Who it is, but neither the query of another role nor since when its transaction is open."""
    role = unique_name("owner")
    conn.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{role}'".encode())
    conn.execute(f'GRANT CREATE ON DATABASE "{conn.info.dbname}" TO {role}'.encode())
    try:
        owner = connect(user=role, password=role)
        install(owner, "mine")
        with holding(conn, "SELECT FROM mine.message"), pytest.raises(errors.SchemaLocked) as raised:
            uninstall(owner, "mine", wait=0)
        assert f'pid {conn.info.backend_pid} (role "{conn.info.user}"' in raised.value.message
        assert "its query is not visible to this role" in raised.value.message
        assert "SELECT FROM mine" not in raised.value.message
        terminate = f"SELECT pg_terminate_backend({conn.info.backend_pid});"
        says = f'Role "{role}" may not end it: have a superuser run: {terminate}'
        assert (raised.value.hint or "").endswith(says)
        uninstall(owner, "mine")
        owner.close()
    finally:
        conn.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_a_role_that_may_not_end_the_transaction_of_another(conn: Conn, connect: Connect) -> None:
    owner_role, other_role = unique_name("owner"), unique_name("other")
    for role in (owner_role, other_role):
        conn.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{role}'".encode())
    conn.execute(f'GRANT CREATE ON DATABASE "{conn.info.dbname}" TO {owner_role}'.encode())
    try:
        owner, other = (connect(user=role, password=role) for role in (owner_role, other_role))
        install(owner, "mine")
        owner.execute(f"GRANT USAGE ON SCHEMA mine TO {other_role}".encode())
        owner.execute(f"GRANT SELECT ON mine.message TO {other_role}".encode())

        def hint() -> str:
            query = "SELECT FROM mine.message"
            with holding(other, query), pytest.raises(errors.SchemaLocked) as raised:
                uninstall(owner, "mine", wait=0)
            return raised.value.hint or ""

        terminate = f"SELECT pg_terminate_backend({other.info.backend_pid});"
        grant = f'GRANT pg_signal_backend TO "{owner_role}";'
        said = f'Role "{owner_role}" may not end it: have a superuser run: {terminate} or: {grant}'
        assert hint().endswith(said)
        conn.execute(grant.encode())
        assert hint().endswith(f"end the transaction and try again, for example with {terminate}")
        conn.execute(
            f"REVOKE pg_signal_backend FROM {owner_role}; GRANT {other_role} TO {owner_role}".encode()
        )
        assert hint().endswith(f"for example with {terminate}")
        owner.execute(terminate.encode())
        uninstall(owner, "mine")
        owner.close()
    finally:
        for role in (owner_role, other_role):
            conn.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_within_the_callers_transaction_there_is_one_attempt(holder: Conn, connect: Connect) -> None:
    conn, watcher = connect(autocommit=False), connect()
    conn.execute("SELECT message_create('a', '')")
    conn.execute("SET LOCAL lock_timeout TO '1min'")
    began = time.monotonic()
    with pytest.raises(errors.SchemaLocked, match=r"\(1 attempt in \d s\)"):
        upgrade(conn, "lonnymq", ALTERING)
    assert time.monotonic() - began < LONGEST_S + SLACK_S
    assert conn.execute("SHOW lock_timeout").fetchone() == ("1min",)
    conn.commit()
    assert watcher.execute("SELECT COUNT(*) FROM message").fetchone() == (1,), "it can go on and commit"


def test_the_callers_settings_are_left_as_they_were(conn: Conn, connect: Connect) -> None:
    with conn.transaction():
        conn.execute("SET LOCAL lock_timeout TO '1min'")
        upgrade(conn, "lonnymq", ALTERING)
        assert conn.execute("SHOW lock_timeout").fetchone() == ("1min",)
    assert conn.execute("SHOW lock_timeout").fetchone() == ("0",)


def test_a_shorter_timeout_of_the_callers_stays(holder: Conn, connect: Connect) -> None:
    conn = connect(options="-c search_path=lonnymq -c lock_timeout=50ms")
    began = time.monotonic()
    with pytest.raises(errors.SchemaLocked):
        upgrade(conn, "lonnymq", ALTERING, wait=0)
    assert time.monotonic() - began < LONGEST_S


def test_the_wait_for_another_installation_is_bounded(connect: Connect) -> None:
    first, second = connect(autocommit=False), connect()
    for statement in plan("q", SqlFiles((), ())):
        first.execute(statement.encode())
    with pytest.raises(errors.SchemaLocked) as raised:
        install(second, "q", wait=0)
    assert f"pid {first.info.backend_pid} (" in raised.value.message
    assert "holds the advisory lock of another installation" in raised.value.message


def two_tables(between: str = "") -> SqlFiles:
    text = f"ALTER TABLE dead ADD extra INT; {between} ALTER TABLE message ADD extra INT;"
    return SqlFiles((*FILES.steps, Step(NUMBER, "more", text)), FILES.functions, FILES.views)


def test_it_gives_way_to_who_takes_locks_in_another_order(
    connect: Connect, pool: ThreadPoolExecutor, holder: Conn
) -> None:
    """The upgrade has `dead` and waits for `message`; the other transaction has `message` and waits for
    `dead`."""
    upgrading, watcher = connect(), connect()
    watcher.execute("SELECT pg_advisory_lock(42)")
    done = pool.submit(upgrade, upgrading, "lonnymq", two_tables("SELECT pg_advisory_xact_lock_shared(42);"))
    until_waiting(watcher, upgrading)
    asking = pool.submit(holder.execute, "SELECT FROM dead")
    until_waiting(watcher, holder)
    watcher.execute("SELECT pg_advisory_unlock(42)")
    asking.result(60)
    holder.commit()
    assert done.result(60).step == NUMBER


def test_a_deadlock_is_tried_again(
    connect: Connect, pool: ThreadPoolExecutor, holder: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before, but now PostgreSQL detects the deadlock and cancels the upgrade."""
    monkeypatch.setattr(run_plan, "LOCK_TIMEOUT_MS", 60_000)
    upgrading, watcher = connect(options="-c search_path=lonnymq -c deadlock_timeout=10ms"), connect()
    watcher.execute("SELECT pg_advisory_lock(42)")
    done = pool.submit(upgrade, upgrading, "lonnymq", two_tables("SELECT pg_advisory_xact_lock_shared(42);"))
    until_waiting(watcher, upgrading)
    holder.execute("SET deadlock_timeout TO '1h'")
    asking = pool.submit(holder.execute, "SELECT FROM dead")
    until_waiting(watcher, holder)
    watcher.execute("SELECT pg_advisory_unlock(42)")
    asking.result(60)
    holder.commit()
    assert done.result(60).step == NUMBER
    query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    upgrading.close()
    deadline = time.monotonic() + 30
    while watcher.execute(query).fetchone() != (1,):  # statistics are updated a moment later
        assert time.monotonic() < deadline, "there was no deadlock"


@pytest.mark.parametrize("make", [lambda: plan("q"), lambda: uninstall_plan("q")])
def test_the_scripts_have_the_same_timeout(make: Callable[[], Any]) -> None:
    text = script(make())
    assert f"SET LOCAL lock_timeout TO {LOCK_TIMEOUT_MS}" in text
    assert text.index("lock_timeout") < text.index("pg_advisory_xact_lock")


def exclusive_locks(watcher: Conn, conn: Conn) -> set[str]:
    query = """
        SELECT c.relname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
        WHERE l.pid = %s AND l.mode IN ('AccessExclusiveLock', 'ExclusiveLock', 'ShareRowExclusiveLock',
            'ShareLock', 'ShareUpdateExclusiveLock')"""
    return {name for (name,) in watcher.execute(query, [conn.info.backend_pid])}


def test_an_upgrade_with_nothing_to_do_locks_nobody_out(conn: Conn, connect: Connect) -> None:
    watcher = connect()
    install(conn, roles=False)
    with conn.transaction(force_rollback=True):
        for statement in plan("lonnymq", must_exist=True):
            conn.execute(statement.encode())
        assert exclusive_locks(watcher, conn) == set()


def test_readers_of_views_are_not_in_the_way(conn: Conn, connect: Connect) -> None:
    names = [view.name for view in FILES.views]
    with holding(connect(), f"SELECT FROM {', '.join(names)} LIMIT 0"):
        upgrade(conn, wait=0)


@pytest.mark.parametrize(
    "spoilt",
    [
        "CREATE OR REPLACE VIEW leases WITH (security_barrier) AS {} LIMIT 1",
        "ALTER VIEW leases RESET (security_barrier)",
        "DROP VIEW leases",
    ],
)
def test_a_view_that_is_not_as_it_should_be_is_replaced(conn: Conn, spoilt: str) -> None:
    query = (
        "SELECT pg_get_viewdef('leases'::REGCLASS), reloptions FROM pg_class WHERE oid = 'leases'::REGCLASS"
    )
    before = conn.execute(query).fetchone()
    assert before is not None
    conn.execute(spoilt.format(before[0].rstrip(";")).encode())
    upgrade(conn)
    assert conn.execute(query).fetchone() == before
    found = conn.execute("SELECT relname FROM pg_class WHERE relname LIKE %s", ["%(new)%"]).fetchall()
    assert found == []


def test_a_view_that_changes_waits_for_its_readers(conn: Conn, connect: Connect) -> None:
    views = [
        View(view.name, f"{view.text} LIMIT 5") if view.name == "leases" else view for view in FILES.views
    ]
    files = SqlFiles(FILES.steps, FILES.functions, tuple(views))
    reader = connect()
    named = f'pid {reader.info.backend_pid} .* holds .*"leases"'
    with holding(reader, "SELECT FROM leases"), pytest.raises(errors.SchemaLocked, match=named):
        upgrade(conn, "lonnymq", files, wait=0)
    upgrade(conn, "lonnymq", files, wait=0)


@pytest.mark.parametrize("kind", ["Queue", "engine"])
def test_a_queue_installs_once_it_can(
    dsn: str, connect: Connect, pool: ThreadPoolExecutor, kind: str
) -> None:
    """It borrows a connection to install on, and pauses between its attempts."""
    from sqlalchemy import create_engine

    engine = create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    first, watcher = connect(autocommit=False), connect()
    for statement in plan("q"):
        first.execute(statement.encode())
    with Queue(dsn if kind == "Queue" else engine, "q") as queue:
        done: Future[Any] = pool.submit(queue.install)
        waiting = (
            "SELECT FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()"
        )
        while watcher.execute(waiting).fetchone() is None:
            assert not done.done(), done.exception()
        while watcher.execute(waiting).fetchone() is not None:
            assert not done.done(), done.exception()
        first.commit()
        assert done.result(60).schema == "q"
        for statement in plan("q")[:4]:
            first.execute(statement.encode())
        with pytest.raises(errors.SchemaLocked):
            queue.install(wait=0)
    engine.dispose()
