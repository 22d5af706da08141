"""Writing DataFrames and streams into the queue: what arrives, what is refused, what is done only once."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from lonnymq import Queue
from lonnymq.errors import LonnyMQError
from lonnymq.install import install, uninstall
from lonnymq.spark.queue_source import QueueSource
from lonnymq.spark.sink.publish import StagingLost
from lonnymq.spark.sink.staging import Staged
from lonnymq.spark.sink.writer import StreamWriter
from lonnymq.spark.source_options import InvalidOption
from tests.database import unique_name
from tests.invariants import check
from tests.spark.conftest import Services
from tests.spark.outside_faults import until
from tests.spark.sink_calls import Options, count, count_staged, counts, messages, run, write

PLAIN = "channel string, content binary"
NOTHING = (0, 0, 0)
MIB = 1 << 20


@pytest.fixture
def two(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("acme", b"one"), ("acme", b"two")], PLAIN).coalesce(1)


@pytest.fixture
def in_zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """Set Spark's time zone to the parameter of the test."""
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


def test_rows_arrive_in_their_order(two: DataFrame, options: Options, conn: psycopg.Connection) -> None:
    write(two, options)
    assert messages(conn) == [("acme", b"one"), ("acme", b"two")]
    assert counts(conn) == (2, 0, 1)
    check(conn)


def test_partitions_arrive_in_their_order(
    spark: SparkSession, options: Options, conn: psycopg.Connection
) -> None:
    rows = spark.range(0, 25_000, 1, 5).select(f.col("id").cast("string").alias("content"))
    write(rows, options, channel="é")
    assert messages(conn) == [("é", b"%d" % n) for n in range(25_000)]


def test_every_kind_of_content(spark: SparkSession, options: Options, dsn: str) -> None:
    values: dict[str, Column] = {
        "b": f.encode(f.lit("é"), "UTF-8"),
        "s": f.lit("é"),
        "o": f.struct(f.lit(7).alias("id"), f.lit("é").alias("who")),
        "m": f.create_map(f.lit("k"), f.lit(1.5)),
        "a": f.array(f.lit(1), f.lit(None)),
    }
    for channel, value in values.items():
        write(spark.range(1).select(f.lit(channel).alias("channel"), value.alias("content")), options)
    with Queue(dsn) as queue:
        found = {delivery.channel: delivery.payload for delivery in queue.dequeue(10)}
    assert found == {
        "b": "é".encode(),
        "s": "é".encode(),
        "o": {"id": 7, "who": "é"},
        "m": {"k": 1.5},
        "a": [1, None],
    }


def test_round_trip(spark: SparkSession, options: Options, conn: psycopg.Connection) -> None:
    """Contents that are empty, of all bytes, or 1 MiB long; channels in several alphabets; with and without
    headers.
    """
    rows = [
        ("a", b"", None),
        ("東京 🚀", bytes(range(256)), {}),
        ("'\"\\;--", b"x" * MIB, {"ключ": "'\"\\\n"}),
    ]
    conn.execute("SELECT queue_set(p_content_max_bytes => %s)", (MIB,))
    schema = f"{PLAIN}, headers map<string, string>"
    write(spark.createDataFrame(rows, schema).coalesce(1), options)
    assert messages(conn, "channel, content, headers") == rows
    assert spark.read.format("lonnymq").options(**options).load().count() == 3
    check(conn)


@pytest.mark.parametrize("in_zone", ["UTC", "America/New_York", "Asia/Kathmandu"], indirect=True)
def test_times(spark: SparkSession, options: Options, conn: psycopg.Connection, in_zone: str) -> None:
    """The same instant in any time zone of Spark, in summer and winter."""
    moments = [datetime(2030, month, 1, 12, 30, 0, 123_000, UTC) for month in (1, 7)]
    rows = spark.createDataFrame([(b"x", moment) for moment in moments], "content binary, run_at timestamp")
    nested = f.struct(f.col("run_at").alias("at"))
    write(rows.coalesce(1).withColumn("content", nested), options, channel="a")
    ms = [int(moment.timestamp() * 1000) for moment in moments]
    texts = [{"at": f"2030-{month}-01T12:30:00.123000Z"} for month in ("01", "07")]
    found = messages(conn, "dequeue_at, content")
    assert [(at, json.loads(content)) for at, content in found] == list(zip(ms, texts, strict=True))


