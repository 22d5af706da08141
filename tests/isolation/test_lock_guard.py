"""A transaction that has a lock which all sessions need is terminated after five seconds, idle or busy, and
cannot be prepared.
"""

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.database import unique_name
from tests.isolation.busy_queue import BusyQueue, build, create
from tests.isolation.pausing import install, is_installed, paused
from tests.isolation.shared_database import (
    SharedDatabase,
    check_and_deliver_all,
    dispatch,
    end,
    fail_on_lock_wait,
    take,
    until,
    value,
)

HOUR = 3_600_000
ENDINGS = pytest.mark.parametrize("ending", ["commit", "rollback"])


def settings(conn: psycopg.Connection) -> tuple[str, ...]:
    """The settings that terminate a transaction."""
    newer = ("transaction_timeout",) if conn.info.server_version >= 170000 else ()
    return (*newer, "idle_in_transaction_session_timeout", "statement_timeout")


def shown(conn: psycopg.Connection) -> list[str]:
    return [str(value(conn, f"SHOW {name}")) for name in settings(conn)]


def guard(conn: psycopg.Connection, longest: str = "5s", others: str = "4s") -> list[str]:
    """Their values. If transaction_timeout is set, the others matter only if they are shorter."""
    return [longest, others, others] if len(settings(conn)) > 2 else [longest] * 2


def allow(conn: psycopg.Connection, own: str) -> None:
    for name in settings(conn):
        conn.execute(f"SET {name} = '{own}'")


# Every way to get a lock that all sessions need. Called in an open transaction, after a message was created.


def dispatches(database: SharedDatabase, one: psycopg.Connection) -> None:
    assert value(one, "SELECT dispatch()") is False


def dispatch_that_came_second(database: SharedDatabase, one: psycopg.Connection) -> None:
    """It gets the lock, finds that another session has dispatched meanwhile, and writes nothing."""
    with paused(database, "dispatch has looked", lambda conn: value(conn, "SELECT dispatch()")) as running:
        dispatch(database.session("two"))
    assert running.result() is False


def dispatch_after_the_clock_went_back(database: SharedDatabase, one: psycopg.Connection) -> None:
    database.session("observer").execute("UPDATE tick SET at = at + %s", (HOUR,))
    assert value(one, "SELECT dispatch()") is False


def dispatch_of_a_restored_queue(database: SharedDatabase, one: psycopg.Connection) -> None:
    database.session("observer").execute("UPDATE tick SET system_id = 1, started_at = 'epoch'")
    assert value(one, "SELECT dispatch()") is True


def dispatch_without_a_tick(database: SharedDatabase, one: psycopg.Connection) -> None:
    database.session("observer").execute("DELETE FROM tick")
    assert value(one, "SELECT dispatch()") is True


def dispatch_that_could_not_rebuild(database: SharedDatabase, one: psycopg.Connection) -> None:
    """A dequeue is open, so ready cannot be locked."""
    dispatch(database.session("observer"))
    two = database.session("two")
    two.execute("BEGIN")
    take(two, 1)
    database.session("observer").execute("DELETE FROM tick")
    assert value(one, "SELECT dispatch()") is True
    two.execute("ROLLBACK")


def rebuild(database: SharedDatabase, one: psycopg.Connection) -> None:
    one.execute("SELECT rebuild()")


def maintain(database: SharedDatabase, one: psycopg.Connection) -> None:
    dispatch(database.session("observer"))
    assert value(one, "SELECT maintain()") > 0


def history(database: SharedDatabase, one: psycopg.Connection) -> None:
    """It creates partitions, which earlier tests have left."""
    days = "SELECT relname FROM pg_class WHERE relname ~ '^finished_[0-9]{8}$'"
    for (name,) in database.session("observer").execute(days).fetchall():
        database.session("observer").execute(f"DROP TABLE {name}")
    one.execute("SELECT queue_set(p_history => TRUE)")


def sleep_begin(database: SharedDatabase, one: psycopg.Connection) -> None:
    one.execute("SELECT sleep_begin()")


Hold = Callable[[SharedDatabase, psycopg.Connection], None]
DISPATCHES: tuple[Hold, ...] = (
    dispatches,
    dispatch_that_came_second,
    dispatch_after_the_clock_went_back,
    dispatch_of_a_restored_queue,
    dispatch_without_a_tick,
    dispatch_that_could_not_rebuild,
)
HOLDS: tuple[Hold, ...] = (*DISPATCHES, rebuild, maintain, history, sleep_begin)


