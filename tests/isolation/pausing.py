"""Stops a session inside a function of the engine, at a statement of the test's choice.

Where a table is written, a trigger stops it: `before update ring`, `after insert wake`. The statement has
taken its snapshot by then. Between two statements that only read or lock, a stop is written into the text.
Stopping means to wait for an advisory lock, and only a session that was told where to stop does.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import psycopg

from tests.isolation.arena import Arena, until, value

TABLES = (
    "message",
    "dead",
    "wake",
    "ring",
    "tick",
    "postponed",
    "sleep",
    "dedupe",
    "capacity",
    "queue_slot",
    "channel",
    "queue",
)
# The name of a stop: the function, and the text it comes before.
STOPS = {
    "dequeue has its channels": ("message_dequeue_many", "-- Stamp releases after the locks are had"),
    "plain dequeue has its channel": ("message_dequeue", "SELECT k.now, x.max_concurrency"),
    "plain dequeue has its policy": ("message_dequeue", "SELECT array_agg(w.tid) AS tids"),
    "fold has read": ("dispatch", "PERFORM FROM fold_lock FOR UPDATE SKIP LOCKED;"),
    "fold has the tick": ("dispatch", "IF v_now BETWEEN t.at"),
    "fold has the lock": ("dispatch", "n := t;"),
    "sweep has read": ("lease_sweep", "IF v_due IS NULL AND p_"),
    "rebuild has the locks": ("rebuild", "-- Whatever this snapshot does not see"),
    "rebuild has its snapshot": ("rebuild", "DELETE FROM tick;"),
    "rebuild has no wakes": ("rebuild", "DELETE FROM ring r WHERE EXISTS"),
    "writer has appended": ("wake_notify", "IF (SELECT"),
    "create begins": ("message_create", "-- What the queue asks for is checked"),
    "dequeue has its slots": ("message_dequeue_many", "v_is_full := p_paused OR v_left = 0;"),
    "delete found no messages": ("channel_delete", "-- A policy that somebody makes at this moment"),
    "retry has its dead": ("dead_retry", "SELECT a.results, a.are_counted INTO"),
}
GATE = 815


def install(conn: psycopg.Connection) -> None:
    conn.execute(
        f"""
        CREATE FUNCTION pause (p_at TEXT) RETURNS VOID LANGUAGE plpgsql AS $$
        BEGIN
            IF current_setting('pause.at', TRUE) = p_at THEN
                PERFORM set_config('pause.at', '', FALSE);
                PERFORM pg_advisory_lock({GATE}), pg_advisory_unlock({GATE});
            END IF;
        END $$"""
    )
    conn.execute(
        """
        CREATE FUNCTION pause_at_write () RETURNS TRIGGER LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM lonnymq.pause(lower(TG_WHEN || ' ' || TG_OP || ' ' || TG_TABLE_NAME));
            RETURN NULL;
        END $$"""
    )
    for table in TABLES:
        for moment in ("BEFORE", "AFTER"):
            conn.execute(
                f"CREATE TRIGGER pause_{moment} {moment} INSERT OR UPDATE OR DELETE ON {table} "
                "EXECUTE FUNCTION pause_at_write()"
            )
    for stop, (function, text) in STOPS.items():
        source = value(
            conn, "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = %s AND prokind = 'f'", function
        )
        assert source.count(text) == 1, f"{function} was rewritten: say anew where {stop!r} is"
        conn.execute(source.replace(text, f"PERFORM pause('{stop}');\n{text}"))


def is_installed(conn: psycopg.Connection) -> bool:
    return value(conn, "SELECT to_regprocedure('pause(text)')") is not None


@contextmanager
def paused(
    arena: Arena, stop: str, call: Callable[[psycopg.Connection], Any], session: str = "one"
) -> Iterator["Future[Any]"]:
    """Run the call up to the stop, run the block, let the call go on; its result is there afterwards."""
    gate, conn = arena.session("gate"), arena.session(session)
    if not is_installed(gate):
        install(gate)
    gate.execute("SELECT pg_advisory_lock(%s)", (GATE,))
    conn.execute("SELECT set_config('pause.at', %s, FALSE)", (stop,))
    running = arena.start(lambda: call(conn))
    try:
        until(lambda: running.done() or arena.is_waiting(conn, gate), f"the stop {stop!r}")
        assert not running.done(), f"came to its end without the stop {stop!r}: {running.result()}"
        yield running
    finally:
        gate.execute("SELECT pg_advisory_unlock(%s)", (GATE,))
        running.exception(timeout=10)
        if not conn.closed:
            conn.execute("SELECT set_config('pause.at', '', FALSE)")
