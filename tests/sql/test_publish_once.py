"""Publishing once: a batch that is repeated, after a crash or by another attempt, creates nothing twice."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect, unique_name, until_waiting
from tests.invariants import check
from tests.sql.test_staging import stage

DAY = 86_400_000
Answer = tuple[int, int, int, bool]
ANSWER = "created, duplicates, refused, is_repeat"


def publish(
    conn: psycopg.Connection, batches: list[UUID], version: int | None = 0, app: str = "app"
) -> Answer:
    row = conn.execute(
        f"SELECT {ANSWER} FROM staging_publish_once(%s, %s, %s::UUID[])", (app, version, batches)
    ).fetchone()
    assert row is not None
    return row


def staged(conn: psycopg.Connection, count: int = 3, content: bytes = b"") -> UUID:
    batch = uuid4()
    stage(conn, batch, [(n, "a", content) for n in range(count)])
    return batch


def count(conn: psycopg.Connection, table: str = "message") -> int:
    row = conn.execute(f"SELECT COUNT(*) FROM {table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def test_batches_become_messages_in_their_order(conn: psycopg.Connection) -> None:
    batches = [uuid4() for _ in range(3)]
    for n, batch in enumerate(batches):
        stage(conn, batch, [(m, "a", b"%d" % (12_000 * n + m)) for m in reversed(range(12_000))])
    other = staged(conn)
    assert publish(conn, batches) == (36_000, 0, 0, False)
    rows = conn.execute("SELECT content FROM message ORDER BY id").fetchall()
    assert rows == [(b"%d" % n,) for n in range(36_000)]
    assert conn.execute("SELECT DISTINCT batch FROM staging").fetchall() == [(other,)]
    check(conn)


def test_a_version_is_published_once(conn: psycopg.Connection) -> None:
    assert publish(conn, [staged(conn)]) == (3, 0, 0, False)
    again = staged(conn, 5)
    assert publish(conn, [again]) == (3, 0, 0, True), "the counts of the first call"
    assert (count(conn), count(conn, "staging")) == (3, 0), "and the staged rows are deleted"
    assert publish(conn, [staged(conn, 1)], version=1) == (1, 0, 0, False)
    assert publish(conn, [staged(conn)], version=0) == (1, 0, 0, True), "the row of the first call"
    assert publish(conn, [staged(conn)], version=7, app="other") == (3, 0, 0, False)
    assert count(conn) == 7


def test_an_empty_version_counts(conn: psycopg.Connection) -> None:
    assert publish(conn, [], version=3) == (0, 0, 0, False)
    assert publish(conn, [staged(conn)], version=3) == (0, 0, 0, True)
    assert count(conn) == 0


def test_a_version_that_a_full_channel_refused_is_published_later(conn: psycopg.Connection) -> None:
    conn.execute("SELECT channel_set('a', p_max_size => 2)")
    batch = staged(conn)
    with pytest.raises(psycopg.Error, match="1 of 3 messages do not fit") as refused:
        publish(conn, [batch])
    assert refused.value.sqlstate == "LM017"
    assert (count(conn), count(conn, "staging"), count(conn, "ledger")) == (0, 3, 0)
    conn.execute("SELECT channel_set('a', p_max_size => 3)")
    assert publish(conn, [batch]) == (3, 0, 0, False)
    assert publish(conn, [staged(conn)]) == (3, 0, 0, True), "a repeat needs no room"
    check(conn)


def test_rows_are_left_out_when_that_is_asked_for(conn: psycopg.Connection) -> None:
    conn.execute("SELECT channel_set('a', p_max_size => 2)")
    call = f"SELECT {ANSWER} FROM staging_publish_once('app', 0, %s, p_drop_full => TRUE)"
    assert conn.execute(call, ([staged(conn)],)).fetchone() == (2, 0, 1, False)
    assert conn.execute(call, ([staged(conn)],)).fetchone() == (2, 0, 1, True)
    assert (count(conn), count(conn, "staging")) == (2, 0)


def test_a_batch_that_is_named_twice(conn: psycopg.Connection) -> None:
    one, two = staged(conn), staged(conn, 2)
    assert publish(conn, [one, one, two], version=0) == (5, 0, 0, False)
    conn.execute("SELECT channel_set('a', p_max_size => 1000000)")
    one, two = staged(conn, 60_000), staged(conn, 30_000)
    assert publish(conn, [one, one, two], version=1) == (90_000, 0, 0, False)
    assert count(conn, "staging") == 0


def test_a_job_is_remembered_for_a_day_and_a_stream_for_ever(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    assert publish(conn, [staged(conn)], None, "job") == (3, 0, 0, False)
    assert publish(conn, [staged(conn)], 0, "stream") == (3, 0, 0, False)
    clock.advance(DAY)
    conn.execute("SELECT maintain()")
    assert publish(conn, [staged(conn)], None, "job") == (3, 0, 0, True)
    clock.advance(1)
    conn.execute("SELECT maintain()")
    assert conn.execute("SELECT app FROM ledger").fetchall() == [("stream",)]
    assert publish(conn, [staged(conn)], 0, "stream")[3]


def test_a_job_that_becomes_a_stream(conn: psycopg.Connection) -> None:
    """A job has no version: a stream's first version is not mistaken for a repetition."""
    assert publish(conn, [staged(conn)], None) == (3, 0, 0, False)
    assert publish(conn, [staged(conn)], 0) == (3, 0, 0, False)
    assert publish(conn, [staged(conn)], None)[3]