def test_all_columns(spark: SparkSession, options: Options, conn: psycopg.Connection) -> None:
    rows = spark.createDataFrame(
        [
            ("a", "1", 5, 1_234, "k1", 7, '{"n": 1}', "slow", 3, "running", 1.5),
            ("a", "2", None, -1, None, None, None, None, None, None, None),
            ("a", "3", None, None, None, None, "{}", None, None, None, None),
        ],
        "channel string, content string, priority int, dequeue_at long, dedupe_key string, max_attempts int, "
        "headers string, lane string, cost int, unique_while string, unique_for double",
    )
    write(rows.coalesce(1), options, contentType="text/plain")
    found = messages(
        conn,
        "dequeue_at, dedupe_key, max_attempts, headers, lane, priority, cost, unique_for_ms, created_at",
    )
    created_at = found[0][-1]
    typed = {"content-type": "text/plain"}
    assert [row[:-1] for row in found] == [
        (1_234, "k1", 7, {"n": 1, **typed}, "slow", 5, 3, 1500),
        (-1, None, None, typed, "default", 0, 1, None),
        (created_at, None, None, typed, "default", 0, 1, None),
    ]
    check(conn)


@pytest.mark.parametrize("more", [{}, {"txnAppId": "a", "txnVersion": "1"}])
def test_no_rows(
    spark: SparkSession, options: Options, conn: psycopg.Connection, more: dict[str, str]
) -> None:
    empty = spark.createDataFrame([], PLAIN)
    none_at_all = spark.createDataFrame(spark.sparkContext.emptyRDD(), PLAIN)
    assert none_at_all.rdd.getNumPartitions() == 0
    for rows in (empty, none_at_all, empty.repartition(3)):
        write(rows, options, **more)
    assert counts(conn)[:2] == (0, 0)


def test_some_partitions_are_empty(spark: SparkSession, options: Options, conn: psycopg.Connection) -> None:
    rows = spark.range(0, 4, 1, 4).where("id = 2").select(f.lit(b"x").alias("content"))
    write(rows, options, channel="a")
    assert counts(conn)[:2] == (1, 0)


def refused(rows: DataFrame, options: Options, **more: str) -> str:
    with pytest.raises(PySparkException) as raised:
        write(rows, options, **more)
    return str(raised.value)


