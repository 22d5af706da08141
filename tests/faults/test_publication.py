"""Every table of the database is published for logical replication: the queue works as before.

PostgreSQL refuses to update or delete rows of a published table without a replica identity.
"""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from lonnymq.embedded import Server
from lonnymq.install import install
from tests.clock import FakeClock
from tests.conformance import calls
from tests.conformance.drivers import psycopg_sync
from tests.conformance.saved_queue import SavedQueue
from tests.conformance.test_commands import COMMANDS
from tests.database import SETTINGS, create_database, drop_database, unique_name
from tests.faults.clusters import cluster, connect
from tests.invariants import check, dequeue, dispatch, drain
from tests.sql.test_dequeue import fill
from tests.sql.test_staging import publish, stage

DAY = 86_400_000
TEMPLATE = "published"


@pytest.fixture(scope="module")
def logical(pytestconfig: pytest.Config) -> Iterator[Server]:
    """A cluster with wal_level = logical, and a database whose tables are all published."""
    with cluster(pytestconfig.getoption("--pg"), SETTINGS | {"wal_level": "logical"}) as server:
        create_database(server, TEMPLATE)
        with connect(server, TEMPLATE) as conn:
            install(conn, schema="lonnymq")
            conn.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        yield server


@pytest.fixture
def dsn(logical: Server) -> Iterator[str]:
    name = copy_template(logical)
    yield logical.dsn(name)
    drop_database(logical, name)


def copy_template(server: Server) -> str:
    name = unique_name("published")
    create_database(server, name, TEMPLATE)
    return name


@pytest.fixture(scope="module")
def saved_queue(logical: Server) -> Iterator[SavedQueue]:
    with connect(logical, copy_template(logical)) as conn:
        yield SavedQueue(conn, logical.dsn(conn.info.dbname))


@pytest.mark.cases(12)
@pytest.mark.parametrize("call", sorted(COMMANDS))
def test_every_call(saved_queue: SavedQueue, call: str) -> None:
    saved_queue.restore()
    with psycopg_sync(saved_queue.dsn) as run:
        getattr(calls, call)(run)


def changed(conn: psycopg.Connection) -> set[str]:
    """The tables from which rows were deleted."""
    conn.execute("SELECT pg_stat_force_next_flush()")
    rows = conn.execute(
        "SELECT relname FROM pg_stat_user_tables WHERE n_tup_del > 0 AND schemaname = 'lonnymq'"
    )
    return {name for (name,) in rows}


def test_sizes_and_departures(conn: psycopg.Connection) -> None:
    conn.execute("SELECT channel_set('a', p_max_size => 2)")
    fill(conn, a=2)
    assert conn.execute("SELECT result FROM message_create('a', 'x')").fetchone() == ("full",)
    drain(conn)
    assert conn.execute("SELECT result FROM message_create('a', 'x')").fetchone() == ("created",)
    assert conn.execute("SELECT result FROM channel_delete('a', TRUE)").fetchone() == ("deleted",)
    assert changed(conn) >= {"departure", "capacity", "channel", "message"}
    check(conn)


def test_bulk_loads(conn: psycopg.Connection) -> None:
    published, discarded, forgotten = uuid4(), uuid4(), uuid4()
    for batch in (published, discarded, forgotten):
        stage(conn, batch, [(n, "a", b"x") for n in range(10)])
    assert publish(conn, published) == (10, 0, 0)
    assert conn.execute("SELECT staging_discard(%s)", ([discarded],)).fetchone() == (10,)
    clock = FakeClock(conn)
    clock.set(
        1_000 * int(conn.execute("SELECT EXTRACT(EPOCH FROM now())::BIGINT").fetchall()[0][0]) + 2 * DAY
    )
    conn.execute("SELECT maintain()")
    assert conn.execute("SELECT COUNT(*) FROM staging").fetchone() == (0,)
    assert len(drain(conn)) == 10


def test_maintenance(conn: psycopg.Connection) -> None:
    """Maintenance of notices, keys and the history, also outside its partitions; then a rebuild."""
    clock = FakeClock(conn)
    conn.execute("SELECT queue_set(p_history => TRUE, p_history_keep_ms => 3600000)")
    for days in (0, 1, 30):  # no partition exists for the last one
        clock.advance(days * DAY)
        conn.execute("SELECT message_create('a', 'x', p_dedupe_key => 'k')")
        fill(conn, b=3)
        assert len(drain(conn)) == 4
    partitions = "SELECT COUNT(*) FROM pg_inherits WHERE inhparent = 'finished'::REGCLASS"
    [(before,)] = conn.execute(partitions).fetchall()
    clock.advance(3 * DAY)
    for _ in range(3):
        conn.execute("SELECT maintain()")
    assert conn.execute("SELECT COUNT(*) FROM finished").fetchone() == (0,)
    assert conn.execute(partitions).fetchone() == (before,), "as many partitions were dropped as created"
    assert changed(conn) >= {"notice", "dedupe", "finished_other"}
    fill(conn, b=3)
    conn.execute("SELECT rebuild()")
    assert len(drain(conn)) == 3


def test_locked_rows_are_left_for_later(dsn: str, conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    fill(conn, a=2, b=1)
    with psycopg.connect(dsn, options="-c search_path=lonnymq") as holder:
        assert len(dequeue(holder, 1, 50)[0]) == 1
        for _ in range(4):
            clock.advance(300)
            fill(conn, a=1, b=1)
            dispatch(conn)
    clock.advance(2000)
    assert len(drain(conn)) == 11
    assert changed(conn) >= {"ready", "line"}


def test_the_changes_can_be_read(conn: psycopg.Connection) -> None:
    slot = unique_name("reader")
    conn.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
    try:
        test_sizes_and_departures(conn)
        changes = conn.execute(
            "SELECT COUNT(*) FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL,"
            " 'proto_version', '1', 'publication_names', 'everything') WHERE get_byte(data, 0) = ascii('D')",
            (slot,),
        ).fetchone()
        assert changes is not None
        assert changes[0] > 0
    finally:
        conn.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
