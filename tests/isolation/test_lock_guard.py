"""Whoever holds a lock that everybody needs has five seconds to end, idle or busy, and cannot be prepared."""

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.database import unique_name
from tests.isolation.arena import Arena, account, dispatch, end, impatient, take, until, value
from tests.isolation.pausing import install, is_installed, paused
from tests.isolation.scene import Scene, build, create

HOUR = 3_600_000
ENDINGS = pytest.mark.parametrize("ending", ["commit", "rollback"])


def settings(conn: psycopg.Connection) -> tuple[str, ...]:
    """Those that end a transaction which holds others up."""
    newer = ("transaction_timeout",) if conn.info.server_version >= 170000 else ()
    return (*newer, "idle_in_transaction_session_timeout", "statement_timeout")


def shown(conn: psycopg.Connection) -> list[str]:
    return [str(value(conn, f"SHOW {name}")) for name in settings(conn)]


def guard(conn: psycopg.Connection, longest: str = "5s", others: str = "4s") -> list[str]:
    """What they are set to. Beside a transaction_timeout, the others count only where they are shorter."""
    return [longest, others, others] if len(settings(conn)) > 2 else [longest] * 2


def allow(conn: psycopg.Connection, own: str) -> None:
    for name in settings(conn):
        conn.execute(f"SET {name} = '{own}'")


# Every way to hold a lock that everybody needs. Called in an open transaction, after a message was created.


def dispatches(arena: Arena, one: psycopg.Connection) -> None:
    assert value(one, "SELECT dispatch()") is False


def dispatch_that_came_second(arena: Arena, one: psycopg.Connection) -> None:
    """It gets the lock, finds that somebody else has dispatched meanwhile, and writes nothing."""
    with paused(arena, "dispatch has looked", lambda conn: value(conn, "SELECT dispatch()")) as running:
        dispatch(arena.session("two"))
    assert running.result() is False


def dispatch_after_the_clock_went_back(arena: Arena, one: psycopg.Connection) -> None:
    arena.session("judge").execute("UPDATE tick SET at = at + %s", (HOUR,))
    assert value(one, "SELECT dispatch()") is False


def dispatch_of_a_restored_queue(arena: Arena, one: psycopg.Connection) -> None:
    arena.session("judge").execute("UPDATE tick SET system_id = 1, started_at = 'epoch'")
    assert value(one, "SELECT dispatch()") is True


def dispatch_without_a_tick(arena: Arena, one: psycopg.Connection) -> None:
    arena.session("judge").execute("DELETE FROM tick")
    assert value(one, "SELECT dispatch()") is True


def dispatch_that_could_not_rebuild(arena: Arena, one: psycopg.Connection) -> None:
    """A dequeue is open, and ready cannot be locked."""
    dispatch(arena.session("judge"))
    two = arena.session("two")
    two.execute("BEGIN")
    take(two, 1)
    arena.session("judge").execute("DELETE FROM tick")
    assert value(one, "SELECT dispatch()") is True
    two.execute("ROLLBACK")


def rebuild(arena: Arena, one: psycopg.Connection) -> None:
    one.execute("SELECT rebuild()")


def maintain(arena: Arena, one: psycopg.Connection) -> None:
    dispatch(arena.session("judge"))
    assert value(one, "SELECT maintain()") > 0


def history(arena: Arena, one: psycopg.Connection) -> None:
    """It makes partitions, which those before have left."""
    days = "SELECT relname FROM pg_class WHERE relname ~ '^finished_[0-9]{8}$'"
    for (name,) in arena.session("judge").execute(days).fetchall():
        arena.session("judge").execute(f"DROP TABLE {name}")
    one.execute("SELECT queue_set(p_history => TRUE)")


def sleep_begin(arena: Arena, one: psycopg.Connection) -> None:
    one.execute("SELECT sleep_begin()")


Hold = Callable[[Arena, psycopg.Connection], None]
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


def test_every_dispatch_lock_is_tried(arena: Arena) -> None:
    """A function that takes it and is not known here has no guard that is tested."""
    rows = arena.session("judge").execute(
        "SELECT proname FROM pg_proc"
        " WHERE pronamespace = 'lonnymq'::REGNAMESPACE AND prosrc ~ 'FROM dispatch_lock'"
    )
    assert {name for (name,) in rows} == {"dispatch", "dispatch_recover", "rebuild_places"}


@pytest.fixture
def scene(arena: Arena) -> Scene:
    """With something to dispatch, and stops: an open transaction does not see functions replaced."""
    observer = arena.session("judge")
    if not is_installed(observer):
        install(observer)
    scene = build(observer)
    create(observer, scene.ledger, "elsewhere", "to be dispatched")
    return scene


def check_dispatch(arena: Arena, scene: Scene) -> None:
    """Others dispatch, and all is as it must be."""
    with impatient(arena.session("two")):
        dispatch(arena.session("two"))
    account(arena.session("judge"), scene.ledger)


@ENDINGS
@pytest.mark.parametrize("hold", HOLDS, ids=name_of)
def test_a_holder_is_guarded(arena: Arena, scene: Scene, hold: Hold, ending: str) -> None:
    """And the caller's own settings are back afterwards."""
    one = arena.session("one")
    allow(one, "1h")
    one.execute("BEGIN")
    hold(arena, one)
    assert shown(one) == guard(one)
    end(one, ending)
    assert set(shown(one)) == {"1h"}
    allow(one, "0")
    arena.session("judge").execute("SELECT queue_set(p_max_concurrency => 0, p_history => FALSE)")
    check_dispatch(arena, scene)


