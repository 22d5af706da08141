"""The queue is dumped in parallel under load, restored into another cluster in parallel, and served there."""

import shutil
import time

import numpy as np
import psycopg

from chaos.cluster import DATABASE
from chaos.faults.fault import Scene, fault
from chaos.journal import now_ms
from chaos.world import SCHEMA, key_of
from lonnymq.embedded import Server

STORED = "SELECT content FROM message UNION ALL SELECT content FROM dead"
NO_LIMITS = (
    "SELECT FROM channel c CROSS JOIN LATERAL channel_set(c.name, 0, 0, 1, FALSE, 0) WHERE c.name IS NOT NULL"
)
LEASE_MS = 60_000
STUCK_S = 60


@fault("dump-and-restore", one_per=250_000, track="copies")
def dump_and_restore(scene: Scene) -> None:
    """Dump under load, restore into another cluster, and note what the dump has and what the copy serves."""
    target = scene.cluster.new_server(is_started=False, is_copy=True)
    archive = scene.folder / "journals" / f"dump-{scene.random.randrange(1 << 40)}"
    stored = archive.with_suffix(".stored.npy")
    served = archive.with_suffix(".served.npy")
    try:
        with scene.cluster.lock, scene.cluster.connect() as conn:
            conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            begin = now_ms()
            [(snapshot,)] = conn.execute("SELECT pg_export_snapshot()").fetchall()
            scene.facts["snapshot"] = [begin, now_ms()]
            np.save(stored, np.array([_key(row[0]) for row in conn.execute(STORED)], dtype=np.int64))
            scene.cluster.run_program(
                "pg_dump", "--format=directory", "--jobs=2", f"--snapshot={snapshot}",
                f"--file={archive}", f"--dbname={DATABASE}",
            )  # fmt: skip
            conn.execute("COMMIT")
        target.start()
        scene.cluster.run_program("createdb", "--template=template0", DATABASE, server=target)
        scene.cluster.run_program(
            "pg_restore", "--exit-on-error", "--jobs=2", f"--dbname={DATABASE}", str(archive), server=target
        )
        np.save(served, np.array(_serve(scene, target), dtype=np.int64))
        scene.facts |= {"stored": stored.name, "served": served.name}
    finally:
        target.erase()
        shutil.rmtree(archive, ignore_errors=True)


def _serve(scene: Scene, server: Server) -> list[int]:
    """Serve everything that the copy has, and return the keys, those of dead letters included.

    Without progress for a while, give up: the judge sees what was not served.
    """
    keys: list[int] = []
    deadline = time.monotonic() + STUCK_S
    with psycopg.connect(server.dsn(DATABASE), autocommit=True, options=f"-c search_path={SCHEMA}") as conn:
        conn.execute(NO_LIMITS)
        while conn.execute("SELECT EXISTS (SELECT FROM message)").fetchone() == (True,):
            conn.execute("SELECT dispatch(5000)")
            rows = conn.execute(
                "SELECT id, content, token FROM message_dequeue(2000, %s) WHERE id IS NOT NULL", (LEASE_MS,)
            ).fetchall()
            if not rows:
                if time.monotonic() > deadline:
                    break
                scene.wait(0.05)  # for leases of the time of the dump to end
                continue
            deadline = time.monotonic() + STUCK_S
            keys += [_key(row[1]) for row in rows]
            conn.execute(
                "SELECT FROM message_complete_many(%s::bigint[], %s::uuid[])",
                ([row[0] for row in rows], [row[2] for row in rows]),
            )
        keys += [_key(row[0]) for row in conn.execute("SELECT content FROM dead")]
    return keys


def _key(content: bytes) -> int:
    key = key_of(content)
    return -1 if key is None else key
