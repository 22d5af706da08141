"""Bulk loads: rows are staged by COPY and published as messages in one transaction."""

import secrets
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.clock import FakeClock
from tests.invariants import check, dispatch, drain

COPY = "COPY staging (batch, ord, channel, content, dequeue_at, dedupe_key) FROM STDIN"


def stage(conn: psycopg.Connection, batch: UUID, rows: list[tuple[Any, ...]]) -> None:
    with conn.cursor() as cursor, cursor.copy(COPY) as copy:
        for row in rows:
            copy.write_row((batch, *row, *[None] * (5 - len(row))))


def publish(conn: psycopg.Connection, batch: UUID, *, drop_full: bool = False) -> tuple[int, int, int] | None:
    return conn.execute("SELECT * FROM staging_publish(%s, %s)", (batch, drop_full)).fetchone()


def test_a_batch_becomes_messages_in_its_order(conn: psycopg.Connection) -> None:
    one, two = uuid4(), uuid4()
    stage(conn, one, [(n, "ab"[n % 2], b"%d" % n) for n in range(25_000, 0, -1)])
    stage(conn, two, [(1, "c", b"another")])
    assert publish(conn, one) == (25_000, 0, 0)
    rows = conn.execute("SELECT channel, content FROM message ORDER BY id").fetchall()
    assert rows == [("ab"[n % 2], b"%d" % n) for n in range(1, 25_001)]
    assert conn.execute("SELECT DISTINCT batch FROM staging").fetchall() == [(two,)]
    assert publish(conn, one) == (0, 0, 0), "published rows are deleted"


def test_rows_with_the_same_ord_are_all_published(conn: psycopg.Connection) -> None:
    batch = uuid4()
    stage(conn, batch, [(7, "a", b"%d" % n) for n in range(25_000)])
    assert publish(conn, batch) == (25_000, 0, 0)
    assert conn.execute("SELECT COUNT(DISTINCT content) FROM message").fetchone() == (25_000,)


def test_nothing_is_published_when_one_row_is_bad(conn: psycopg.Connection) -> None:
    batch = uuid4()
    stage(conn, batch, [(n, "a", b"") for n in range(12_000)] + [(12_001, None, b"")])
    with pytest.raises(psycopg.Error, match=r"a channel needs a name \(the row with ord 12001\)"):
        publish(conn, batch)
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,)
    assert conn.execute("SELECT COUNT(*) FROM staging").fetchone() == (12_001,)


def test_keys_and_sizes_hold(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT channel_set('small', p_max_size => 2)")
    batch = uuid4()
    rows = [(n, "small", b"") for n in range(3)] + [
        (10 + n, "a", b"", clock.at + 1000, "k") for n in range(2)
    ]
    stage(conn, batch, rows)
    assert publish(conn, batch, drop_full=True) == (3, 1, 1)
    assert conn.execute("SELECT COUNT(*) FROM staging").fetchone() == (0,)
    assert len(drain(conn)) == 2


def test_nothing_is_published_when_a_channel_is_full(conn: psycopg.Connection) -> None:
    conn.execute("SELECT channel_set('it''s small', p_max_size => 10)")
    conn.execute("SELECT channel_set('tiny', p_max_size => 1)")
    batch = uuid4()
    stage(
        conn, batch, [(n, "it's small", b"") for n in range(100)] + [(100 + n, "tiny", b"") for n in range(3)]
    )
    with pytest.raises(psycopg.Error) as refused:
        conn.execute("SELECT * FROM staging_publish(%s)", (batch,))
    assert refused.value.sqlstate == "LM017"
    assert refused.value.diag.message_primary == (
        "channel 'it''s small' is full (max_size 10): 92 of 103 messages do not fit into their channels"
    )
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,)
    assert conn.execute("SELECT COUNT(*) FROM staging").fetchone() == (103,), "the batch is still staged"
    conn.execute("SELECT channel_set('it''s small', p_max_size => 100)")
    conn.execute("SELECT channel_set('tiny', p_max_size => 3)")
    assert publish(conn, batch) == (103, 0, 0), "it is published when there is room"
    check(conn)


def test_a_duplicate_needs_no_room(conn: psycopg.Connection) -> None:
    conn.execute("SELECT channel_set('small', p_max_size => 1)")
    batch = uuid4()
    stage(conn, batch, [(n, "small", b"", None, "k") for n in range(3)])
    assert publish(conn, batch) == (1, 2, 0)


def test_a_batch_with_keys_has_a_maximum_size(conn: psycopg.Connection) -> None:
    """Their locks are taken in order, so all of them in one call."""
    batch = uuid4()
    stage(conn, batch, [(n, "a", b"", None, "k") for n in range(100_001)])
    with pytest.raises(psycopg.Error, match="more than 100,000") as error:
        publish(conn, batch)
    assert error.value.sqlstate == "LM005"
    dispatch(conn)
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,)


def test_a_batch_without_rows_when_a_channel_has_a_maximum_size(conn: psycopg.Connection) -> None:
    conn.execute("SELECT channel_set('small', p_max_size => 2)")
    assert publish(conn, uuid4()) == (0, 0, 0)
    publish_once = "SELECT created, is_repeat FROM staging_publish_once('app', 1, %s)"
    assert conn.execute(publish_once, ([uuid4()],)).fetchone() == (0, False)
    assert conn.execute(publish_once, ([uuid4()],)).fetchone() == (0, True)


def test_headers_count_towards_the_size_of_a_part(conn: psycopg.Connection) -> None:
    """Else an array of many messages would be larger than PostgreSQL allows."""
    batch = uuid4()
    for ord_ in range(5):
        headers = Jsonb({"h": secrets.token_urlsafe(45_000)})
        conn.execute(
            "INSERT INTO staging (batch, ord, channel, content, headers) VALUES (%s, %s, 'a', '', %s)",
            (batch, ord_, headers),
        )
    taken = conn.execute("SELECT ord FROM staging_take(ARRAY[%s], 100, 100000)", (batch,)).fetchall()
    assert taken == [(0,), (1,)]


def test_unpublished_rows_are_deleted_after_a_day(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    stage(conn, uuid4(), [(n, "a", b"") for n in range(3)])
    conn.execute("UPDATE staging SET staged_at = %s", (clock.at,))
    clock.advance(86_400_000)
    conn.execute("SELECT maintain()")
    assert conn.execute("SELECT COUNT(*) FROM staging").fetchone() == (3,)
    clock.advance(1)
    conn.execute("SELECT maintain(2)")
    conn.execute("SELECT maintain(2)")
    assert conn.execute("SELECT COUNT(*) FROM staging").fetchone() == (0,)