@pytest.mark.parametrize(("own", "others"), [("3s", "2400ms"), ("5s", "4s")])
def test_a_shorter_setting_stays(arena: Arena, scene: Scene, own: str, others: str) -> None:
    one = arena.session("one")
    allow(one, own)
    one.execute("BEGIN")
    dispatches(arena, one)
    assert shown(one) == guard(one, own, others)
    end(one, "commit")
    allow(one, "0")
    check_dispatch(arena, scene)


def can_be_prepared(conn: psycopg.Connection, statement: str) -> bool:
    """If it can, it is rolled back, so that nobody waits for it."""
    name = unique_name("holder")
    try:
        conn.execute(statement.format(name=name))
    except psycopg.errors.FeatureNotSupported:
        conn.execute("ROLLBACK")
        return False
    conn.execute(f"ROLLBACK PREPARED '{name}'")
    return True


@pytest.mark.parametrize("hold", HOLDS, ids=name_of)
def test_a_holder_cannot_be_prepared(arena: Arena, scene: Scene, hold: Hold) -> None:
    one = arena.session("one")
    one.execute("BEGIN")
    hold(arena, one)
    assert not can_be_prepared(one, "/* hidden */ prepare\n-- away\ntransaction '{name}'")
    arena.session("judge").execute("SELECT queue_set(p_max_concurrency => 0, p_history => FALSE)")
    check_dispatch(arena, scene)


def test_nor_by_way_of_a_driver(arena: Arena, scene: Scene) -> None:
    with closing(psycopg.connect(arena.dsn, options="-c search_path=lonnymq")) as conn:
        conn.tpc_begin(conn.xid(1, unique_name("holder"), "branch"))
        dispatches(arena, conn)
        try:
            conn.tpc_prepare()
        except psycopg.errors.FeatureNotSupported:
            pass
        else:
            conn.tpc_rollback()
            pytest.fail("it was prepared")
    check_dispatch(arena, scene)


def test_constraints_that_are_immediate_do_not_help(arena: Arena, scene: Scene) -> None:
    one = arena.session("one")
    one.execute("BEGIN; SET CONSTRAINTS ALL IMMEDIATE")
    dispatches(arena, one)
    assert not can_be_prepared(one, "SET CONSTRAINTS ALL IMMEDIATE; PREPARE TRANSACTION '{name}'")
    check_dispatch(arena, scene)


def test_a_dispatch_that_is_rolled_back_to_a_savepoint_holds_nothing(arena: Arena, scene: Scene) -> None:
    """The lock is free, and with it the guard is gone."""
    one, two = arena.session("one"), arena.session("two")
    one.execute("BEGIN; SAVEPOINT s")
    dispatches(arena, one)
    one.execute("ROLLBACK TO s")
    assert set(shown(one)) == {"0"}
    assert dispatch(two) < 5
    assert value(two, "SELECT COUNT(*) FROM ready WHERE channel = 'elsewhere'") == 1
    assert can_be_prepared(one, "PREPARE TRANSACTION '{name}'")
    check_dispatch(arena, scene)


def is_cut_off(conn: psycopg.Connection, *statements: str) -> bool:
    """Whether the transaction was ended for them in about five seconds, and not sooner."""
    start = time.monotonic()
    try:
        for statement in statements:
            conn.execute(statement)
    except (psycopg.errors.TransactionTimeout, psycopg.errors.QueryCanceled):
        assert 3.5 < time.monotonic() - start < 8
        return True
    return False


def is_held_by(one: psycopg.Connection, observer: psycopg.Connection) -> bool:
    """Without locking the row to find out: a dispatch that met that lock would go on without."""
    query = (
        "SELECT COUNT(*) FROM dispatch_lock f JOIN pg_stat_activity a ON backend_xid = f.xmax WHERE pid = %s"
    )
    return bool(value(observer, query, one.info.backend_pid))


BUSY = {
    "next": ("SELECT dispatch()", "SELECT pg_sleep(14)"),
    # Before 17, only a later statement is cut off, and only if it takes so long by itself.
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
def test_a_busy_holder_is_cut_off(arena: Arena, scene: Scene, own: str) -> None:
    two = arena.session("two")
    has_all = two.info.server_version >= 170000
    for statements in BUSY.values() if has_all else [BUSY["next"]]:
        with closing(psycopg.connect(arena.dsn, autocommit=True, options="-c search_path=lonnymq")) as one:
            allow(one, own)
            one.execute("BEGIN")
            running = arena.start(partial(is_cut_off, one, *statements))
            until(partial(is_held_by, one, two), "the lock to be held")
            with impatient(two):
                create(two, scene.ledger, "elsewhere", "meanwhile")
                assert value(two, "SELECT dispatch()") is True, "it waits for nobody"
            assert running.result(timeout=20)
    check_dispatch(arena, scene)


@pytest.mark.slow
@pytest.mark.parametrize("is_handled", [False, True], ids=["at once", "after an error that it handled"])
def test_an_idle_holder_is_cut_off(arena: Arena, scene: Scene, is_handled: bool) -> None:
    """An error stops the timer of a transaction_timeout, and PostgreSQL does not start it again."""
    observer, one = arena.session("judge"), arena.session("one")
    one.execute("BEGIN")
    dispatches(arena, one)
    if is_handled:
        with pytest.raises(psycopg.errors.DivisionByZero), one.transaction():
            one.execute("SELECT 1 / 0")

    def is_gone() -> bool:
        here = value(observer, "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = %s", one.info.backend_pid)
        return bool(here == 0)

    until(is_gone, "the idle dispatch to be cut off", patience=8)
    with pytest.raises((psycopg.errors.TransactionTimeout, psycopg.errors.IdleInTransactionSessionTimeout)):
        one.execute("COMMIT")
    one.close()
    check_dispatch(arena, scene)