class TestRefusals:
    """test_contents has more refused columns and rows."""

    @pytest.mark.parametrize(
        ("columns", "more", "said"),
        [
            ("'a' AS channel", {}, "no column 'content'"),
            ("'x' AS content", {}, "no column 'channel'"),
            ("'a' AS channel, 'x' AS content, 1 AS colour", {}, "the column 'colour' is not known"),
            ("'a' AS channel, 1 AS content", {}, "'content' is int, not binary"),
            ("'a' AS channel, 'x' AS content", {"kanal": "a"}, "there is no option kanal"),
            ("'a' AS channel, 'x' AS content", {"txnAppId": "a"}, "only one of txnAppId and txnVersion"),
            ("'a' AS channel, 'x' AS content", {"txnVersion": "1"}, "only one of txnAppId and txnVersion"),
            ("'x' AS content", {"channel": "a", "txnAppId": "", "txnVersion": "1"}, "txnAppId is 0 bytes"),
            ("'x' AS content", {"channel": "a", "complete": "true"}, "needs the column 'claim'"),
            ("'x' AS content", {"channel": "a", "onFull": "wait"}, "give fail or drop"),
            (
                "'x' AS content, named_struct('consumer', 'c', 'seq', 1L, 'generation', 1L) AS claim",
                {"channel": "a", "complete": "true", "onFull": "drop"},
                "onFull=drop cannot be used with complete",
            ),
            ("'x' AS content", {"channel": "a", "password": "x"}, "password must not be an option"),
        ],
    )
    def test_columns_and_options(
        self,
        spark: SparkSession,
        options: Options,
        columns: str,
        more: dict[str, str],
        said: str,
    ) -> None:
        """The driver refuses them when it makes the writer."""
        lowered = {name.lower(): value for name, value in (options | more).items()}
        with pytest.raises(LonnyMQError) as raised:
            QueueSource(lowered).writer(spark.sql(f"SELECT {columns}").schema, overwrite=False)
        assert said in str(raised.value)

    def test_nothing_runs(self, spark: SparkSession, options: Options, conn: psycopg.Connection) -> None:
        """They are refused before anything runs: the rows are not even computed."""
        rows = spark.sql("SELECT 'a' AS channel, 1 AS content WHERE raise_error('it runs') IS NULL")
        assert "'content' is int, not binary" in refused(rows, options)
        assert counts(conn) == NOTHING

    @pytest.mark.cases(1)
    @pytest.mark.parametrize(
        ("row", "said"),
        [
            ("CAST(NULL AS STRING) AS channel, 'x' AS content", "a channel needs a name: row 51"),
            ("'a' AS channel, CAST(NULL AS STRING) AS content", "a message needs content: row 51"),
            ("'a' AS channel, repeat('x', 1048577) AS content", "the content is 1048577 bytes long: row 51"),
            (
                "'a' AS channel, 'x' AS content, '[]' AS headers",
                "the headers are not valid, they are of type list",
            ),
            ("'a' AS channel, 'x' AS content, 101 AS priority", "priority is out of range: row 51"),
        ],
    )
    def test_rows(
        self, spark: SparkSession, options: Options, conn: psycopg.Connection, row: str, said: str
    ) -> None:
        """The other rows and partitions are not published either, and nothing stays in staging."""
        conn.execute("SELECT queue_set(p_content_max_bytes => %s)", (MIB,))
        bad = spark.sql(f"SELECT {row}")
        good = bad.select(
            *[
                f.lit({"channel": "a", "content": "x"}.get(name)).cast(kind).alias(name)
                for name, kind in bad.dtypes
            ]
        )
        many = spark.range(0, 100, 1, 2).crossJoin(f.broadcast(good)).drop("id")
        half = spark.range(0, 50, 1, 2).crossJoin(f.broadcast(good)).drop("id")
        rows = many.union(half.union(bad).coalesce(1))
        assert rows.rdd.getNumPartitions() == 3
        found = refused(rows, options)
        assert said in found
        assert "channel " in found
        assert "xxx" not in found
        assert counts(conn) == NOTHING

    def test_overwriting(self, two: DataFrame, options: Options, conn: psycopg.Connection) -> None:
        def save(mode: str) -> None:
            two.write.format("lonnymq").options(**options).mode(mode).save()

        for mode, said in (
            ("overwrite", "a queue cannot be overwritten"),
            ("error", "cannot be written in the"),
            ("ignore", "cannot be written in the"),
        ):
            with pytest.raises(PySparkException, match=said):
                save(mode)
        assert counts(conn) == NOTHING

    def test_no_queue_there(self, two: DataFrame, options: Options, conn: psycopg.Connection) -> None:
        found = refused(two, options | {"schema": "elsewhere"})
        assert "SchemaMissing" in found
        assert "lonnymq install" in found
        assert counts(conn) == NOTHING

    def test_by_the_database(self, two: DataFrame, options: Options, conn: psycopg.Connection) -> None:
        """Some limits only the database knows: here one that is lowered between staging and publishing."""
        conn.execute(
            "CREATE FUNCTION lower_it () RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN "
            "PERFORM lonnymq.queue_set(p_content_max_bytes => 2); RETURN NULL; END $$"
        )
        conn.execute("CREATE TRIGGER lower_it AFTER INSERT ON staging_chunk EXECUTE FUNCTION lower_it()")
        assert "the content is 3 bytes long (the row with ord 0)" in refused(two, options)
        assert counts(conn) == NOTHING

    def test_too_many_dedupe_keys(
        self, spark: SparkSession, options: Options, conn: psycopg.Connection
    ) -> None:
        rows = spark.range(0, 100_001, 1, 2).selectExpr("'x' AS content", "CAST(id AS STRING) AS dedupe_key")
        found = refused(rows, options, channel="a")
        assert "write at most 100,000 rows, or 512 MiB, at once" in found
        assert counts(conn) == NOTHING

    def test_executors_that_log_in_as_another_role(
        self, two: DataFrame, options: Options, conn: psycopg.Connection
    ) -> None:
        """The driver does not find the rows that they staged."""
        conn.execute(
            "CREATE FUNCTION other () RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN "
            "NEW.staged_by := 'pg_monitor'; RETURN NEW; END $$"
        )
        conn.execute(
            "CREATE TRIGGER other BEFORE INSERT ON staging_chunk FOR EACH ROW EXECUTE FUNCTION other()"
        )
        assert "executors staged 2 rows, but the driver found 0" in refused(two, options)
        assert counts(conn) == (0, 2, 0), "the staged rows belong to the other role"