def test_a_rolled_back_publish_did_not_happen(connect: Connect, conn: psycopg.Connection) -> None:
    batch = staged(conn)
    other = connect(autocommit=False)
    assert publish(other, [batch]) == (3, 0, 0, False)
    other.rollback()
    assert publish(conn, [batch]) == (3, 0, 0, False)


def test_a_bad_row_leaves_all_as_it_was(conn: psycopg.Connection) -> None:
    good, bad = staged(conn), uuid4()
    stage(conn, bad, [(1, None, b"")])
    with pytest.raises(psycopg.Error, match="a channel needs a name"):
        publish(conn, [good, bad])
    assert (count(conn), count(conn, "staging"), count(conn, "ledger")) == (0, 4, 0)
    assert publish(conn, [good]) == (3, 0, 0, False)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_two_at_the_same_time(connect: Connect, conn: psycopg.Connection, end: str) -> None:
    """Two attempts of one batch, each with its own rows: the second one waits, and publishes if the first
    fails."""
    first, second = connect(autocommit=False), connect()
    one, two = staged(conn), staged(conn, 2)
    assert publish(first, [one]) == (3, 0, 0, False)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(publish, second, [two])
        until_waiting(conn, second)
        first.execute(end.encode())
        answer = waiting.result(timeout=10)
    assert answer == ((3, 0, 0, True) if end == "commit" else (2, 0, 0, False))
    assert count(conn) == (3 if end == "commit" else 2)
    assert count(conn, "staging") == (0 if end == "commit" else 3)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_two_at_the_same_time_of_the_same_rows(connect: Connect, conn: psycopg.Connection, end: str) -> None:
    """A driver calls again although its first call is still running: the connection broke."""
    first, second = connect(autocommit=False), connect()
    batch = staged(conn)
    publish(first, [batch])
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(publish, second, [batch])
        until_waiting(conn, second)
        first.execute(end.encode())
        assert waiting.result(timeout=10) == (3, 0, 0, end == "commit")
    assert (count(conn), count(conn, "staging")) == (3, 0)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_discarding_what_is_being_published(connect: Connect, conn: psycopg.Connection, end: str) -> None:
    """A driver gives up that does not know whether its publishing succeeded."""
    first, second = connect(autocommit=False), connect()
    batch = staged(conn)
    publish(first, [batch])
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(discard, second, [batch])
        until_waiting(conn, second)
        first.execute(end.encode())
        assert waiting.result(timeout=10) == (0 if end == "commit" else 3)
    assert (count(conn), count(conn, "staging")) == (3 if end == "commit" else 0, 0)


def discard(conn: psycopg.Connection, batches: list[UUID] | None) -> int:
    row = conn.execute("SELECT staging_discard(%s::UUID[])", (batches,)).fetchone()
    assert row is not None
    return int(row[0])


def test_discarding(conn: psycopg.Connection) -> None:
    one, two, three = (staged(conn, n) for n in (1, 2, 3))
    assert discard(conn, [one, three]) == 4
    assert discard(conn, [one]) == discard(conn, []) == discard(conn, None) == 0
    assert conn.execute("SELECT DISTINCT batch FROM staging").fetchall() == [(two,)]


@pytest.fixture
def other_login(conn: psycopg.Connection) -> Iterator[str]:
    name = unique_name("loader")
    conn.execute(f"CREATE ROLE {name} LOGIN SUPERUSER PASSWORD '{name}'".encode())
    yield name
    conn.execute(f"DROP ROLE {name}".encode())


def test_apps_belong_to_the_queue_and_rows_to_their_login(
    connect: Connect, conn: psycopg.Connection, other_login: str
) -> None:
    """A deployment with another login does not publish twice. Nobody publishes the rows of others."""
    mine = staged(conn)
    with connect(user=other_login, password=other_login) as other:
        assert publish(other, [mine]) == (0, 0, 0, False)
        assert discard(other, [mine]) == 0
        assert publish(conn, [mine], version=1) == (3, 0, 0, False)
        theirs = staged(other, 2)
        assert publish(other, [theirs], version=1) == (3, 0, 0, True)
    assert (count(conn), count(conn, "staging")) == (3, 0)


