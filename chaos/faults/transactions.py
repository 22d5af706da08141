"""Transactions that stay open, are prepared, or hold a snapshot; and timeouts."""

import time

import psycopg

from chaos.cluster import OPERATOR
from chaos.faults.fault import Scene, fault
from chaos.world import OPERATOR_KEYS, PATIENT_ATTEMPTS, SCHEMA, content

PREPARE_TIMEOUT_S = 10
TIMEOUTS = {"statement_timeout": "25ms", "lock_timeout": "5ms"}


def _keys(scene: Scene, count: int) -> range:
    first = OPERATOR_KEYS + scene.random.randrange(1 << 40) * 1000
    return range(first, first + count)


def _create(scene: Scene, conn: object, keys: range) -> None:
    names = scene.world.names
    channels = [names[key % 8] for key in keys]
    conn.execute(  # type: ignore[attr-defined]
        "SELECT FROM message_create_many(%s::text[], %s::bytea[], NULL, NULL, %s::int[])",
        (channels, [content(key) for key in keys], [PATIENT_ATTEMPTS] * len(keys)),
    )


def _facts(keys: range) -> dict[str, object]:
    n = len(keys)
    return {
        "first": keys[0],
        "channels": [key % 8 for key in keys],
        "ats": [None] * n,
        "priorities": [0] * n,
        "keyed": False,
    }


@fault("open-transactions", one_per=100_000)
def open_transactions(scene: Scene) -> None:
    """A create and a dequeue stay open for seconds; then the create is committed, the dequeue rolled back."""
    keys = _keys(scene, 20)
    call = scene.journal.before("create", **_facts(keys))
    with scene.cluster.connect() as producer, scene.cluster.connect() as consumer:
        producer.execute("BEGIN")
        _create(scene, producer, keys)
        consumer.execute("BEGIN")
        consumer.execute("SELECT FROM message_dequeue(20, 60000, 'left open', '{default}')")
        scene.wait(4, 8)
        consumer.execute("ROLLBACK")
        producer.execute("COMMIT")
    scene.journal.after(call, "ok", results="created")


@fault("prepared-transactions", one_per=100_000)
def prepared_transactions(scene: Scene) -> None:
    """Two creates are prepared, survive their sessions, and are committed and rolled back seconds later."""
    name = f"chaos {scene.random.randrange(1 << 60)}"
    calls = {way: _prepare(scene, f"{name} {way}") for way in ("COMMIT", "ROLLBACK")}
    scene.wait(3, 6)
    with scene.cluster.connect() as conn:
        for way, call in calls.items():
            if call is None:
                scene.facts["ended"] = "every create notified a sleeping consumer"
                continue
            conn.execute(f"{way} PREPARED '{name} {way}'")
            scene.journal.after(call, "ok" if way == "COMMIT" else "rolled back", results="created")


def _prepare(scene: Scene, name: str) -> int | None:
    """Prepare a create. PostgreSQL refuses one that has notified a sleeping consumer: then try again.

    Without a consumer that wakes up, every create notifies. Then give up after a while.
    """
    deadline = time.monotonic() + PREPARE_TIMEOUT_S
    while time.monotonic() < deadline:
        keys = _keys(scene, 20)
        call = scene.journal.before("create", **_facts(keys))
        try:
            with scene.cluster.connect() as conn:
                conn.execute("BEGIN")
                _create(scene, conn, keys)
                conn.execute(f"PREPARE TRANSACTION '{name}'")
        except psycopg.errors.FeatureNotSupported:
            scene.journal.after(call, "failed")
            scene.wait(0.02)
        else:
            return call
    return None


@fault("held-snapshot", one_per=150_000)
def held_snapshot(scene: Scene) -> None:
    """A transaction reads for long, so that VACUUM cannot remove what others delete."""
    with scene.cluster.connect() as conn:
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        conn.execute(f"SELECT COUNT(*) FROM {SCHEMA}.tick")
        scene.wait(8, 15)
        conn.execute("ROLLBACK")


@fault("timeouts", one_per=100_000)
def timeouts(scene: Scene) -> None:
    """All clients get a statement timeout and a lock timeout that many calls exceed."""
    with scene.cluster.connect() as conn:
        for name, value in TIMEOUTS.items():
            conn.execute(f"ALTER DATABASE chaos SET {name} = '{value}'")
        _reconnect_all(conn)
        scene.wait(2, 4)
        for name in TIMEOUTS:
            conn.execute(f"ALTER DATABASE chaos RESET {name}")
        _reconnect_all(conn)


def _reconnect_all(conn: object) -> None:
    conn.execute(  # type: ignore[attr-defined]
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'chaos'"
        " AND backend_type = 'client backend' AND application_name <> %s",
        (OPERATOR,),
    )
