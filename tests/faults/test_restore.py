"""A queue that was dumped and restored, or copied, continues to work: invariants 1, 2, 7, 10, 14 and 19.

Transaction ids mean nothing in another cluster. They may be lower there, higher, or lower at first and past
those of the dump before the first dispatch: every message is served, and so are those created afterwards.
"""

import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from lonnymq.embedded import Server, binaries
from lonnymq.install import install
from tests.database import SETTINGS, create_database
from tests.faults.clusters import (
    cluster,
    connect,
    copy_stopped,
    dump_and_restore,
    folder,
    next_xid,
    raise_xids,
)
from tests.invariants import Delivery, check, dequeue, dispatch

TIMEOUT_S = 30.0
LEASE_MS = 3000
MINUTE = 60_000


@pytest.fixture(scope="module")
def version(pytestconfig: pytest.Config) -> int:
    return int(pytestconfig.getoption("--pg"))


@pytest.fixture(scope="module")
def source(version: int) -> Iterator[Server]:
    """A cluster with a database "queue", where many transaction ids were used."""
    with cluster(version) as server:
        raise_xids(server, above=30_000)
        create_database(server, "queue")
        with connect(server, "queue") as conn:
            install(conn, schema="lonnymq")
        yield server


def create(conn: psycopg.Connection, channel: str, content: str, at: int | None = None) -> bytes:
    conn.execute("SELECT message_create(%s, %s::bytea, %s)", (channel, content, at))
    return content.encode()


def create_in_every_state(conn: psycopg.Connection) -> dict[bytes, int]:
    """Create messages in every state; return the attempt with which each must be served next."""
    conn.execute(
        "TRUNCATE message, dead, channel, policy_change, notice, scheduled, alarm, line, backlog, ready,"
        " ready_locked, recent_tag, lease, slots, served_by, tally, tick"
    )
    conn.execute("SELECT rebuild()")
    conn.execute("SELECT * FROM channel_set('one', 1)")
    conn.execute("SELECT * FROM channel_set('slow', p_release_interval_us => %s)", (10_000 * MINUTE,))
    for i in range(5):
        create(conn, f"quiet {i}", "done")
    dispatch(conn)
    for d in dequeue(conn, 100)[0]:
        conn.execute("SELECT message_complete(%s, %s)", (d.id, d.token))
    leased = [create(conn, channel, f"leased {channel}") for channel in ("a", "one", "slow")]
    dispatch(conn)
    assert len(dequeue(conn, 10, LEASE_MS)[0]) == 3
    dispatch(conn)
    now = int(time.time() * 1000)
    waiting = [
        create(conn, channel, f"waiting {channel} {i}") for i in range(3) for channel in ("a", "b", "one")
    ]
    waiting += [create(conn, "slow", "waiting slow"), create(conn, "b", "urgent", -1)]
    waiting += [create(conn, "later", "scheduled", now + LEASE_MS)]
    dispatch(conn)
    waiting += [create(conn, channel, f"undispatched {channel}") for channel in ("a", "new", "one")]
    return dict.fromkeys(leased, 2) | dict.fromkeys(waiting, 1)


def serve_all(conn: psycopg.Connection, expected: dict[bytes, int]) -> None:
    """Serve until nothing is left. Shorten the slow channel's interval after it has been checked."""
    served: list[Delivery] = []
    is_slow = True
    deadline = time.monotonic() + TIMEOUT_S
    while conn.execute("SELECT EXISTS (SELECT FROM message)").fetchone() == (True,):
        assert time.monotonic() < deadline, conn.execute("SELECT channel, content FROM message").fetchall()
        if is_slow and conn.execute("SELECT COUNT(*) FROM message WHERE channel <> 'slow'").fetchone() == (
            0,
        ):
            conn.execute("SELECT * FROM channel_set('slow', p_release_interval_us => 1000)")
            is_slow = False
        dispatch(conn)
        deliveries, _ = dequeue(conn, 100, MINUTE)
        assert sum(d.channel == "one" for d in deliveries) <= 1, "invariant 7"
        assert not is_slow or all(d.channel != "slow" for d in deliveries), "invariant 10"
        for d in deliveries:
            assert conn.execute("SELECT message_complete(%s, %s)", (d.id, d.token)).fetchone() == (
                "completed",
            )
        served += deliveries
        if not deliveries:
            time.sleep(0.02)
    assert {d.content: d.attempts for d in served} == expected
    assert len(served) == len(expected), "each message was served once"
    assert not is_slow
    check(conn)


def create_and_serve(conn: psycopg.Connection, expected: dict[bytes, int]) -> None:
    """Producers create messages before the first dispatch."""
    for channel in ("a", "one", "brand new"):
        expected[create(conn, channel, f"after {channel}")] = 1
    serve_all(conn, expected)
    for channel in ("a", "brand new"):
        create(conn, channel, f"still later {channel}")
    serve_later = {b"still later a": 1, b"still later brand new": 1}
    create(conn, "slow", "still later slow")
    conn.execute("SELECT * FROM channel_set('slow', p_release_interval_us => %s)", (10_000 * MINUTE,))
    serve_all(conn, serve_later | {b"still later slow": 1})


