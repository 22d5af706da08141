"""What each call does at each isolation level.

Calls that read, lock and read again, such as dequeue, dispatch and cancel, are refused above READ COMMITTED:
they must not skip what the caller cannot see (invariant 8). Creates and finishers work at every level. If two
calls change the same message, the later one fails with PostgreSQL's 40001 (retry the transaction) and changes
nothing (invariants 1, 2, 5).
"""

from collections.abc import Callable
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import IsolationLevel, errors

from tests.database import Connect
from tests.invariants import Delivery, check, dequeue, dispatch, drain

Open = Callable[[], psycopg.Connection]
ABOVE = [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]
ALL = [IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED, *ABOVE]
REFUSED: list[LiteralString] = [
    "SELECT * FROM message_dequeue()",
    "SELECT dispatch()",
    "SELECT maintain()",
    "SELECT rebuild()",
    "SELECT message_cancel(1)",
    "SELECT * FROM message_cancel_many(ARRAY[1]::BIGINT[])",
    "SELECT message_reschedule(1)",
    "SELECT * FROM channel_delete('a', TRUE)",
]
FINISHERS: dict[str, LiteralString] = {
    "complete": "SELECT message_complete(%s, %s)",
    "complete_many": "SELECT result FROM message_complete_many(ARRAY[%s::BIGINT], ARRAY[%s::UUID])",
    "release": "SELECT message_retry(%s, %s)",
    "fail": "SELECT message_retry(%s, %s, p_error => 'broken')",
    "extend": "SELECT result FROM message_extend(%s, %s, 60000)",
}
DONE = {
    "complete": "completed",
    "complete_many": "completed",
    "release": "retried",
    "fail": "retried",
    "extend": "extended",
}


def level_name(level: Any) -> str | None:
    return level.name.lower() if isinstance(level, IsolationLevel) else None


def at_level(connect: Connect, level: IsolationLevel) -> psycopg.Connection:
    """Open a transaction that already has its snapshot."""
    caller = connect(autocommit=False)
    caller.isolation_level = level
    caller.execute("SELECT pg_current_snapshot()")
    return caller


def leased(conn: psycopg.Connection, lease_ms: int = 30_000) -> Delivery:
    conn.execute("SELECT message_create('a', 'x')")
    dispatch(conn)
    [delivery], _ = dequeue(conn, 1, lease_ms)
    return delivery


@pytest.mark.parametrize("level", ABOVE, ids=level_name)
@pytest.mark.parametrize("call", REFUSED)
def test_refused(
    conn: psycopg.Connection, connect: Connect, level: IsolationLevel, call: LiteralString
) -> None:
    conn.execute("SELECT message_create('a', 'x')")
    caller = at_level(connect, level)
    with pytest.raises(psycopg.Error, match=level.name.replace("_", " ")) as refused:
        caller.execute(call)
    assert refused.value.sqlstate == "LM009"
    assert "READ COMMITTED" in (refused.value.diag.message_hint or "")
    caller.rollback()
    assert len(drain(conn)) == 1


@pytest.mark.parametrize("call", REFUSED)
@pytest.mark.parametrize(
    "level", [IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED], ids=level_name
)
def test_accepted(connect: Connect, level: IsolationLevel, call: LiteralString) -> None:
    caller = at_level(connect, level)
    caller.execute(call)
    caller.commit()


@pytest.mark.parametrize("level", ALL, ids=level_name)
def test_creates_work(conn: psycopg.Connection, connect: Connect, level: IsolationLevel) -> None:
    """Two transactions with old snapshots create while others dispatch and dequeue."""
    one, two = at_level(connect, level), at_level(connect, level)
    conn.execute("SELECT message_create('a', '0')")
    assert len(drain(conn)) == 1
    one.execute("SELECT message_create('a', '1')")
    two.execute("SELECT message_create_many(ARRAY['b', 'a'], ARRAY['2', '3']::BYTEA[])")
    one.execute("SELECT message_create('b', '4')")
    dispatch(conn)
    one.commit()
    two.commit()
    assert sorted(d.content for d in drain(conn)) == [b"1", b"2", b"3", b"4"]