def name_of(hold: Any) -> str:
    return str(getattr(hold, "__name__", hold)).replace("_", "-")


def test_every_dispatch_lock_is_tried(database: SharedDatabase) -> None:
    """The guard of a function that takes the lock but is not listed here would not be tested."""
    rows = database.session("observer").execute(
        "SELECT proname FROM pg_proc"
        " WHERE pronamespace = 'lonnymq'::REGNAMESPACE AND prosrc ~ 'FROM dispatch_lock'"
    )
    assert {name for (name,) in rows} == {
        "dispatch",
        "dispatch_recover",
        "channels_dispatch",
        "rebuild_places",
    }


def test_a_dispatch_of_certain_channels(database: SharedDatabase) -> None:
    observer, one = database.session("observer"), database.session("one")
    observer.execute("SELECT message_create_many(%s, %s)", (["far"] * 600, [b"work"] * 600))
    dispatch(observer)
    one.execute("BEGIN")
    one.execute("SELECT channels_dispatch('{far}', p_limit => 500)")
    assert shown(one) == guard(one)
    one.execute("ROLLBACK")


@pytest.fixture
def busy(database: SharedDatabase) -> BusyQueue:
    """With something to dispatch, and with the stops installed: an open transaction does not see replaced
    functions.
    """
    observer = database.session("observer")
    if not is_installed(observer):
        install(observer)
    busy = build(observer)
    create(observer, busy.ledger, "elsewhere", "to be dispatched")
    return busy


def check_dispatch(database: SharedDatabase, busy: BusyQueue) -> None:
    """Others can dispatch, and every invariant holds."""
    with fail_on_lock_wait(database.session("two")):
        dispatch(database.session("two"))
    check_and_deliver_all(database.session("observer"), busy.ledger)


@ENDINGS
@pytest.mark.parametrize("hold", HOLDS, ids=name_of)
def test_a_holder_is_guarded(database: SharedDatabase, busy: BusyQueue, hold: Hold, ending: str) -> None:
    """Afterwards the caller's own settings are restored."""
    one = database.session("one")
    allow(one, "1h")
    one.execute("BEGIN")
    hold(database, one)
    assert shown(one) == guard(one)
    end(one, ending)
    assert set(shown(one)) == {"1h"}
    allow(one, "0")
    database.session("observer").execute("SELECT queue_set(p_max_concurrency => 0, p_history => FALSE)")
    check_dispatch(database, busy)


@pytest.mark.parametrize(("own", "others"), [("3s", "2400ms"), ("5s", "4s")])
def test_a_shorter_setting_stays(database: SharedDatabase, busy: BusyQueue, own: str, others: str) -> None:
    one = database.session("one")
    allow(one, own)
    one.execute("BEGIN")
    dispatches(database, one)
    assert shown(one) == guard(one, own, others)
    end(one, "commit")
    allow(one, "0")
    check_dispatch(database, busy)


def can_be_prepared(conn: psycopg.Connection, statement: str) -> bool:
    """If it can be, it is rolled back, so that no session waits for it."""
    name = unique_name("holder")
    try:
        conn.execute(statement.format(name=name))
    except psycopg.errors.FeatureNotSupported:
        conn.execute("ROLLBACK")
        return False
    conn.execute(f"ROLLBACK PREPARED '{name}'")
    return True


@pytest.mark.parametrize("hold", HOLDS, ids=name_of)
def test_a_holder_cannot_be_prepared(database: SharedDatabase, busy: BusyQueue, hold: Hold) -> None:
    one = database.session("one")
    one.execute("BEGIN")
    hold(database, one)
    assert not can_be_prepared(one, "/* hidden */ prepare\n-- away\ntransaction '{name}'")
    database.session("observer").execute("SELECT queue_set(p_max_concurrency => 0, p_history => FALSE)")
    check_dispatch(database, busy)


def test_a_holder_cannot_be_prepared_through_a_driver(database: SharedDatabase, busy: BusyQueue) -> None:
    with closing(psycopg.connect(database.dsn, options="-c search_path=lonnymq")) as conn:
        conn.tpc_begin(conn.xid(1, unique_name("holder"), "branch"))
        dispatches(database, conn)
        try:
            conn.tpc_prepare()
        except psycopg.errors.FeatureNotSupported:
            pass
        else:
            conn.tpc_rollback()
            pytest.fail("it was prepared")
    check_dispatch(database, busy)


