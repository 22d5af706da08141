"""Bulk loads in chunks: many messages in one staged row, with an array per column."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from tests.clock import FakeClock
from tests.database import Connect, until_waiting
from tests.invariants import check, drain
from tests.sql.test_publish_once import count
from tests.sql.test_staging import publish
from tests.sql.test_staging import stage as stage_rows

TYPES = {
    "content": "BYTEA",
    "dequeue_at": "BIGINT",
    "keep_result_ms": "BIGINT",
    "batch_id": "BIGINT",
    "max_attempts": "INT",
    "priority": "INT",
    "cost": "INT",
}


def stage(conn: psycopg.Connection, batch: UUID, ord_: int, **arrays: list[Any]) -> None:
    conn.execute(
        sql.SQL("INSERT INTO staging_chunk (batch, ord, {}) VALUES (%s, %s, {})").format(
            sql.SQL(", ").join(map(sql.Identifier, arrays)),
            sql.SQL(", ").join(sql.SQL(f"%s::{TYPES.get(name, 'TEXT')}[]") for name in arrays),
        ),
        (batch, ord_, *arrays.values()),
    )


def stage_plain(conn: psycopg.Connection, batch: UUID, ord_: int, n: int, channel: str = "a") -> None:
    stage(conn, batch, ord_, channel=[channel] * n, content=[b"%d" % (ord_ + i) for i in range(n)])


def test_chunks_become_messages_in_their_order(conn: psycopg.Connection) -> None:
    one, two = uuid4(), uuid4()
    for ord_ in (2_000, 0, 1_000):
        stage_plain(conn, one, ord_, 1_000)
    stage_plain(conn, two, 0, 3)
    assert publish(conn, one) == (3_000, 0, 0)
    found = conn.execute("SELECT content FROM message ORDER BY id").fetchall()
    assert found == [(b"%d" % n,) for n in range(3_000)]
    assert conn.execute("SELECT DISTINCT batch FROM staging_chunk").fetchall() == [(two,)]
    assert conn.execute("SELECT lo_id, hi_id, n FROM notice").fetchall() == [(1, 3_000, 3_000)]
    assert publish(conn, one) == (0, 0, 0), "published chunks are deleted"
    check(conn)


def test_chunks_with_and_without_options_keep_their_order(conn: psycopg.Connection) -> None:
    batch = uuid4()
    for ord_ in (4, 2, 0):
        stage_plain(conn, batch, ord_, 1)
    for ord_ in (3, 1):
        stage(conn, batch, ord_, channel=["a"], content=[b"%d" % ord_], priority=[None])
    assert publish(conn, batch) == (5, 0, 0)
    found = conn.execute("SELECT content FROM message ORDER BY id").fetchall()
    assert found == [(b"%d" % n,) for n in range(5)]
    check(conn)


def test_every_option(conn: psycopg.Connection) -> None:
    """The same as in a row of staging, and null, or no array, leaves it open."""
    [(batch_id,)] = conn.execute("SELECT batch_open('b')").fetchall()
    rows, chunks = uuid4(), uuid4()
    given = {
        "channel": "a",
        "content": b"x",
        "dequeue_at": 1_234,
        "headers": '{"n": 1}',
        "max_attempts": 7,
        "priority": 5,
        "cost": 3,
        "lane": "slow",
        "keep_result_ms": 9,
        "batch_id": batch_id,
    }
    names = sql.SQL(", ").join(map(sql.Identifier, given))
    conn.execute(
        sql.SQL("INSERT INTO staging (batch, ord, {}) VALUES (%s, 1{})").format(
            names, sql.SQL("".join(", %s" for _ in given))
        ),
        (rows, *given.values()),
    )
    only = {"channel": "b", "content": b"y"}
    stage(conn, chunks, 1, **{name: [value, only.get(name)] for name, value in given.items()})
    assert publish(conn, rows) == (1, 0, 0)
    assert publish(conn, chunks) == (2, 0, 0)
    columns = sql.SQL("SELECT {}, generation, attempts, is_counted FROM message ORDER BY id").format(names)
    first, second, third = conn.execute(columns).fetchall()
    assert second == first
    created_at = third[2]
    assert third == ("b", b"y", created_at, None, None, 0, 1, "default", None, None, 0, 0, False)
    assert conn.execute("SELECT SUM(n) FROM batch_part").fetchone() == (2,)
    check(conn)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"channel": [None, "a"]}, r"a channel needs a name \(the row with ord 7\)"),
        ({"content": [b"", None]}, r"a message needs content \(the row with ord 8\)"),
        ({"content": [b"", b"x" * 1_048_577]}, r"1048577 bytes long \(the row with ord 8\)"),
        ({"content": [b""]}, "the arrays differ in length"),
        ({"priority": [1]}, "the arrays differ in length"),
        ({"priority": [1, 101]}, r"priority of 101 is out of range \(the row with ord 8\)"),
        ({"headers": ["{}", "[]"]}, r"the headers are a JSON array \(the row with ord 8\)"),
        ({"headers": ["{}", "{"]}, "invalid input syntax for type json"),
        ({"unique_while": [None, "running"]}, "without a dedupe key"),
        ({"lane": ["", "a"]}, "lane"),
        ({"batch_id": [None, 4711]}, "there is no batch 4711"),
    ],
)
def test_a_bad_chunk_leaves_everything_as_it_was(
    conn: psycopg.Connection, arrays: dict[str, list[Any]], said: str
) -> None:
    batch = uuid4()
    stage_plain(conn, batch, 0, 7)
    plain: dict[str, list[Any]] = {"channel": ["a", "b"], "content": [b"", b""]}
    stage(conn, batch, 7, **(plain | arrays))
    with pytest.raises(psycopg.Error, match=said):
        publish(conn, batch)
    assert (count(conn), count(conn, "staging_chunk"), count(conn, "notice")) == (0, 2, 0)


def test_arrays_of_two_dimensions_are_read_row_by_row(conn: psycopg.Connection) -> None:
    batch = uuid4()
    stage(conn, batch, 0, channel=["a"], content=[b""], lane=["one"])
    square: dict[str, list[Any]] = {
        "channel": [["a", "b"], ["c", "d"]],
        "content": [[b"1", b"2"], [b"3", b"4"]],
        "lane": [["one", "two"], ["three", None]],
    }
    stage(conn, batch, 1, **square)
    assert publish(conn, batch) == (5, 0, 0)
    found = conn.execute("SELECT channel, content, lane FROM message ORDER BY id OFFSET 1").fetchall()
    assert found == [("a", b"1", "one"), ("b", b"2", "two"), ("c", b"3", "three"), ("d", b"4", "default")]
    check(conn)


def test_rows_and_chunks_of_one_batch(conn: psycopg.Connection) -> None:
    batch = uuid4()
    stage_plain(conn, batch, 10, 2)
    stage_rows(conn, batch, [(1, "a", b"row")])
    assert publish(conn, batch) == (3, 0, 0)
    assert conn.execute("SELECT lo_id, hi_id, n FROM notice").fetchall() == [(1, 3, 3)]
    assert sorted(delivery.id for delivery in drain(conn)) == [1, 2, 3]


@pytest.mark.parametrize("has_sizes", [False, True])
def test_batches_of_rows_and_of_chunks_are_published_in_their_order(
    conn: psycopg.Connection, has_sizes: bool
) -> None:
    if has_sizes:
        conn.execute("SELECT channel_set('small', p_max_size => 2)")
    batches = [uuid4() for _ in range(3)]
    for n in (2, 0):
        stage(conn, batches[n], 1, channel=["a"] * 2, content=[b"chunk %d" % n] * 2)
    for n in (1, 2):
        stage_rows(conn, batches[n], [(5, "a", b"row %d" % n)])
    conn.execute("SELECT staging_publish_once('app', 1, %s)", (batches,))
    found = conn.execute("SELECT content FROM message ORDER BY id").fetchall()
    order = [b"chunk 0", b"chunk 0", b"row 1", b"row 2", b"chunk 2", b"chunk 2"]
    assert found == [(content,) for content in order]


def test_keys_and_sizes_hold(conn: psycopg.Connection) -> None:
    conn.execute("SELECT channel_set('small', p_max_size => 2)")
    batch = uuid4()
    stage_plain(conn, batch, 0, 3, "small")
    stage(conn, batch, 3, channel=["a", "a"], content=[b"", b""], dedupe_key=["k", "k"])
    with pytest.raises(psycopg.Error, match="channel 'small' is full"):
        publish(conn, batch)
    assert (count(conn), count(conn, "staging_chunk")) == (0, 2)
    assert publish(conn, batch, drop_full=True) == (3, 1, 1)
    assert count(conn, "staging_chunk") == 0
    check(conn)


def test_keys_without_sizes(conn: psycopg.Connection) -> None:
    batch = uuid4()
    stage(conn, batch, 0, channel=["a"] * 3, content=[b""] * 3, dedupe_key=["k", "k", None])
    assert publish(conn, batch) == (2, 1, 0)
    check(conn)


def test_chunks_with_keys_have_a_maximum_size(conn: psycopg.Connection) -> None:
    batch = uuid4()
    stage(conn, batch, 0, channel=["a"], content=[b""], dedupe_key=["k"])
    stage_plain(conn, batch, 1, 100_000)
    with pytest.raises(psycopg.Error, match="more than 100,000") as error:
        publish(conn, batch)
    assert error.value.sqlstate == "LM005"
    assert (count(conn), count(conn, "staging_chunk")) == (0, 2)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_two_publish_the_same_chunks(connect: Connect, conn: psycopg.Connection, end: str) -> None:
    """One waits for the other, and finds the chunks only if that is rolled back."""
    batch = uuid4()
    stage_plain(conn, batch, 0, 3)
    first, second = connect(autocommit=False), connect()
    assert publish(first, batch) == (3, 0, 0)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(publish, second, batch)
        until_waiting(conn, second)
        first.execute(end.encode())
        assert waiting.result(timeout=10) == ((0, 0, 0) if end == "commit" else (3, 0, 0))
    assert (count(conn), count(conn, "staging_chunk")) == (3, 0)
    check(conn)


def test_discarding(conn: psycopg.Connection) -> None:
    one, two = uuid4(), uuid4()
    for batch in (one, two):
        stage_plain(conn, batch, 0, 3)
        stage_plain(conn, batch, 3, 2)
    assert conn.execute("SELECT staging_discard(%s)", ([one],)).fetchone() == (5,)
    assert conn.execute("SELECT DISTINCT batch FROM staging_chunk").fetchall() == [(two,)]
    assert publish(conn, one) == (0, 0, 0)


def test_chunks_belong_to_their_login(conn: psycopg.Connection) -> None:
    batch = uuid4()
    stage_plain(conn, batch, 0, 3)
    conn.execute("UPDATE staging_chunk SET staged_by = 'pg_monitor'::REGROLE")
    assert publish(conn, batch) == (0, 0, 0)
    assert conn.execute("SELECT staging_discard(%s)", ([batch],)).fetchone() == (0,)
    conn.execute("SELECT channel_set('small', p_max_size => 2)")
    assert publish(conn, batch) == (0, 0, 0)
    assert count(conn, "staging_chunk") == 1


def test_unpublished_chunks_are_deleted_after_a_day(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    for _ in range(3):
        stage_plain(conn, uuid4(), 0, 2)
    conn.execute("UPDATE staging_chunk SET staged_at = %s", (clock.at,))
    clock.advance(86_400_000)
    conn.execute("SELECT maintain()")
    assert count(conn, "staging_chunk") == 3
    clock.advance(1)
    conn.execute("SELECT maintain(2)")
    assert count(conn, "staging_chunk") == 1
    conn.execute("SELECT maintain(2)")
    assert count(conn, "staging_chunk") == 0


def test_a_chunk_with_any_option_is_not_plain(conn: psycopg.Connection) -> None:
    """Options of a plain chunk are not read."""
    columns = conn.execute(
        """
        SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
        WHERE attrelid = 'new_messages'::REGCLASS AND attnum > 0
            AND attname NOT IN ('channel', 'content', 'is_plain')"""
    ).fetchall()
    assert len(columns) > 8
    for name, type_ in columns:
        row = conn.execute(
            sql.SQL(
                "INSERT INTO staging_chunk (batch, ord, channel, content, {}) "
                "VALUES (gen_random_uuid(), 0, '{{a}}', '{{x}}', CAST('{{NULL}}' AS {})) RETURNING is_plain"
            ).format(sql.Identifier(name), sql.SQL(type_))
        ).fetchone()
        assert row == (False,), name


def test_the_query_of_a_chunk_reads_options_that_are_added(conn: psycopg.Connection) -> None:
    conn.execute("ALTER TABLE new_message ADD of_this_test TEXT")
    conn.execute("ALTER TABLE new_messages ADD of_this_test TEXT[]")
    stage(conn, uuid4(), 0, channel=["a", "b"], content=[b"", b""], of_this_test=["red", None])
    (query,) = conn.execute("SELECT staging_rows_query()").fetchone() or ("",)
    read = sql.SQL("SELECT (m.message).of_this_test FROM staging_chunk x CROSS JOIN LATERAL ({}) m").format(
        sql.SQL(query)
    )
    assert conn.execute(read).fetchall() == [("red",), (None,)]


def test_a_chunk_without_times_is_due_at_once(conn: psycopg.Connection) -> None:
    batch = uuid4()
    later = 10**13
    stage(conn, batch, 0, channel=["a"], content=[b""], dequeue_at=[later])
    stage_plain(conn, batch, 1, 1)
    copied = conn.execute(
        "SELECT first_at < %s FROM staging_copy_chunks(%s, pg_current_xact_id())", (later, batch)
    )
    assert copied.fetchone() == (True,)
