"""The primary is killed and its streaming standby takes over, with and without synchronous replication."""

import re
import time
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from chaos.faults.fault import Scene, fault
from chaos.journal import now_ms
from lonnymq.embedded import Server, account

TIMEOUT_S = 60
STREAMING = "SELECT pid, sync_state FROM pg_stat_replication WHERE state = 'streaming'"


@fault("failover-synchronous", one_per=500_000)
def synchronous(scene: Scene) -> None:
    """Commits wait for the standby: nothing that was confirmed may be missing there."""
    _fail_over(scene, is_synchronous=True)


@fault("failover-asynchronous", one_per=500_000)
def asynchronous(scene: Scene) -> None:
    """The standby may lack the last commits: those after the position that it had received."""
    _fail_over(scene, is_synchronous=False)


def _fail_over(scene: Scene, *, is_synchronous: bool) -> None:
    with scene.cluster.lock:
        old = scene.cluster.server
        standby = _make_standby(scene, old)
        with scene.cluster.connect() as conn:
            _until(conn, STREAMING)
            if is_synchronous:
                conn.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                conn.execute("SELECT pg_reload_conf()")
                _until(conn, f"{STREAMING} AND sync_state = 'sync'")
        scene.wait(2, 4)
        if not is_synchronous:
            _stop_receiving(standby)
            scene.wait(0.3, 0.8)
        scene.facts |= {"crash": now_ms(), "is_synchronous": is_synchronous}
        old.kill()
        _promote(standby)
        scene.facts["lsn"] = _switched_at(standby)
        scene.facts["taken_over"] = now_ms()
        scene.cluster.use(standby)
        scene.cluster.until_it_answers()
        old.erase()


def _make_standby(scene: Scene, primary: Server) -> Server:
    standby = scene.cluster.new_server(is_started=False)
    runs_as = account.for_server()
    storage = standby.data_dir / "postgres"
    standby.data_dir.mkdir(mode=0o711)
    standby.data_dir.chmod(0o711)
    storage.mkdir(mode=0o700)
    runs_as.give(storage)
    password = standby.data_dir / "password"
    password.write_text(primary.password, encoding="ascii")
    password.chmod(0o600)
    outcome = runs_as.run(
        [
            scene.cluster.programs / "pg_basebackup",
            f"--pgdata={storage / 'data'}",
            "--write-recovery-conf",
            "--checkpoint=fast",
            f"--dbname={make_conninfo(primary.dsn('replication'), application_name='standby')}",
        ],
        timeout=300,
    )
    if outcome.returncode != 0:
        raise RuntimeError(f"pg_basebackup failed:\n{outcome.stdout}")
    standby.start()
    return standby


def _until(conn: psycopg.Connection, query: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while conn.execute(query.encode()).fetchone() is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no row after {TIMEOUT_S} s: {query}")
        time.sleep(0.02)


def _stop_receiving(standby: Server) -> None:
    """From now on the standby lags."""
    with psycopg.connect(standby.dsn(), autocommit=True) as conn:
        conn.execute("ALTER SYSTEM SET primary_conninfo = ''")
        conn.execute("SELECT pg_reload_conf()")
        _until(conn, "SELECT WHERE NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")


def _promote(standby: Server) -> None:
    with psycopg.connect(standby.dsn(), autocommit=True) as conn:
        conn.execute("SELECT pg_promote(wait_seconds => 60)")


def _switched_at(standby: Server) -> int:
    """Up to where the standby has the primary's log: the last line of the newest timeline's history."""
    folder: Path = standby.data_dir / "postgres" / "data" / "pg_wal"
    last = max(folder.glob("*.history")).read_text(encoding="ascii").strip().splitlines()[-1]
    found = re.match(r"\d+\s+([0-9A-F]+)/([0-9A-F]+)", last)
    if found is None:
        raise RuntimeError(f"the history of the timeline ends with {last!r}")
    return (int(found[1], 16) << 32) + int(found[2], 16)
