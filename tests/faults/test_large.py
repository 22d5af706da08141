"""Many channels under a short statement_timeout: calls finish in time and make progress (invariant 13).

Also an empty queue: a dequeue that finds nothing writes nothing.
"""

from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest

from lonnymq.embedded import Server
from lonnymq.install import install
from tests.clock import FakeClock
from tests.database import SETTINGS, create_database
from tests.faults.clusters import cluster, connect
from tests.invariants import check, dequeue, dispatch, drain

TIMEOUT = "500ms"
many_channels = pytest.mark.parametrize(
    "channels", [pytest.param(4_000, marks=pytest.mark.slow), pytest.param(100_000, marks=pytest.mark.long)]
)


@pytest.fixture
def quiet(pytestconfig: pytest.Config) -> Iterator[Server]:
    """A cluster on which nothing else writes."""
    settings = SETTINGS | {"autovacuum": "off", "wal_level": "minimal", "max_wal_senders": "0"}
    with cluster(pytestconfig.getoption("--pg"), settings) as server:
        create_database(server, "queue")
        with connect(server, "queue") as conn:
            install(conn, schema="lonnymq")
        yield server


def test_idle_calls_write_nothing(quiet: Server) -> None:
    with connect(quiet, "queue") as conn:
        conn.execute("SELECT * FROM channel_set('limited', 1, 100000)")
        for channel in ("a", "limited"):
            conn.execute("SELECT message_create(%s, '')", (channel,))
        conn.execute("SELECT message_create('later', '', 4e12::BIGINT)")
        drain(conn)
        conn.execute("SELECT maintain()")
        dispatch(conn)
        for call in ("SELECT dispatch()", "SELECT * FROM message_dequeue(10)", "SELECT maintain()"):
            before = conn.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
            with conn.transaction():
                conn.execute(call)
                xid = conn.execute("SELECT pg_current_xact_id_if_assigned()").fetchone()
            assert xid == (None,), call
            assert conn.execute("SELECT pg_current_wal_insert_lsn()").fetchone() == before, call
        conn.execute("SELECT message_create('a', '')")
        before = conn.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        dispatch(conn)
        after = conn.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        assert after != before, "a dispatch with work to do writes WAL"


def bulk(conn: psycopg.Connection, messages: int, channels: int) -> None:
    """One message per channel in each call."""
    for _ in range(messages // channels):
        conn.execute(
            "SELECT COUNT(*) FROM message_create_many("
            "ARRAY(SELECT 'channel ' || i FROM generate_series(1, %s) i), array_fill(''::BYTEA, ARRAY[%s]))",
            (channels, channels),
        )


@many_channels
@pytest.mark.timeout(600)
def test_ten_messages_in_each_channel(conn: psycopg.Connection, channels: int) -> None:
    messages = 10 * channels
    bulk(conn, messages, channels)
    assert conn.execute("SELECT SUM(n) FROM notice").fetchone() == (messages,)
    conn.execute(f"SET statement_timeout = '{TIMEOUT}'")
    calls = 0
    while conn.execute("SELECT dispatch()").fetchone() == (True,):
        calls += 1
    assert calls <= messages / 1000 * 1.1
    conn.execute("SET statement_timeout = 0")
    placed = "SELECT (SELECT COUNT(*) FROM ready) + (SELECT COUNT(*) FROM line)"
    assert conn.execute(placed).fetchone() == (messages,)
    conn.execute(f"SET statement_timeout = '{TIMEOUT}'")
    visits: Counter[str] = Counter()
    while visits.total() < 1.5 * channels:
        conn.execute("SELECT dispatch()")
        deliveries, _ = dequeue(conn, 1000)
        assert deliveries
        visits.update(delivery.channel for delivery in deliveries)
        if visits.total() == channels:
            assert len(visits) == channels
    # Invariant 12: every channel had its turn before any had a third one.
    assert len(visits) == channels
    assert max(visits.values()) == 2
    conn.execute("SET statement_timeout = 0")
    check(conn)


@many_channels
@pytest.mark.timeout(600)
def test_a_clock_set_back_with_many_channels(conn: psycopg.Connection, channels: int) -> None:
    """The rebuild that a clock step needs is split into calls that also finish in time."""
    clock = FakeClock(conn)
    bulk(conn, channels, channels)
    dispatch(conn)
    clock.advance(-3_600_000)
    conn.execute("SELECT message_create('new', '')")
    conn.execute(f"SET statement_timeout = '{TIMEOUT}'")
    for _ in range(10 * channels // 1000):
        if conn.execute("SELECT dispatch()").fetchone() == (False,):
            break
    assert dequeue(conn, 1000)[0], "what was due stays due"
    clock.advance(3_600_000)
    conn.execute("SELECT dispatch()")
    assert len(dequeue(conn, 1000)[0]) == 1000
    conn.execute("SET statement_timeout = 0")
    check(conn)


@many_channels
@pytest.mark.timeout(600)
def test_a_restored_queue_with_many_channels(conn: psycopg.Connection, channels: int) -> None:
    bulk(conn, channels, channels)
    dispatch(conn)
    # As after a restore into another cluster.
    conn.execute("UPDATE tick SET system_id = system_id + 1, started_at = started_at - INTERVAL '1 s'")
    conn.execute(f"SET statement_timeout = '{TIMEOUT}'")
    dispatch(conn)
    assert len(dequeue(conn, 1000)[0]) >= 100
    conn.execute("SET statement_timeout = 0")
    check(conn)
