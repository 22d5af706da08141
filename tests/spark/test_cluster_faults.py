"""What executors lose, while a DataFrame goes into the queue from a cluster: every row arrives once.

An attempt at a task that PostgreSQL has staged rows of, and that the driver never heard of, leaves them in
`staging`. Each test sees them there, so that it knows that the fault came when it should.
"""

import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.database import Connect
from tests.spark import quick_java
from tests.spark.cluster import SETTINGS, Cluster
from tests.spark.conftest import SCHEMA, Services
from tests.spark.disturbing import (
    COPIED,
    PATIENCE_S,
    Gate,
    enqueued,
    executor_of,
    in_the_lake,
    kill,
    port_of,
    process_at,
    sessions_in_wait,
    staged,
    until,
)
from tests.spark.driven import Driver
from tests.spark.traffic import finish

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

ROWS = 120
EVERY_NUMBER = sorted(map(str, range(ROWS)))
SPECULATING = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.75",
    "spark.executor.extraJavaOptions": quick_java.LIGHT,
}
GATE = 815
MORE_THAN_SOCKETS_HOLD = 32 << 20
BLOCK_AT_A_ROW = f"""
    CREATE FUNCTION block () RETURNS TRIGGER LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.ord = 10 THEN
            PERFORM pg_advisory_xact_lock_shared({GATE});
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER block BEFORE INSERT ON staging FOR EACH ROW EXECUTE FUNCTION block();
"""


@pytest.fixture(scope="module")
def cluster(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers, which are two hosts to Spark, of a core each."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def drivers(cluster: Cluster) -> Iterator[Driver]:
    with Driver(cluster.url, **SETTINGS | SPECULATING) as running:
        yield running


@pytest.fixture
def driver(drivers: Driver) -> Driver:
    drivers.run("await_executors", number=2)
    return drivers


@pytest.fixture
def gate(dsn: str) -> Iterator[Gate]:
    with Gate(dsn) as standing:
        yield standing


@pytest.fixture
def behind(gate: Gate, services: Services) -> dict[str, str]:
    """Options that lead through the gate."""
    return {"service": services.add(gate.dsn, f"gate_{secrets.token_hex(4)}"), "schema": SCHEMA}


def test_an_executor_is_killed_after_staging(
    driver: Driver, gate: Gate, conn: psycopg.Connection, behind: dict[str, str]
) -> None:
    gate.hold(COPIED, 2)
    writing = driver.call("write", options=behind, rows=ROWS, parts=2)
    one, other = gate.held(writing, 2)
    victim = executor_of(one.process)
    assert victim != executor_of(other.process)
    assert (staged(conn), enqueued(conn)) == ([ROWS // 2] * 2, [])
    kill(victim)
    other.release()
    writing.result()
    assert enqueued(conn) == EVERY_NUMBER
    assert staged(conn) == [ROWS // 2], "of the attempt that was killed"


def test_an_executor_is_killed_after_its_task_ended(
    driver: Driver, cluster: Cluster, gate: Gate, conn: psycopg.Connection, behind: dict[str, str]
) -> None:
    gate.hold(COPIED, 1)
    writing = driver.call("write", options=behind, rows=ROWS, parts=2)
    [held] = gate.held(writing)
    until(lambda: staged(conn) == [ROWS // 2] * 2, "both parts to be staged")
    kill(*(executor for executor in cluster.executors() if executor != executor_of(held.process)))
    held.release()
    writing.result()
    assert enqueued(conn) == EVERY_NUMBER


def test_an_attempt_has_a_speculative_duplicate(
    driver: Driver, gate: Gate, conn: psycopg.Connection, behind: dict[str, str]
) -> None:
    """The first attempt has staged its rows and does not end, so another host is given the same part."""
    gate.hold(COPIED)
    writing = driver.call("write", options=behind, rows=ROWS, parts=4)
    gate.held(writing)
    writing.result(PATIENCE_S)
    assert enqueued(conn) == EVERY_NUMBER
    assert staged(conn) == [ROWS // 4], "of the attempt that was slow"


def test_a_python_worker_is_killed_after_staging(
    driver: Driver, gate: Gate, conn: psycopg.Connection, behind: dict[str, str]
) -> None:
    gate.hold(COPIED)
    writing = driver.call("write", options=behind, rows=ROWS, parts=1)
    [held] = gate.held(writing)
    assert staged(conn) == [ROWS]
    kill(held.process)
    writing.result()
    assert enqueued(conn) == EVERY_NUMBER
    assert staged(conn) == [ROWS], "of the worker that was killed"


def test_a_python_worker_is_killed_while_staging(
    driver: Driver, conn: psycopg.Connection, connect: Connect, options: dict[str, str]
) -> None:
    conn.execute(BLOCK_AT_A_ROW)
    with connect(autocommit=False) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s)", (GATE,))
        writing = driver.call(
            "write", options=options, rows=ROWS, parts=1, filled=MORE_THAN_SOCKETS_HOLD // ROWS
        )
        until(lambda: writing.done() or sessions_in_wait(conn, "COPY"), "rows to be copied")
        [backend] = sessions_in_wait(conn, "COPY")
        kill(process_at(port_of(conn, backend)))
        holder.rollback()
    writing.result()
    assert (enqueued(conn), staged(conn)) == (EVERY_NUMBER, [])


def test_an_executor_is_killed_while_it_archives(
    driver: Driver, gate: Gate, conn: psycopg.Connection, behind: dict[str, str], tmp_path: Path
) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE)")
    ids = finish(conn, "acme", [b"x"] * ROWS)
    gate.hold(COPIED)
    archiving = driver.call("archive", options=behind, lake=str(tmp_path))
    [held] = gate.held(archiving)
    kill(executor_of(held.process))
    archiving.result()
    assert in_the_lake(str(tmp_path)) == ids