class TestOnce:
    def test_a_version_is_written_once(
        self, spark: SparkSession, options: Options, conn: psycopg.Connection
    ) -> None:
        def job(app: str, version: int) -> int:
            rows = spark.range(2).select(f.lit(f"{app} {version}").alias("content"))
            before = count(conn)
            write(rows, options, channel="a", txnAppId=app, txnVersion=str(version))
            return count(conn) - before

        assert job("a", 3) == 2
        assert job("a", 3) == 0
        assert job("a", 2) == 0, "an older version"
        assert job("b", 3) == 2
        assert job("a", 4) == 2
        assert counts(conn) == (6, 0, 2)

    def test_without_a_version_every_job_writes(
        self, two: DataFrame, options: Options, conn: psycopg.Connection
    ) -> None:
        write(two, options)
        write(two, options)
        assert counts(conn) == (4, 0, 2)

    def test_a_refused_version_may_come_again(
        self, spark: SparkSession, options: Options, conn: psycopg.Connection
    ) -> None:
        again = {"channel": "a", "txnAppId": "a", "txnVersion": "0"}
        assert "a message needs content" in refused(
            spark.range(1).selectExpr("CAST(NULL AS STRING) AS content"), options, **again
        )
        write(spark.range(1).selectExpr("'x' AS content"), options, **again)
        assert counts(conn) == (1, 0, 1)


@pytest.fixture
def warnings(spark: SparkSession) -> Iterator[Callable[[], list[str]]]:
    """The warnings that Spark's processes have logged since; they arrive a moment later."""
    spark.conf.set("spark.sql.pyspark.worker.logging.enabled", "true")

    def all_of_them() -> Counter[str]:
        logged = spark.tvf.python_worker_logs().where("level = 'WARNING'").collect()
        return Counter(row.msg for row in logged)

    before = all_of_them()

    def since() -> list[str]:
        until(lambda: all_of_them() - before, "a warning")
        return list((all_of_them() - before).elements())

    yield since
    spark.conf.unset("spark.sql.pyspark.worker.logging.enabled")


class TestWarnings:
    def test_duplicates(
        self,
        spark: SparkSession,
        options: Options,
        conn: psycopg.Connection,
        warnings: Callable[[], list[str]],
    ) -> None:
        rows = spark.range(0, 30, 1, 3).selectExpr("'x' AS content", "CAST(id % 10 AS STRING) AS dedupe_key")
        write(rows, options, channel="a")
        assert counts(conn) == (10, 0, 1)
        assert warnings() == [
            "10 messages were created, 20 were duplicates, 0 were dropped because their channels are full"
        ]
        check(conn)

    def test_full_channels(
        self,
        spark: SparkSession,
        options: Options,
        conn: psycopg.Connection,
        warnings: Callable[[], list[str]],
    ) -> None:
        conn.execute("SELECT channel_set('a', p_max_size => 7)")
        rows = spark.range(10).selectExpr("'x' AS content", "IF(id < 9, 'a', 'b') AS channel")
        write(rows, options, onFull="drop")
        assert counts(conn) == (8, 0, 1)
        assert warnings() == [
            "8 messages were created, 0 were duplicates, 2 were dropped because their channels are full"
        ]
        check(conn)

    def test_a_full_channel_refuses_the_whole_write(
        self, spark: SparkSession, options: Options, conn: psycopg.Connection
    ) -> None:
        conn.execute("SELECT channel_set('a', p_max_size => 7)")
        rows = spark.range(0, 10, 1, 3).selectExpr("'x' AS content", "IF(id < 9, 'a', 'b') AS channel")
        once = {"txnAppId": "job", "txnVersion": "1"}
        with pytest.raises(PySparkException, match="channel 'a' is full") as refused:
            write(rows, options, **once)
        assert "ChannelFull" in str(refused.value)
        assert "2 of 10 messages do not fit" in str(refused.value)
        assert "onFull=drop" in str(refused.value)
        assert counts(conn) == (0, 0, 0)
        conn.execute("SELECT channel_set('a', p_max_size => 9)")
        write(rows, options, **once)
        assert counts(conn) == (10, 0, 1)
        check(conn)

    def test_a_repeated_version(
        self, two: DataFrame, options: Options, warnings: Callable[[], list[str]]
    ) -> None:
        write(two, options, txnAppId="job", txnVersion="1")
        write(two, options, txnAppId="job", txnVersion="1")
        assert warnings() == ["nothing was written: job had already published version 1 or later"]


