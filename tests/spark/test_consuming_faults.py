"""Faults while a stream consumes: lost leases, killed drivers, two drivers at once, a restarted server.

A message that is moved within PostgreSQL arrives exactly once. Other sinks get it at least once.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from lonnymq.install import install
from tests.database import Connect, create_database
from tests.faults import clusters
from tests.invariants import check, dequeue, dispatch
from tests.spark.conftest import SCHEMA, Services
from tests.spark.consuming import NOW, Options, Stop, Streams, await_end, completed, create, moved, one, until
from tests.spark.outside_faults import kill_tree, stopped_tree

ROWS = 10
EVERY_NUMBER = list(range(ROWS))
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _queue(conn: psycopg.Connection) -> None:
    conn.execute("SELECT * FROM queue_set(p_history => TRUE)")
    conn.execute("SELECT channel_set('out', p_paused => TRUE)")


@pytest.fixture
def streams(spark: SparkSession, options: Options, tmp_path: Path) -> Iterator[Streams]:
    made = Streams(spark, options, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def stop(tmp_path: Path) -> Iterator[Stop]:
    made = Stop(tmp_path)
    yield made
    made.resume()


def steal(conn: psycopg.Connection, number: int) -> None:
    """Take the lease away: another consumer dequeues the message and completes it."""
    conn.execute(
        "SELECT message_retry(m.id, l.token) FROM lease l CROSS JOIN unnest(l.stubs) s"
        " JOIN message m ON (m.id, m.generation) = (s.id, s.generation)"
        " WHERE m.content = convert_to(%s::TEXT, 'UTF8')",
        (number,),
    )
    dispatch(conn)
    [message], _ = dequeue(conn, 10, consumer="thief")
    assert message.content == b"%d" % number
    done = conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token)).fetchone()
    assert done == ("completed",)


def done_by(conn: psycopg.Connection) -> dict[str, int]:
    return dict(conn.execute("SELECT consumer, COUNT(*) FROM history WHERE outcome = 'completed' GROUP BY 1"))


def test_moved_within_a_transaction(streams: Streams, conn: psycopg.Connection) -> None:
    create(conn, ROWS)
    await_end(streams.move(maxOffsetsPerTrigger="4"))
    assert moved(conn) == EVERY_NUMBER
    assert done_by(conn) == {"etl": ROWS}
    assert one(conn, "SELECT COUNT(DISTINCT xid) FROM history") == 3
    check(conn)


def test_rows_with_an_error_fail_their_messages(streams: Streams, conn: psycopg.Connection) -> None:
    """They are not enqueued, and need no content. The others are, in the same transaction."""
    conn.execute("SELECT * FROM queue_set(p_max_attempts => 1)")
    create(conn, ROWS, 2)
    even = "CAST(CAST(content AS STRING) AS INT) % 2 = 0"
    checked = streams.read(minPartitions="2").selectExpr(
        "'out' AS channel",
        f"CASE WHEN NOT {even} THEN content END AS content",
        f"CASE WHEN {even} THEN 'even: ' || CAST(content AS STRING) END AS error",
        "claim",
    )
    writing = checked.writeStream.format("lonnymq").options(**streams.options, complete="true")
    await_end(streams.started(writing, "errors", NOW))
    assert moved(conn) == [number for number in EVERY_NUMBER if number % 2]
    errors = conn.execute("SELECT error FROM dead ORDER BY 1").fetchall()
    assert errors == [(f"even: {number}",) for number in EVERY_NUMBER if not number % 2]
    assert one(conn, "SELECT COUNT(DISTINCT xid) FROM history") == 1
    check(conn)


def test_a_lease_is_stolen_in_mid_batch(streams: Streams, conn: psycopg.Connection, stop: Stop) -> None:
    """The whole batch is rolled back. When it comes again, the stolen message is left out."""
    create(conn, ROWS)
    query = streams.move(stop)
    stop.until_reached()
    steal(conn, 3)
    stop.resume()
    with pytest.raises(StreamingQueryException, match="1 message of claim 1 is no longer held by 'etl'"):
        await_end(query)
    assert moved(conn) == []
    assert done_by(conn) == {"thief": 1}
    await_end(streams.move())
    assert moved(conn) == [number for number in EVERY_NUMBER if number != 3]
    assert done_by(conn) == {"thief": 1, "etl": ROWS - 1}
    assert one(conn, "SELECT COUNT(*) FROM staging_chunk") == 0
    check(conn)


def test_a_message_is_cancelled_in_mid_batch(streams: Streams, conn: psycopg.Connection, stop: Stop) -> None:
    """Nobody else has the message, so its result is kept."""
    create(conn, ROWS)
    query = streams.move(stop)
    stop.until_reached()
    conn.execute("SELECT message_cancel(MIN(id)) FROM message")
    stop.resume()
    await_end(query)
    assert moved(conn) == EVERY_NUMBER
    rows = conn.execute("SELECT outcome, COUNT(*) FROM history GROUP BY 1 ORDER BY 1").fetchall()
    assert rows == [("cancelled", 1), ("completed", ROWS - 1)]


def do_some_as_another(conn: psycopg.Connection) -> set[int]:
    """When all leases have run out, complete four messages as another consumer. Returns their numbers."""

    def leases_are_gone() -> bool:
        dispatch(conn)
        return bool(one(conn, "SELECT COUNT(*) FROM leases") == 0)

    until(leases_are_gone, "the leases to run out")
    taken, _ = dequeue(conn, 4, consumer="thief")
    conn.execute(
        "SELECT message_complete_many(%s, %s)", ([message.id for message in taken], [taken[0].token])
    )
    return {int(message.content) for message in taken}


@pytest.mark.long  # the next test takes leases away in the same way
def test_leases_end_while_the_driver_is_down(streams: Streams, conn: psycopg.Connection, stop: Stop) -> None:
    """It comes back with a batch of which others have done some, and claims the rest again."""
    create(conn, ROWS)
    query = streams.move(stop, leaseSeconds="1")
    stop.until_reached()
    query.stop()
    stop.resume()
    others = do_some_as_another(conn)
    assert moved(conn) == []
    await_end(streams.move())
    assert moved(conn) == [number for number in EVERY_NUMBER if number not in others]
    assert done_by(conn) == {"thief": 4, "etl": ROWS - 4}
    check(conn)


@pytest.mark.long  # test_a_lease_is_stolen_in_mid_batch is rolled back in the same way
def test_driver_and_workers_are_stopped_longer_than_their_leases(
    spark: SparkSession, streams: Streams, conn: psycopg.Connection, stop: Stop
) -> None:
    """As by a machine that sleeps. Others do some of the messages meanwhile. When the stream continues, its
    batch is rolled back; started again, it does the rest."""
    create(conn, ROWS)
    query = streams.move(stop, leaseSeconds="1")
    stop.until_reached()
    with stopped_tree(spark.sparkContext._gateway.proc.pid):  # type: ignore[union-attr]
        others = do_some_as_another(conn)
    stop.resume()
    with pytest.raises(StreamingQueryException, match="of claim 1 are no longer held by 'etl'"):
        await_end(query)
    assert moved(conn) == []
    await_end(streams.move())
    assert moved(conn) == [number for number in EVERY_NUMBER if number not in others]
    assert done_by(conn) == {"thief": 4, "etl": ROWS - 4}
    check(conn)


def test_the_checkpoint_is_deleted(streams: Streams, conn: psycopg.Connection, stop: Stop) -> None:
    """A new stream under the old name continues with what the old one had claimed."""
    create(conn, ROWS)
    await_end(streams.move(maxOffsetsPerTrigger="5"))
    create(conn, ROWS, name="more")
    query = streams.move(stop)
    stop.until_reached()
    query.stop()
    stop.resume()
    assert one(conn, "SELECT COUNT(*) FROM claim") == ROWS
    shutil.rmtree(streams.folder / "moving")
    await_end(streams.move())
    assert moved(conn) == sorted(EVERY_NUMBER * 2)
    assert done_by(conn) == {"etl": 2 * ROWS}
    assert one(conn, "SELECT MAX(attempts) FROM history") == 1, "no lease had to run out"


@pytest.mark.long  # test_claim_reader.py::test_an_offset_that_was_never_made has no stream
def test_a_checkpoint_of_another_queue(
    streams: Streams, conn: psycopg.Connection, connect: Connect, stop: Stop
) -> None:
    """The checkpoint is ahead of the queue, as after a restore."""
    create(conn, ROWS)
    await_end(streams.move(maxOffsetsPerTrigger="5"))
    conn.execute("TRUNCATE claimant, claim")
    create(conn, ROWS)
    with pytest.raises(StreamingQueryException, match="was never made"):
        await_end(streams.move())
    assert completed(conn) == ROWS


def test_two_drivers(streams: Streams, conn: psycopg.Connection, stop: Stop) -> None:
    """The later one takes over the name and the claims; the first cannot commit any more."""
    create(conn, ROWS)
    first = streams.move(stop)
    stop.until_reached()
    await_end(streams.move(checkpoint="another"))
    assert moved(conn) == EVERY_NUMBER
    stop.resume()
    with pytest.raises(StreamingQueryException, match="'etl' was opened by another reader"):
        await_end(first)
    assert moved(conn) == EVERY_NUMBER
    assert done_by(conn) == {"etl": ROWS}


@pytest.mark.long  # test_claim_reader.py::test_the_heartbeat_notices_a_second_reader has no stream
def test_the_first_of_two_idle_drivers_fails(streams: Streams, conn: psycopg.Connection) -> None:
    first = streams.start()
    create(conn, ROWS)
    until(lambda: completed(conn) == ROWS, "the first stream to read")
    streams.run(checkpoint="another")
    with pytest.raises(StreamingQueryException, match="which started later, consumes as 'etl'"):
        await_end(first)


class Killed:
    """A driver in its own process, killed with all its processes when it reaches the stop."""

    def __init__(self, options: Options, folder: Path, stop: str) -> None:
        self.checkpoint = folder / "moving"
        reached = folder / "driver reached"
        task = {"options": options, "checkpoint": str(self.checkpoint), "sink": str(folder / "sink")}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.stopping_driver", json.dumps(task)],
            env=os.environ | {"LONNYMQ_TEST_STOP": stop, "LONNYMQ_TEST_REACHED": str(reached)},
            cwd=ROOT,
        )
        try:
            until(lambda: reached.exists() or process.poll() is not None, "the driver to stop")
            assert process.poll() is None, "the driver exited before its stop"
        finally:
            kill_tree(process.pid)
            process.wait()

    def logged(self, log: str) -> list[str]:
        """The batches in a log of Spark's checkpoint."""
        return sorted(file.name for file in (self.checkpoint / log).glob("[0-9]*"))


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(600)
class TestDriverKilled:
    @pytest.mark.long  # test_claim_reader.py::test_claims_that_spark_has_not_logged has no driver
    def test_before_the_offset_log(self, streams: Streams, conn: psycopg.Connection) -> None:
        """The claim exists, but Spark has not logged it. The next driver continues with it."""
        create(conn, ROWS)
        killed = Killed(streams.options, streams.folder, "claimed")
        assert killed.logged("offsets") == []
        assert one(conn, "SELECT COUNT(*) FROM claim") == ROWS
        await_end(streams.move())
        assert moved(conn) == EVERY_NUMBER
        assert done_by(conn) == {"etl": ROWS}
        assert one(conn, "SELECT MAX(attempts) FROM history") == 1, "no lease had to run out"
        check(conn)

    def test_between_the_commits_of_postgresql_and_spark(
        self, streams: Streams, conn: psycopg.Connection
    ) -> None:
        create(conn, ROWS)
        killed = Killed(streams.options, streams.folder, "committed")
        assert (killed.logged("offsets"), killed.logged("commits")) == (["0"], [])
        assert moved(conn) == EVERY_NUMBER
        assert completed(conn) == ROWS
        create(conn, 1, name="more")
        await_end(streams.move())
        assert moved(conn) == [0, *EVERY_NUMBER]
        assert done_by(conn) == {"etl": ROWS + 1}
        check(conn)

    @pytest.mark.long  # the test before kills the driver between the same commits
    def test_after_the_commit_of_another_sink(self, streams: Streams, conn: psycopg.Connection) -> None:
        """At least once: the same messages come again, with the same ids, and none is lost."""
        create(conn, ROWS)
        killed = Killed(streams.options, streams.folder, "written")
        assert (killed.logged("offsets"), killed.logged("commits")) == (["0"], [])
        written = [int(line) for line in (streams.folder / "sink").read_text(encoding="ascii").split()]
        assert completed(conn) == 0
        streams.run(checkpoint="moving")
        assert sorted(streams.ids()) == sorted(written)
        assert done_by(conn) == {"etl": ROWS}
        check(conn)