def test_a_bound_login_has_apps_of_its_own(
    connect: Connect, conn: psycopg.Connection, other_login: str
) -> None:
    """A tenant cannot use up the versions of others."""
    conn.execute("SELECT credential_bind(%s, '{a}')", (other_login,))
    with connect(user=other_login, password=other_login) as bound:
        assert publish(bound, [staged(bound)], version=2**62) == (3, 0, 0, False)
        assert publish(bound, [staged(bound)], version=5) == (3, 0, 0, True)
    assert publish(conn, [staged(conn)], version=5) == (3, 0, 0, False)
    conn.execute("SELECT credential_bind(%s, NULL)", (other_login,))


def test_the_job_that_published(conn: psycopg.Connection) -> None:
    first, second = uuid4(), uuid4()
    call = "SELECT created, is_repeat, job FROM staging_publish_once('app', 0, %s, p_job => %s)"
    assert conn.execute(call, ([staged(conn)], first)).fetchone() == (3, False, first)
    for job in (first, second):
        assert conn.execute(call, ([], job)).fetchone() == (3, True, first)


@pytest.mark.parametrize(
    ("app", "version", "batches"),
    [
        (None, 0, []),
        ("", 0, []),
        ("x" * 256, 0, []),
        ("app", -1, []),
        ("app", 0, None),
        ("app", 0, [None]),
    ],
)
def test_bad_arguments_are_refused(conn: psycopg.Connection, app: Any, version: Any, batches: Any) -> None:
    with pytest.raises(psycopg.Error, match="are not valid") as error:
        publish(conn, batches, version, app)
    assert error.value.sqlstate == "LM010"
    assert count(conn, "ledger") == 0


def test_with_keys_or_sizes_it_is_one_call(conn: psycopg.Connection) -> None:
    """For all batches together: their locks are taken in order."""
    batches = [uuid4(), uuid4()]
    for batch in batches:
        stage(conn, batch, [(n, "a", b"", None, f"k{n}") for n in range(10)])
    assert publish(conn, batches) == (10, 10, 0, False)
    conn.execute("DELETE FROM message")
    ordered = [uuid4() for _ in range(5)]
    for n, batch in reversed(list(enumerate(ordered))):
        stage(conn, batch, [(5 - n, "b", b"%d" % n, None, f"b{n}")])
    assert publish(conn, ordered, app="ordered") == (5, 0, 0, False)
    rows = conn.execute("SELECT content FROM message ORDER BY id").fetchall()
    assert rows == [(b"%d" % n,) for n in range(5)]
    small = uuid4()
    stage(conn, small, [(n, "small", b"") for n in range(3)])
    conn.execute("SELECT channel_set('small', p_max_size => 3)")
    assert publish(conn, [small], 1) == (3, 0, 0, False)
    many = [staged(conn, 50_001), staged(conn, 50_000)]
    with pytest.raises(psycopg.Error, match="more than 100,000") as error:
        publish(conn, many, 2)
    assert error.value.sqlstate == "LM005"
    assert count(conn, "staging") == 100_001
    assert publish(conn, many[:1], 2) == (50_001, 0, 0, False)


MIB = "convert_to(repeat('x', 1048576), 'UTF8')"


@pytest.mark.parametrize(
    "count_of_mib",
    [
        pytest.param(70, id="more than one part"),
        pytest.param(
            1200, id="more than a PostgreSQL array can hold", marks=[pytest.mark.slow, pytest.mark.long]
        ),
    ],
)
def test_large_contents(conn: psycopg.Connection, count_of_mib: int) -> None:
    batch = uuid4()
    conn.execute(
        "INSERT INTO staging (batch, ord, channel, content)"
        f" SELECT %s, n, 'a', {MIB} FROM generate_series(1, %s) n",
        (batch, count_of_mib),
    )
    assert publish(conn, [batch]) == (count_of_mib, 0, 0, False)
    rows = conn.execute("SELECT COUNT(*), SUM(octet_length(content)) FROM message").fetchall()
    assert rows == [(count_of_mib, count_of_mib << 20)]


@pytest.mark.slow
@pytest.mark.long
def test_large_contents_with_a_max_size(conn: psycopg.Connection) -> None:
    conn.execute("SELECT channel_set('a', p_max_size => 1000000)")
    batch = uuid4()
    conn.execute(
        "INSERT INTO staging (batch, ord, channel, content)"
        f" SELECT %s, n, 'a', {MIB} FROM generate_series(1, 600) n",
        (batch,),
    )
    with pytest.raises(psycopg.Error, match="512 MiB") as error:
        publish(conn, [batch], 1)
    assert error.value.sqlstate == "LM005"
    assert count(conn, "staging") == 600