@pytest.mark.cases(2)
@pytest.mark.parametrize("xids", ["lower", "higher", "lower-and-passed"])
def test_a_dump_restored_into_another_cluster(source: Server, version: int, xids: str) -> None:
    with cluster(version) as target, connect(source, "queue") as conn:
        if xids == "higher":
            raise_xids(target, above=next_xid(source) + 10_000)
        expected = create_in_every_state(conn)
        with psycopg.connect(source.dsn("queue"), options="-c search_path=lonnymq") as uncommitted:
            uncommitted.execute("SELECT message_create('a', 'never committed')")
            dump_and_restore(source, target, "queue", "queue", version)
            uncommitted.rollback()
        assert (next_xid(target) > next_xid(source)) == (xids == "higher")
        with connect(target, "queue") as restored:
            for channel in ("a", "b", "one", "early"):
                expected[create(restored, channel, f"early {channel}")] = 1
            if xids == "lower-and-passed":
                raise_xids(target, above=next_xid(source) + 10_000)
            create_and_serve(restored, expected)


@pytest.mark.cases(1)
@pytest.mark.parametrize("xids", ["lower", "higher"])
def test_maintenance_works_in_another_cluster(source: Server, version: int, xids: str) -> None:
    with cluster(version) as target, connect(source, "queue") as conn:
        if xids == "higher":
            raise_xids(target, above=next_xid(source) + 10_000)
        create_in_every_state(conn)
        conn.execute("SELECT maintain()")
        dump_and_restore(source, target, "queue", "queue", version)
        with connect(target, "queue") as restored:
            dispatch(restored)
            for i in range(50):
                create(restored, "a", f"{i}")
            dispatch(restored)
            restored.execute("SELECT maintain()")
            dispatch(restored)
            left = restored.execute("SELECT COUNT(*) FROM notice").fetchone()
            assert left is not None
            assert left[0] < 10, "notices that were read are deleted"


def test_a_dump_restored_into_the_same_cluster(source: Server, version: int) -> None:
    with connect(source, "queue") as conn:
        expected = create_in_every_state(conn)
        dump_and_restore(source, source, "queue", "queue again", version)
        with connect(source, "queue again") as restored:
            create_and_serve(restored, dict(expected))
        create_and_serve(conn, expected)


def test_a_copy_of_the_folder_needs_no_rebuild(version: int) -> None:
    """The original and the copy both continue where they were."""
    with folder() as first, folder() as second:
        with Server(first, bin_dir=binaries(version), settings=SETTINGS) as server:
            create_database(server, "queue")
            with connect(server, "queue") as conn:
                install(conn, schema="lonnymq")
                expected = create_in_every_state(conn)
        copy_stopped(first, second)
        for path in (first, second):
            with (
                Server(path, bin_dir=binaries(version), settings=SETTINGS) as server,
                connect(server, "queue") as conn,
            ):
                assert not _rebuilds(conn, dispatch)
                create_and_serve(conn, dict(expected))


def _rebuilds(conn: psycopg.Connection, action: Callable[[psycopg.Connection], object]) -> bool:
    """Whether the action started to look for all messages again, which stores a new snapshot."""
    query = "SELECT rescan_snapshot::TEXT FROM tick"
    before = conn.execute(query).fetchone()
    action(conn)
    return conn.execute(query).fetchone() != before


def test_a_rebuild_is_recognised(source: Server) -> None:
    with connect(source, "queue") as conn:
        create_in_every_state(conn)
        assert _rebuilds(conn, lambda conn: conn.execute("SELECT rebuild()"))


def bind_and_rename(conn: psycopg.Connection) -> None:
    """A binding whose role has been renamed since."""
    conn.execute("CREATE ROLE acme LOGIN")
    conn.execute("GRANT USAGE ON SCHEMA lonnymq TO acme")
    conn.execute("SELECT credential_bind('acme', '{acme}')")
    conn.execute("ALTER ROLE acme RENAME TO acme_app")


def release(conn: psycopg.Connection) -> None:
    conn.execute("SELECT credential_bind('acme_app', NULL)")
    conn.execute("DROP OWNED BY acme_app")
    conn.execute("DROP ROLE acme_app")


def bound_channels_of(conn: psycopg.Connection, role: str) -> list[str] | None:
    conn.execute(f"GRANT USAGE ON SCHEMA lonnymq TO {role}")
    conn.execute(f"GRANT EXECUTE ON FUNCTION bound_channels() TO {role}")
    conn.execute(f"SET SESSION AUTHORIZATION {role}")
    try:
        row = conn.execute("SELECT bound_channels()").fetchone()
    finally:
        conn.execute("RESET SESSION AUTHORIZATION")
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


def test_a_binding_belongs_to_the_role_with_its_name(source: Server, version: int) -> None:
    with cluster(version) as target, connect(source, "queue") as conn:
        bind_and_rename(conn)
        with psycopg.connect(target.dsn(), autocommit=True) as admin:
            for role in ("first", "acme", "acme_app LOGIN"):
                admin.execute(f"CREATE ROLE {role}")
        dump_and_restore(source, target, "queue", "queue", version)
        with connect(target, "queue") as restored:
            assert bound_channels_of(restored, "acme_app") == ["acme"]
            assert bound_channels_of(restored, "acme") is None
        release(conn)


def test_if_the_role_is_missing_every_login_is_restricted(source: Server, version: int) -> None:
    with cluster(version) as target, connect(source, "queue") as conn:
        bind_and_rename(conn)
        dump_and_restore(source, target, "queue", "queue", version, is_complete=False)
        with connect(target, "queue") as restored:
            for role in ("acme", "acme_app", "worker"):
                restored.execute(f"CREATE ROLE {role} LOGIN")
            assert [bound_channels_of(restored, role) for role in ("acme", "acme_app", "worker")] == [
                [],
                [],
                [],
            ]
            with restored.transaction():
                restored.execute("SELECT credential_bind('acme_app', '{acme}')")
            assert bound_channels_of(restored, "acme_app") == ["acme"]
            assert bound_channels_of(restored, "worker") is None
            assert len(create(restored, "a", "goes on")) > 0
        release(conn)
