"""Executors and their Python workers are killed while a cluster writes or archives: every row arrives once.

An attempt that has staged its rows, but is killed before the driver hears of it, leaves them in
`staging_chunk`. Each test checks for these rows, which shows that the fault came at the right moment.

The first test, on executors that lack our code, is here because a file starts one cluster.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.database import Connect
from tests.spark import quick_java
from tests.spark.cluster import HOSTS, SETTINGS, Cluster
from tests.spark.driver_process import Driver
from tests.spark.outside_faults import (
    COPIED,
    TIMEOUT_S,
    Gate,
    enqueued,
    executor_of,
    in_the_lake,
    kill,
    port_of,
    process_at,
    staged,
    until,
    waiting_sessions,
)
from tests.spark.round_trip import drive
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
BLOCK_AT_A_CHUNK = f"""
    CREATE FUNCTION block () RETURNS TRIGGER LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.ord = 0 THEN
            PERFORM pg_advisory_xact_lock_shared({GATE});
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER block BEFORE INSERT ON staging_chunk FOR EACH ROW EXECUTE FUNCTION block();
"""


def python_without_lonnymq(folder: Path) -> Path:
    """This Python with all installed packages, except for those installed as a link, as lonnymq is."""
    packages = Path(psycopg.__file__).parents[1]
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec {sys.executable} -S "$@"\n', encoding="utf-8"
    )
    python.chmod(0o755)
    return python


def test_our_code_is_sent_to_executors_that_do_not_have_it(
    cluster: Cluster, conn: psycopg.Connection, options: dict[str, str], tmp_path: Path
) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE, p_history_content => TRUE)")
    finish(conn, "a", [b"x"])
    python = python_without_lonnymq(tmp_path)
    imported = subprocess.run(
        [python, "-c", "import lonnymq"], cwd=tmp_path, capture_output=True, check=False
    )
    assert b"ModuleNotFoundError" in imported.stderr
    arguments = {"master": cluster.url, "ship_code": True, **SETTINGS}
    seen = drive(arguments, options, {"PYSPARK_PYTHON": str(python)})
    assert seen["waiting"] == list(range(40))
    assert seen["finished"] == ["x"]
    assert seen["hosts"] == list(HOSTS)


@pytest.fixture(scope="module")
def drivers(cluster: Cluster) -> Iterator[Driver]:
    with Driver(cluster.url, **SETTINGS | SPECULATING) as running:
        yield running


@pytest.fixture
def driver(drivers: Driver) -> Driver:
    drivers.run("await_executors", number=2)
    return drivers


@pytest.mark.long  # as after its task ended, a moment before
def test_an_executor_is_killed_after_staging(
    driver: Driver, gate: Gate, conn: psycopg.Connection, gate_options: dict[str, str]
) -> None:
    gate.hold(COPIED, 2)
    writing = driver.call("write", options=gate_options, rows=ROWS, parts=2)
    one, other = gate.held(writing, 2)
    victim = executor_of(one.process)
    assert victim != executor_of(other.process)
    assert (staged(conn), enqueued(conn)) == ([ROWS // 2] * 2, [])
    kill(victim)
    other.release()
    writing.result()
    assert enqueued(conn) == EVERY_NUMBER
    assert staged(conn) == [ROWS // 2], "rows of the killed attempt"


def test_an_executor_is_killed_after_its_task_ended(
    driver: Driver, cluster: Cluster, gate: Gate, conn: psycopg.Connection, gate_options: dict[str, str]
) -> None:
    gate.hold(COPIED, 1)
    writing = driver.call("write", options=gate_options, rows=ROWS, parts=2)
    [held] = gate.held(writing)
    until(lambda: staged(conn) == [ROWS // 2] * 2, "both parts to be staged")
    kill(*(executor for executor in cluster.executors() if executor != executor_of(held.process)))
    held.release()
    writing.result()
    assert enqueued(conn) == EVERY_NUMBER


def test_an_attempt_has_a_speculative_duplicate(
    driver: Driver, gate: Gate, conn: psycopg.Connection, gate_options: dict[str, str]
) -> None:
    """The first attempt has staged its rows and hangs, so another host gets the same partition."""
    gate.hold(COPIED)
    writing = driver.call("write", options=gate_options, rows=ROWS, parts=4)
    gate.held(writing)
    writing.result(TIMEOUT_S)
    assert enqueued(conn) == EVERY_NUMBER
    assert staged(conn) == [ROWS // 4], "rows of the slow attempt"


@pytest.mark.long  # test_sink_faults.py kills them on one machine
def test_a_python_worker_is_killed_after_staging(
    driver: Driver, gate: Gate, conn: psycopg.Connection, gate_options: dict[str, str]
) -> None:
    gate.hold(COPIED)
    writing = driver.call("write", options=gate_options, rows=ROWS, parts=1)
    [held] = gate.held(writing)
    assert staged(conn) == [ROWS]
    kill(held.process)
    writing.result()
    assert enqueued(conn) == EVERY_NUMBER
    assert staged(conn) == [ROWS], "rows of the killed worker"


def test_a_python_worker_is_killed_while_staging(
    driver: Driver, conn: psycopg.Connection, connect: Connect, options: dict[str, str]
) -> None:
    conn.execute(BLOCK_AT_A_CHUNK)
    with connect(autocommit=False) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s)", (GATE,))
        writing = driver.call(
            "write", options=options, rows=ROWS, parts=1, filled=MORE_THAN_SOCKETS_HOLD // ROWS
        )
        until(lambda: writing.done() or waiting_sessions(conn, "COPY"), "rows to be copied")
        [backend] = waiting_sessions(conn, "COPY")
        kill(process_at(port_of(conn, backend)))
        holder.rollback()
    writing.result()
    assert (enqueued(conn), staged(conn)) == (EVERY_NUMBER, [])


@pytest.mark.long  # test_driver_faults.py kills a Python worker that archives
def test_an_executor_is_killed_while_it_archives(
    driver: Driver, gate: Gate, conn: psycopg.Connection, gate_options: dict[str, str], tmp_path: Path
) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE)")
    ids = finish(conn, "acme", [b"x"] * ROWS)
    gate.hold(COPIED)
    archiving = driver.call("archive", options=gate_options, lake=str(tmp_path))
    [held] = gate.held(archiving)
    kill(executor_of(held.process))
    archiving.result()
    assert in_the_lake(str(tmp_path)) == ids