@pytest.mark.cases(8)
@pytest.mark.parametrize("level", ALL, ids=level_name)
@pytest.mark.parametrize("kind", FINISHERS)
def test_finishers_work(conn: psycopg.Connection, connect: Connect, level: IsolationLevel, kind: str) -> None:
    delivery = leased(conn)
    caller = at_level(connect, level)
    assert caller.execute(FINISHERS[kind], (delivery.id, delivery.token)).fetchone() == (DONE[kind],)
    caller.commit()
    left = conn.execute("SELECT EXISTS (SELECT FROM leases), attempts FROM message").fetchall()
    assert left == {"release": [(False, 0)], "fail": [(False, 1)], "extend": [(True, 0)]}.get(kind, [])
    check(conn)


@pytest.mark.cases(8)
@pytest.mark.parametrize("level", ALL, ids=level_name)
@pytest.mark.parametrize("kind", FINISHERS)
def test_finishers_report_a_lost_lease_or_a_missing_message(
    conn: psycopg.Connection, connect: Connect, level: IsolationLevel, kind: str
) -> None:
    delivery = leased(conn)
    conn.execute("SELECT message_retry(%s, %s)", (delivery.id, delivery.token))
    caller = at_level(connect, level)
    assert caller.execute(FINISHERS[kind], (delivery.id, delivery.token)).fetchone() == ("lost",)
    assert caller.execute(FINISHERS[kind], (delivery.id + 1, delivery.token)).fetchone() == ("not_found",)
    caller.commit()
    assert len(drain(conn)) == 1


@pytest.mark.parametrize("level", ABOVE, ids=level_name)
@pytest.mark.parametrize("kind", FINISHERS)
def test_a_finisher_after_a_concurrent_change_must_retry(
    conn: psycopg.Connection, connect: Connect, level: IsolationLevel, kind: str
) -> None:
    """Another session extended the lease after this caller took its snapshot."""
    delivery = leased(conn)
    caller = at_level(connect, level)
    conn.execute("SELECT message_extend(%s, %s, 90000)", (delivery.id, delivery.token))
    with pytest.raises(errors.SerializationFailure):
        caller.execute(FINISHERS[kind], (delivery.id, delivery.token))
    caller.rollback()
    caller.execute("SELECT 1")
    assert caller.execute(FINISHERS[kind], (delivery.id, delivery.token)).fetchone() == (DONE[kind],)
    caller.commit()
    check(conn)


@pytest.mark.parametrize("level", ABOVE, ids=level_name)
@pytest.mark.parametrize("kind", FINISHERS)
def test_a_finisher_that_lost_to_a_takeover_changes_nothing(
    conn: psycopg.Connection, connect: Connect, level: IsolationLevel, kind: str
) -> None:
    delivery = leased(conn, lease_ms=1)
    caller = at_level(connect, level)
    taken: list[Delivery] = []
    while not taken:
        dispatch(conn)
        taken, _ = dequeue(conn)
    with pytest.raises(errors.SerializationFailure):
        caller.execute(FINISHERS[kind], (delivery.id, delivery.token))
    caller.rollback()
    caller.execute("SELECT 1")
    assert caller.execute(FINISHERS[kind], (delivery.id, delivery.token)).fetchone() == ("lost",)
    caller.commit()
    done = conn.execute("SELECT message_complete(%s, %s)", (taken[0].id, taken[0].token)).fetchone()
    assert done == ("completed",)
    check(conn)


def test_serializable_callers_do_not_all_fail(conn: psycopg.Connection, connect: Connect) -> None:
    """Each completes its message and creates the next: some succeed, and none does only half."""
    level = IsolationLevel.SERIALIZABLE
    deliveries = [leased(conn) for _ in range(4)]
    callers = [at_level(connect, level) for _ in deliveries]
    failures = 0
    for caller, delivery in zip(callers, deliveries, strict=True):
        caller.execute("SELECT message_complete(%s, %s)", (delivery.id, delivery.token))
        caller.execute("SELECT message_create('b', 'next')")
    for caller in callers:
        try:
            caller.commit()
        except errors.SerializationFailure:
            failures += 1
    assert failures < len(deliveries), "at least one caller succeeds"
    served = [d.content for d in drain(conn)]
    assert served == [b"next"] * (len(deliveries) - failures)
