"""Upgrades while an autovacuum runs."""

import time

import psycopg
import pytest

from lonnymq import errors
from lonnymq.install import SqlFiles, install, read, upgrade
from lonnymq.install.files import Step
from tests.database import SETTINGS
from tests.faults.clusters import cluster, connect

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
