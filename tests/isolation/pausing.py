"""Stops a session inside a function of the engine, at a statement that the test chooses.

Where a table is written, a trigger stops the session: `before delete ready`, `after insert notice`. By then
the statement has taken its snapshot. Between two statements that only read or lock, a stop is inserted into
the function's text. A stopped session waits for an advisory lock; only a session whose `pause.at` names the
stop does.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import psycopg

from tests.isolation.shared_database import SharedDatabase, until, value

TABLES = (
    *("message", "notice", "scheduled", "line", "backlog", "ready", "lease", "tick", "dead"),
    *("channel", "policy_change", "slots", "dedupe", "capacity", "queue", "sleep"),
)
# The name of a stop: the function, and the text it comes before.
STOPS = {
    "dequeue has the tick": ("message_dequeue", "token := gen_random_uuid();"),
    "dequeue has its entries": ("message_dequeue", "EXIT WHEN v_got IS NULL;"),
    "dequeue has its messages": ("message_dequeue", "v_taken := CASE WHEN v_skipped"),
    "dispatch has the tick": ("dispatch", "IF v_now BETWEEN t.at"),
    "dispatch has looked": ("dispatch", "PERFORM FROM dispatch_lock FOR UPDATE SKIP LOCKED;"),
    "dispatch has the lock": ("dispatch", "v_mode := set_config("),
    "dispatch has read": ("dispatch", "t := dispatch_work("),
    "dispatch has its entries": ("dispatch_work", "IF r.has_gone THEN"),
    "dispatch has the policies": ("dispatch_work", "r.spans := t.spans"),
    "dispatch has measured a lane": ("lane_dispatch", "lane := m.lane;"),
    "extend has found its lease": ("message_extend_many", "x := lease_extend("),
    "cancel has its messages": ("message_cancel_many", "v_endings := message_withdraw("),
    "reschedule has its message": ("message_reschedule", "v_endings := message_withdraw("),
    "writer has appended": ("sleep_notify", "IF (SELECT"),
    "create has looked at the holder": ("dedupe_holds", "PERFORM FROM dedupe x"),
    "create has locked the key": ("dedupe_holds", "RETURN message_is_waiting(d.message_id);"),
    "create begins": ("message_create", "SELECT s.content_max_bytes, s.is_special INTO v_max"),
    "delete found no messages": ("channel_forget", "DELETE FROM channel c WHERE p_has_policy"),
    "create has read the key": ("dedupe_take", "IF d.unique_for_ms IS NULL\n"),
    "delete looks for keys": ("channel_forget", "PERFORM dedupe_delete("),
    "publish found no keys": ("staging_create", "created := 0;"),
    "retry has its dead": ("dead_retry", "SELECT a.results, a.are_counted INTO"),
}
GATE = 815


def install(conn: psycopg.Connection) -> None:
    with conn.transaction():
        _install(conn)


def _install(conn: psycopg.Connection) -> None:
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
        if source is not None and source.count(text) == 1:
            conn.execute(source.replace(text, f"PERFORM pause('{stop}');\n{text}"))


def is_installed(conn: psycopg.Connection) -> bool:
    return value(conn, "SELECT to_regprocedure('pause(text)')") is not None


@contextmanager
def paused(
    database: SharedDatabase, stop: str, call: Callable[[psycopg.Connection], Any], session: str = "one"
) -> Iterator["Future[Any]"]:
    """Run the call up to the stop, run the block, then let the call finish; the future has its result."""
    gate, conn = database.session("gate"), database.session(session)
    if not is_installed(gate):
        install(gate)
    if stop in STOPS:
        is_there = value(
            gate, "SELECT strpos(prosrc, %s) > 0 FROM pg_proc WHERE proname = %s", stop, STOPS[stop][0]
        )
        assert is_there, f"{STOPS[stop][0]} was rewritten: say anew where {stop!r} is"
    gate.execute("SELECT pg_advisory_lock(%s)", (GATE,))
    conn.execute("SELECT set_config('pause.at', %s, FALSE)", (stop,))
    running = database.start(lambda: call(conn))
    try:
        until(lambda: running.done() or database.is_waiting(conn, gate), f"the stop {stop!r}")
        assert not running.done(), f"came to its end without the stop {stop!r}: {running.result()}"
        yield running
    finally:
        gate.execute("SELECT pg_advisory_unlock(%s)", (GATE,))
        running.exception(timeout=10)
        if not conn.closed:
            conn.execute("SELECT set_config('pause.at', '', FALSE)")