def test_constraints_that_are_immediate_do_not_help(database: SharedDatabase, busy: BusyQueue) -> None:
    one = database.session("one")
    one.execute("BEGIN; SET CONSTRAINTS ALL IMMEDIATE")
    dispatches(database, one)
    assert not can_be_prepared(one, "SET CONSTRAINTS ALL IMMEDIATE; PREPARE TRANSACTION '{name}'")
    check_dispatch(database, busy)


def test_a_dispatch_that_is_rolled_back_to_a_savepoint_holds_nothing(
    database: SharedDatabase, busy: BusyQueue
) -> None:
    """The lock is free, and the guard is gone with it."""
    one, two = database.session("one"), database.session("two")
    one.execute("BEGIN; SAVEPOINT s")
    dispatches(database, one)
    one.execute("ROLLBACK TO s")
    assert set(shown(one)) == {"0"}
    assert dispatch(two) < 5
    assert value(two, "SELECT COUNT(*) FROM ready WHERE channel = 'elsewhere'") == 1
    assert can_be_prepared(one, "PREPARE TRANSACTION '{name}'")
    check_dispatch(database, busy)


def is_cut_off(conn: psycopg.Connection, *statements: str) -> bool:
    """Whether the transaction was terminated after about five seconds, and not sooner."""
    start = time.monotonic()
    try:
        for statement in statements:
            conn.execute(statement)
    except (psycopg.errors.TransactionTimeout, psycopg.errors.QueryCanceled):
        assert 3.5 < time.monotonic() - start < 8
        return True
    return False


def is_held_by(one: psycopg.Connection, observer: psycopg.Connection) -> bool:
    """Found out without locking the row: a dispatch that met that lock would skip it."""
    query = (
        "SELECT COUNT(*) FROM dispatch_lock f JOIN pg_stat_activity a ON backend_xid = f.xmax WHERE pid = %s"
    )
    return bool(value(observer, query, one.info.backend_pid))


BUSY = {
    "next": ("SELECT dispatch()", "SELECT pg_sleep(14)"),
    # Before 17, only a later statement is terminated, and only if it takes that long by itself.
    "same": ("SELECT dispatch(), pg_sleep(14)",),
    "block": ("DO $$ BEGIN PERFORM dispatch(); PERFORM pg_sleep(14); END $$",),
    "pieces": ("SELECT dispatch()", *["SELECT pg_sleep(1)"] * 14),
    "error": (
        "SELECT dispatch()",
        "SAVEPOINT s",
        "DO $$ BEGIN PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END $$",
        "ROLLBACK TO s",
        "SELECT pg_sleep(14)",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("own", ["0", "1h"])
def test_a_busy_holder_is_cut_off(database: SharedDatabase, busy: BusyQueue, own: str) -> None:
    two = database.session("two")
    has_all = two.info.server_version >= 170000
    for statements in BUSY.values() if has_all else [BUSY["next"]]:
        with closing(psycopg.connect(database.dsn, autocommit=True, options="-c search_path=lonnymq")) as one:
            allow(one, own)
            one.execute("BEGIN")
            running = database.start(partial(is_cut_off, one, *statements))
            until(partial(is_held_by, one, two), "the lock to be held")
            with fail_on_lock_wait(two):
                create(two, busy.ledger, "elsewhere", "meanwhile")
                assert value(two, "SELECT dispatch()") is True, "it waits for nobody"
            assert running.result(timeout=20)
    check_dispatch(database, busy)


@pytest.mark.slow
@pytest.mark.parametrize("is_handled", [False, True], ids=["at once", "after an error that it handled"])
def test_an_idle_holder_is_cut_off(database: SharedDatabase, busy: BusyQueue, is_handled: bool) -> None:
    """An error stops the timer of transaction_timeout, and PostgreSQL does not start it again."""
    observer, one = database.session("observer"), database.session("one")
    one.execute("BEGIN")
    dispatches(database, one)
    if is_handled:
        with pytest.raises(psycopg.errors.DivisionByZero), one.transaction():
            one.execute("SELECT 1 / 0")

    def is_gone() -> bool:
        here = value(observer, "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = %s", one.info.backend_pid)
        return bool(here == 0)

    until(is_gone, "the idle dispatch to be cut off", timeout_s=8)
    with pytest.raises((psycopg.errors.TransactionTimeout, psycopg.errors.IdleInTransactionSessionTimeout)):
        one.execute("COMMIT")
    one.close()
    check_dispatch(database, busy)
