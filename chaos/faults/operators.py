"""What operators do to a live queue: policies, VACUUM FULL, REINDEX, a publication, an upgrade."""

from typing import Any

import psycopg
from psycopg import sql

from chaos.faults.fault import Scene, fault
from chaos.world import SCHEMA
from lonnymq.install import SqlFiles, read, upgrade
from lonnymq.install.files import Step

TABLES = "SELECT relname FROM pg_class WHERE relnamespace = %s::REGNAMESPACE AND relkind = 'r' ORDER BY 1"
SLOT = "chaos_reader"
REINDEX_TRIES = 5
REINSTALLING = {"upgrade"}  # these faults install the functions of the engine again


def _set(scene: Scene, conn: psycopg.Connection, channel: int, **policy: Any) -> None:
    """Change a policy. The journal has it from when to when, at the latest, each value applied."""
    call = scene.journal.before("policy", channel=channel, **policy)
    named = ", ".join(f"p_{name} => {value}" for name, value in policy.items())
    conn.execute(f"SELECT FROM channel_set('{scene.world.names[channel]}', {named})".encode())
    scene.journal.after(call, "ok")


def _changed(scene: Scene) -> list[int]:
    return [i for i, channel in enumerate(scene.world.channels) if channel.family == "changed"]


@fault("policy-changes", one_per=20_000, track="processes")
def change_policies(scene: Scene) -> None:
    """Pause a channel, limit it, raise and lower the limit, and lift it again."""
    channel = scene.random.choice(_changed(scene))
    with scene.cluster.connect() as conn:
        for limit in scene.random.sample((1, 3, 7, 20), 3):
            _set(scene, conn, channel, max_concurrency=limit)
            scene.wait(0.1, 0.6)
        _set(scene, conn, channel, paused=True)
        scene.wait(0.2, 1.0)
        _set(scene, conn, channel, paused=False)
        scene.wait(0.1, 0.3)
        _set(scene, conn, channel, max_concurrency=0)


@fault("vacuum-full", one_per=250_000)
def vacuum_full(scene: Scene) -> None:
    """Rewrite every table of the queue, under an exclusive lock."""
    with scene.cluster.lock, scene.cluster.connect() as conn:  # a dump would fail
        for (name,) in conn.execute(TABLES, (SCHEMA,)).fetchall():
            conn.execute(sql.SQL("VACUUM FULL {}").format(sql.Identifier(SCHEMA, name)))


@fault("reindex", one_per=150_000)
def reindex(scene: Scene) -> None:
    """Rebuild all indexes, beside the calls or locking them out."""
    way = scene.random.choice(("", "CONCURRENTLY "))
    scene.facts["way"] = way
    with scene.cluster.lock, scene.cluster.connect() as conn:
        for _ in range(REINDEX_TRIES):
            try:
                conn.execute(f"REINDEX SCHEMA {way}{SCHEMA}".encode())
            except psycopg.errors.DeadlockDetected:  # without CONCURRENTLY it locks a table, then its indexes
                scene.facts["deadlocks"] = scene.facts.get("deadlocks", 0) + 1
            else:
                return


@fault("publication", one_per=250_000)
def publication(scene: Scene) -> None:
    """Publish all tables, follow them through a slot, and stop publishing."""
    with scene.cluster.connect() as conn:
        conn.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        conn.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (SLOT,))
        try:
            changes = 0
            for _ in range(5):
                scene.wait(0.5, 1.0)
                row = conn.execute(
                    "SELECT COUNT(*) FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL,"
                    " 'proto_version', '1', 'publication_names', 'everything')",
                    (SLOT,),
                ).fetchone()
                changes += 0 if row is None else row[0]
            scene.facts["changes"] = changes
        finally:
            conn.execute("SELECT pg_drop_replication_slot(%s)", (SLOT,))
            conn.execute("DROP PUBLICATION everything")


@fault("upgrade", one_per=250_000)
def upgrade_under_load(scene: Scene) -> None:
    """Upgrade to a next version that alters the table of messages and installs all functions again."""
    files = read()
    with scene.cluster.lock, scene.cluster.connect() as conn:
        row = conn.execute("SELECT MAX(step) FROM migration").fetchone()
        number = (files.last_step if row is None else row[0]) + 1
        steps = [
            Step(i, "chaos", f"ALTER TABLE message ADD CONSTRAINT chaos_{i} CHECK (id > 0);")
            for i in _new(files.last_step, number)
        ]
        altered = SqlFiles((*files.steps, *steps), files.functions, files.views)
        scene.facts["step"] = upgrade(conn, SCHEMA, altered, wait=60).step


def _new(last: int, number: int) -> range:
    return range(last + 1, number + 1)
