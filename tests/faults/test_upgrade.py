"""Upgrades while an autovacuum runs, and on a standby."""

import time

import psycopg
import pytest

from lonnymq import Queue, errors
from lonnymq.install import SqlFiles, install, read, uninstall, upgrade, verify
from lonnymq.install.files import Step
from tests.database import SETTINGS
from tests.faults.clusters import cluster, connect, copy_stopped, folder, make_standby, started

FILES = read()
STEP = Step(FILES.last_step + 1, "more", "ALTER TABLE message ADD extra INT;")
ALTERING = SqlFiles((*FILES.steps, STEP), FILES.functions, FILES.views)
VACUUMING = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'autovacuum: %message%'"
TIMEOUT_S = 60


def until_vacuuming(conn: psycopg.Connection) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while conn.execute(VACUUMING).fetchone() is None:
        assert time.monotonic() < deadline, "there is no autovacuum"
        time.sleep(0.02)


@pytest.mark.slow
def test_an_autovacuum_is_cancelled(pytestconfig: pytest.Config) -> None:
    """An autovacuum that would take hours blocks the first attempt; the next one cancels it."""
    settings = SETTINGS | {"autovacuum_naptime": "1s"}
    with cluster(pytestconfig.getoption("--pg"), settings) as server, connect(server, "postgres") as conn:
        install(conn)
        conn.execute("SELECT message_create('a', 'x') FROM generate_series(1, 20000)")
        conn.execute(
            "ALTER TABLE message SET (autovacuum_vacuum_threshold = 0, autovacuum_vacuum_cost_limit = 1,"
            " autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 100)"
        )
        conn.execute("DELETE FROM message")
        until_vacuuming(conn)
        with pytest.raises(errors.SchemaLocked, match=r"pid \d+ \(autovacuum, .* holds \"message\""):
            upgrade(conn, "lonnymq", ALTERING, wait=0)
        assert upgrade(conn, "lonnymq", ALTERING).step == STEP.number


@pytest.mark.slow
def test_a_standby_is_refused() -> None:
    with folder() as first, folder() as second:
        with started(first) as primary, connect(primary, "postgres") as conn:
            install(conn)
        copy_stopped(first, second)
        with started(first) as primary:
            make_standby(second, primary)
            with started(second) as standby, connect(standby, "postgres") as conn:
                for call in (install, upgrade, uninstall, lambda conn: install(conn, "other", roles=True)):
                    with pytest.raises(errors.ReadOnlyDatabase, match="connect to the primary"):
                        call(conn)
                assert verify(conn).schema == "lonnymq"
                with Queue(standby.dsn()) as queue:
                    for refused in (queue.install, lambda: queue.enqueue(1), queue.dequeue):
                        with pytest.raises(errors.ReadOnlyDatabase, match="connect to the primary"):
                            refused()
                    assert queue.stats().waiting == 0