def test_the_producer_role_is_enough(
    two: DataFrame, conn: psycopg.Connection, dsn: str, services: Services
) -> None:
    name = unique_name("spark")
    install(conn, name, roles=True)
    conn.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{name}' IN ROLE {name}_producer".encode())
    try:
        service = services.add(make_conninfo(dsn, user=name, password=name), name)
        write(two, {"service": service, "schema": name})
        assert (count(conn, f"{name}.message"), count_staged(conn, name)) == (2, 0)
        rows = two.sparkSession.read.format("lonnymq").options(service=service, schema=name).load()
        with pytest.raises(PySparkException, match=f'NotPermitted: .*GRANT "{name}_observer" TO "{name}";'):
            rows.count()
        conn.execute(f"REVOKE {name}_producer FROM {name}; GRANT {name}_consumer TO {name}".encode())
        with pytest.raises(PySparkException, match=f'NotPermitted: .*GRANT "{name}_producer" TO "{name}";'):
            write(two, {"service": service, "schema": name})
    finally:
        conn.execute(f"DROP ROLE {name}".encode())
        uninstall(conn, name)


class TestStreams:
    @pytest.fixture
    def files(self, tmp_path: Path) -> Path:
        """A folder that a stream reads, one file per batch."""
        folder = tmp_path / "files"
        folder.mkdir()
        return folder

    @pytest.fixture
    def stream(self, spark: SparkSession, files: Path) -> DataFrame:
        lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(files))
        return lines.select(f.col("value").alias("content"))

    def test_batches(
        self, stream: DataFrame, files: Path, options: Options, conn: psycopg.Connection, tmp_path: Path
    ) -> None:
        for name in ("one", "two"):
            (files / name).write_text(f"{name}\n")
        query = run(stream, options, tmp_path / "checkpoint", channel="a")
        assert sorted(messages(conn)) == [("a", b"one"), ("a", b"two")]
        found = conn.execute("SELECT app, version, is_lasting FROM ledger").fetchall()
        assert found == [(str(query.id), 1, True)]
        assert count_staged(conn) == 0

    def test_a_batch_that_is_replayed(
        self, stream: DataFrame, files: Path, options: Options, conn: psycopg.Connection, tmp_path: Path
    ) -> None:
        """Spark has not logged the commit of the last batch, so it comes again with the same number."""
        checkpoint = tmp_path / "checkpoint"
        for number in range(2):
            (files / str(number)).write_text(f"{number}\n")
            run(stream, options, checkpoint, channel="a", txnAppId="files")
            last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
            last.unlink()
            last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
        query = run(stream, options, checkpoint, channel="a", txnAppId="files")
        assert sorted(messages(conn)) == [("a", b"0"), ("a", b"1")]
        assert conn.execute("SELECT app, version FROM ledger").fetchall() == [(f"files {query.id}", 1)]
        assert count_staged(conn) == 0

    def test_a_stream_waits_for_room(
        self, stream: DataFrame, files: Path, options: Options, conn: psycopg.Connection, tmp_path: Path
    ) -> None:
        conn.execute("SELECT channel_set('a', p_max_size => 1)")
        (files / "one").write_text("1\n2\n")
        checkpoint = tmp_path / "checkpoint"
        with pytest.raises(PySparkException, match="ChannelFull: channel 'a' is full"):
            run(stream, options, checkpoint, channel="a")
        assert counts(conn) == NOTHING
        conn.execute("SELECT channel_set('a', p_max_size => 2)")
        run(stream, options, checkpoint, channel="a")
        assert sorted(messages(conn)) == [("a", b"1"), ("a", b"2")]
        check(conn)

    def test_a_stream_that_drops(
        self, stream: DataFrame, files: Path, options: Options, conn: psycopg.Connection, tmp_path: Path
    ) -> None:
        conn.execute("SELECT channel_set('a', p_max_size => 1)")
        (files / "one").write_text("1\n2\n")
        run(stream, options, tmp_path / "checkpoint", channel="a", onFull="drop")
        assert conn.execute("SELECT created, refused FROM ledger").fetchall() == [(1, 1)]

    def test_rows_of_an_unknown_stream(self, options: Options, conn: psycopg.Connection) -> None:
        """They must not be skipped silently."""
        schema = StructType([StructField("content", StringType()), StructField("channel", StringType())])
        writer = StreamWriter(options, schema, overwrite=False)
        with pytest.raises(StagingLost, match="did not report which stream"):
            writer.commit([Staged(None, uuid4(), 3)], 0)
        writer.commit([Staged(None), None], 0)
        assert counts(conn) == NOTHING

    def test_a_new_checkpoint_is_a_new_stream(
        self, stream: DataFrame, files: Path, options: Options, conn: psycopg.Connection, tmp_path: Path
    ) -> None:
        """Without the old checkpoint, everything is written again."""
        (files / "one").write_text("one\n")
        for checkpoint in ("a", "b"):
            run(stream, options, tmp_path / checkpoint, channel="a", txnAppId="files")
        assert counts(conn) == (2, 0, 2)

    def test_a_missing_column(
        self, stream: DataFrame, files: Path, options: Options, conn: psycopg.Connection, tmp_path: Path
    ) -> None:
        (files / "one").write_text("one\n")
        with pytest.raises(PySparkException, match="no column 'channel'"):
            run(stream, options, tmp_path / "checkpoint")
        assert counts(conn) == NOTHING

    def test_a_version(self, stream: DataFrame, options: Options) -> None:
        with pytest.raises(InvalidOption, match="a stream takes no txnVersion"):
            StreamWriter(options | {"txnVersion": "1"}, stream.schema, overwrite=False)

    def test_complete_mode_would_overwrite(
        self, stream: DataFrame, files: Path, options: Options, conn: psycopg.Connection, tmp_path: Path
    ) -> None:
        (files / "one").write_text("one\n")
        counted = stream.groupBy("content").count().select("content")
        writer = counted.writeStream.format("lonnymq").options(**options).outputMode("complete")
        with pytest.raises(PySparkException, match="a queue cannot be overwritten"):
            writer.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination(120)
        assert counts(conn) == NOTHING

    def test_a_bad_row_stops_it_and_leaves_nothing(
        self, stream: DataFrame, files: Path, options: Options, conn: psycopg.Connection, tmp_path: Path
    ) -> None:
        (files / "one").write_text("fine\n")
        (files / "two").write_text("\n" * 3)
        rows = stream.select(
            f.lit("a").alias("channel"), f.nullif(f.col("content"), f.lit("")).alias("content")
        )
        with pytest.raises(
            PySparkException, match="a message needs content: row 1 of its partition, channel 'a'"
        ):
            run(rows, options, tmp_path / "checkpoint")
        assert counts(conn)[:2] in {(0, 0), (1, 0)}, "the good file may have been the batch before"