def restarted(server: Any, services: Services, then: Any) -> None:
    """Stop the server and start it again, maybe on another port."""
    old = server.port
    server.stop()
    then()
    server.start()
    text = services.path.read_text(encoding="utf-8")
    services.path.write_text(text.replace(f"port={old}\n", f"port={server.port}\n"), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_database_restarts_in_mid_stream(
    spark: SparkSession, services: Services, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    with clusters.cluster(pytestconfig.getoption("--pg")) as server:
        name = f"queue_{secrets.token_hex(4)}"
        create_database(server, name)
        with clusters.connect(server, name) as conn:
            install(conn, schema=SCHEMA)
            _queue_of(conn)
            create(conn, ROWS)
        options = {"service": services.add(server.dsn(name), name), "schema": SCHEMA}
        streams, stop = Streams(spark, options, tmp_path), Stop(tmp_path)
        try:
            query = streams.move(stop)
            stop.until_reached()
            restarted(server, services, stop.resume)
            await_end(query)
            with clusters.connect(server, name) as conn:
                assert moved(conn) == EVERY_NUMBER
                assert done_by(conn) == {"etl": ROWS}
                check(conn)
        finally:
            stop.resume()
            streams.stop()


def _queue_of(conn: psycopg.Connection) -> None:
    conn.execute("SELECT * FROM queue_set(p_history => TRUE)")
    conn.execute("SELECT channel_set('out', p_paused => TRUE)")