class TestCompleting:
    """Rows of the consuming stream with their claim: publishing them also completes the messages."""

    @pytest.fixture
    def claimed(self, spark: SparkSession, conn: psycopg.Connection) -> DataFrame:
        conn.execute("SELECT message_create('in', 'x') FROM generate_series(1, 3)")
        conn.execute("SELECT dispatch()")
        [(generation,)] = conn.execute("SELECT generation FROM claim_open('spark')").fetchall()
        assert conn.execute(
            "SELECT seq, messages FROM claim_next('spark', %s, 0, 10, 60000)", (generation,)
        ).fetchall() == [(1, 3)]
        return spark.range(3).selectExpr(
            "'out' AS channel",
            "'y' AS content",
            f"named_struct('consumer', 'spark', 'seq', 1L, 'generation', {generation}L) AS claim",
        )

    def test_both_or_neither(self, claimed: DataFrame, options: Options, conn: psycopg.Connection) -> None:
        write(claimed, options, complete="true", txnAppId="a", txnVersion="0")
        assert messages(conn) == [("out", b"y")] * 3
        write(claimed, options, complete="true", txnAppId="a", txnVersion="0")
        assert messages(conn) == [("out", b"y")] * 3, "repeating it is not an error"
        check(conn)

    def test_a_lost_lease(self, claimed: DataFrame, options: Options, conn: psycopg.Connection) -> None:
        """One message has lost its lease: nothing is published or completed."""
        conn.execute("SELECT message_retry((stubs[1]).id, token) FROM lease")
        assert "1 message of claim 1 is no longer held" in refused(claimed, options, complete="true")
        assert messages(conn, "channel") == [("in",)] * 3
        assert counts(conn) == (3, 0, 0)

    def test_a_second_driver(self, claimed: DataFrame, options: Options, conn: psycopg.Connection) -> None:
        conn.execute("SELECT claim_open('spark')")
        assert "ClaimantTaken" in refused(claimed, options, complete="true")
        assert counts(conn) == (3, 0, 0)
