"""The archive of history and dead letters: each row is in the lake once, whenever it stops and starts."""

import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import psycopg
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from deltalake.schema import PrimitiveType
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lonnymq.errors import InvalidArgument, NotPermitted, PositionUnknown
from lonnymq.spark.changes.range_reader import RowsLost
from lonnymq.spark.lake import delta_table, lake_table
from lonnymq.spark.lake.archive import ArchiveProgress, HistoryNotKept, archive
from lonnymq.spark.lake.delta_table import DeltaLakeTable
from lonnymq.spark.lake.lake_table import LakeConflict, LakeUnsuitable, TableOptions
from lonnymq.spark.lake.parquet_files import arrow_schema
from lonnymq.spark.lake.read_lake import read
from tests.database import Connect
from tests.invariants import dequeue, dispatch
from tests.spark.traffic import complete, finish, kill, settle

OPENED = DeltaLakeTable.open
HISTORY_BEFORE_PAST_RUNS = (
    "xid BIGINT, id BIGINT, channel STRING, outcome STRING, created_at TIMESTAMP, dequeue_at BIGINT,"
    " first_dequeued_at TIMESTAMP, dequeued_at TIMESTAMP, finished_at TIMESTAMP, attempts INT,"
    " consumer STRING, error STRING, dedupe_key STRING, lane STRING, priority INT, cost INT, headers STRING,"
    " content_bytes INT, content BINARY"
)


@pytest.fixture(autouse=True)
def history(conn: psycopg.Connection) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE, p_history_content => TRUE)")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


def ids(folder: str, table: str = "history") -> list[int]:
    return sorted(DeltaTable(f"{folder}/{table}").to_pyarrow_table(columns=["id"])["id"].to_pylist())


def in_postgresql(conn: psycopg.Connection) -> list[int]:
    return [row[0] for row in conn.execute("SELECT id FROM history ORDER BY id")]


def test_everything_is_in_the_lake_once(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str
) -> None:
    finish(conn, "acme", [b"x"] * 30)
    dead = kill(conn, "zoë", [b"", bytes(2**20)])
    first = archive(spark, folder, options)
    added = {name: table.rows for name, table in first.tables.items()}
    assert added == {"history": 32, "dead": 2, "policies": 2, "waiting": 0}
    assert (ids(folder), ids(folder, "dead")) == (in_postgresql(conn), dead)
    again = archive(spark, folder, options)
    assert {table.rows for table in again.tables.values()} == {0}
    assert {table.commits for name, table in again.tables.items() if name != "waiting"} == {0}
    assert DeltaTable(f"{folder}/history").version() == 1  # created, and one commit
    finish(conn, "acme", [b"y"])
    archive(spark, folder, options)
    assert ids(folder) == in_postgresql(conn)


def written_by_an_older_version(conn: psycopg.Connection, uri: str) -> None:
    """A table with one row, as the release before past_runs wrote it."""
    [(system, xid)] = conn.execute(
        "SELECT system_id, pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT FROM history_bounds()"
    ).fetchall()
    older = StructType.fromDDL(HISTORY_BEFORE_PAST_RUNS)
    assert isinstance(older, StructType)
    schema = arrow_schema(older).append(pa.field("day", pa.date32()))
    row = dict.fromkeys(schema.names) | {"id": -1, "channel": "old", "day": datetime.now(UTC).date()}
    DeltaTable.create(
        uri,
        schema,
        partition_by=["day"],
        configuration={"lonnymq.source": f"cluster {system}, schema lonnymq, history"},
        raise_if_key_not_exists=False,
    )
    write_deltalake(
        uri,
        pa.Table.from_pylist([row], schema),
        mode="append",
        commit_properties=CommitProperties(
            custom_metadata={"lonnymq.upto_xid": str(xid)},
            app_transactions=[Transaction("lonnymq", xid), Transaction("lonnymq.mark", 0)],
        ),
    )


def test_a_table_of_another_version_goes_on(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str
) -> None:
    """A table of an older version gets the columns that it lacks. One of a newer version has columns that
    this version does not know, and does not fill.
    """
    uri = f"{folder}/history"
    finish(conn, "before", [b"x"])
    written_by_an_older_version(conn, uri)
    conn.execute("SELECT message_create('acme', 'x', p_lane => 'slow')")
    dispatch(conn)
    [tried] = dequeue(conn, 1, 60_000)[0]
    conn.execute("SELECT message_retry(%s, %s)", (tried.id, tried.token))
    complete(conn)
    DeltaTable(uri).alter.add_columns([Field("from_the_future", PrimitiveType("string"))])
    for rows in (1, 0):
        assert archive(spark, folder, options, tables=["history"]).tables["history"].rows == rows
        found = read(spark, folder, "history").selectExpr("channel", "size(past_runs)", "from_the_future")
        assert sorted(map(tuple, found.collect())) == [("acme", 1, None), ("old", None, None)]
        assert len(pl.read_delta(uri)) == 2
    assert DeltaTable(uri).version() == 5  # created, a commit, two times columns, its identity, a commit


@pytest.mark.parametrize("table_format", [pytest.param("delta", marks=pytest.mark.long), "iceberg"])
def test_policies_and_what_waits_are_archived(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str, table_format: str
) -> None:
    """A policy is a row for ever. What waits is replaced, and empty when nothing waits."""
    conn.execute("SELECT channel_set('acme', 3, p_weight => 2.5)")
    conn.execute("SELECT message_create('acme', 'x', p_lane => 'slow', p_priority => 7, p_cost => 3)")
    conn.execute("SELECT message_create('later', 'x', p_delay_ms => 3600000)")
    dispatch(conn)
    [leased] = dequeue(conn, 1, 60_000)[0]
    tables = ["policies", "waiting"]
    done = archive(spark, folder, options, tables=tables, table_format=table_format).tables
    assert (done["policies"].rows, done["waiting"].rows) == (3, 2)
    waiting = read(spark, folder, "waiting").orderBy("id").collect()
    assert [
        (row.channel, row.lane, row.priority, row.cost, row.attempts, row.dequeued_at is None)
        for row in waiting
    ] == [("acme", "slow", 7, 3, 1, False), ("later", "default", 0, 1, 0, True)]
    [taken_at] = {row.taken_at for row in waiting}
    assert abs(datetime.now() - taken_at) < timedelta(minutes=10)  # noqa: DTZ005 # as Spark returns them
    assert waiting[0].first_dequeued_at == waiting[0].dequeued_at
    [(follower, _)] = followers(conn)
    assert follower.startswith("archive policies ")

    conn.execute("SELECT channel_delete('acme', TRUE)")
    assert conn.execute("SELECT message_complete(%s, %s)", (leased.id, leased.token)).fetchone() == (
        "not_found",
    )
    conn.execute("SELECT message_cancel(id) FROM messages")
    settle(conn)
    done = archive(spark, folder, options, tables=tables).tables
    assert (done["policies"].rows, done["waiting"].rows, done["waiting"].commits) == (1, 0, 1)
    assert read(spark, folder, "waiting").count() == 0
    policies = read(spark, folder, "policies").orderBy("id").where("channel = 'acme'").collect()
    assert [(row.max_concurrency, row.weight, row.is_deleted) for row in policies] == [
        (3, 2.5, False),
        (None, 1.0, True),
    ]
    with pytest.raises(InvalidArgument, match="the lake has no table messages"):
        archive(spark, folder, options, tables=["messages"])


def test_many_commits_split_no_transaction(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str
) -> None:
    for size in (3, 1, 10, 2, 5):
        finish(conn, "acme", [b"x"] * size)
    reported: list[tuple[int, bool]] = []

    def report(progress: ArchiveProgress) -> None:
        reported.append((progress.tables["history"].rows, progress.is_caught_up))

    archive(spark, folder, options, tables=["history"], rows_per_commit=4, on_progress=report)
    assert reported == [(4, False), (14, False), (16, False), (21, False), (21, True)]
    assert ids(folder) == in_postgresql(conn)


def test_a_transaction_that_commits_late_is_not_skipped(
    spark: SparkSession, conn: psycopg.Connection, connect: Connect, options: dict[str, str], folder: str
) -> None:
    late = connect(autocommit=False)
    late.execute("SELECT message_create('late', 'x')")
    waiting = finish(conn, "acme", [b"x"] * 3, settles=False)
    held_back = archive(spark, folder, options, tables=["history"]).tables["history"]
    assert (held_back.rows, held_back.behind) == (0, 3)
    late.rollback()
    settle(conn)
    assert archive(spark, folder, options, tables=["history"]).tables["history"].rows == 3
    assert ids(folder) == waiting


def test_two_archives_at_once_write_nothing_twice(
    spark: SparkSession,
    conn: psycopg.Connection,
    options: dict[str, str],
    folder: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second one commits after the first one has read the position, and before it commits."""
    finish(conn, "acme", [b"x"] * 3)
    archive(spark, folder, options, tables=["history"])
    finish(conn, "acme", [b"y"] * 3)

    def overtaken(table: TableOptions) -> DeltaLakeTable:
        found = OPENED(table)
        monkeypatch.undo()
        archive(spark, folder, options, tables=["history"])
        return found

    monkeypatch.setattr(DeltaLakeTable, "open", overtaken)
    with pytest.raises(LakeConflict, match="another archive has committed"):
        archive(spark, folder, options, tables=["history"])
    assert ids(folder) == in_postgresql(conn)


def test_what_was_written_and_not_committed_is_not_there(
    spark: SparkSession,
    conn: psycopg.Connection,
    options: dict[str, str],
    folder: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when the driver is killed between the files and the commit."""
    finish(conn, "acme", [b"x"] * 3)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DeltaTable, "create_write_transaction", killed)
    with pytest.raises(KeyboardInterrupt):
        archive(spark, folder, options, tables=["history"])
    monkeypatch.undo()
    assert list(Path(folder, "history").glob("day=*/*.parquet"))
    assert ids(folder) == []
    archive(spark, folder, options, tables=["history"])
    assert ids(folder) == in_postgresql(conn)


def test_polars_and_duckdb_read_the_same_rows(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str
) -> None:
    conn.execute("SELECT message_create('zoë 🦉', '', p_headers => '{\"who\": \"ö\"}', p_dequeue_at => -7)")
    finish(conn, "acme", [b"x", bytes(range(256))])
    archive(spark, folder, options)
    uri = f"{folder}/history"
    with_spark = delta_table.read(spark, uri).drop("day").orderBy("id").toArrow().to_pylist()
    with_polars = pl.read_delta(uri).drop("day").sort("id").to_arrow().to_pylist()
    files = DeltaTable(uri).file_uris()
    with_duckdb = duckdb.read_parquet(files).order("id").to_arrow_table().to_pylist()
    straight = spark.read.format("lonnymq_history").options(**options, headersFormat="json").load()
    expected = straight.orderBy("id").toArrow().to_pylist()
    assert len(expected) == 3
    assert comparable(with_spark) == comparable(expected)
    assert comparable(with_polars) == comparable(expected)
    assert comparable(with_duckdb) == comparable(expected)
    [day] = {row["finished_at"].date() for row in with_polars}
    assert pl.read_delta(uri)["day"].to_list() == [day] * 3


def test_reading_some_days_reads_their_files_only(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str
) -> None:
    kept = finish(conn, "acme", [b"x"] * 3)
    for back, id_ in zip((2, 1), kept, strict=False):
        conn.execute(
            "UPDATE finished SET finished_at = finished_at - %s * 86400000::BIGINT WHERE id = %s", (back, id_)
        )
    [(last,)] = conn.execute("SELECT MAX(finished_at) FROM history").fetchall()
    archive(spark, folder, options, tables=["history"])
    today = datetime.fromtimestamp(last / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    yesterday = today - timedelta(days=1)
    for since, until, expected in [
        (None, None, kept),
        (yesterday, None, kept[1:]),
        (today - timedelta(microseconds=1), today, kept[1:2]),
        (None, yesterday, kept[:1]),
        (today + timedelta(days=1), None, []),
    ]:
        rows = read(spark, folder, "history", since=since, until=until)
        assert sorted(row.id for row in rows.collect()) == expected
        assert len(rows.inputFiles()) == len(expected)


def comparable(rows: list[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    """With times as timestamps, which have no time zone, and sorted columns."""
    return [
        sorted(
            (name, value.timestamp() if hasattr(value, "timestamp") else value) for name, value in row.items()
        )
        for row in rows
    ]


def test_retention_waits_for_the_lake(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str
) -> None:
    archive(spark, folder, options)
    finish(conn, "acme", [b"x"] * 3)
    age_history(conn)
    conn.execute("SELECT maintain()")
    assert len(in_postgresql(conn)) == 3
    archive(spark, folder, options)
    archive(spark, folder, options)
    conn.execute("SELECT maintain()")
    assert in_postgresql(conn) == []
    assert len(ids(folder)) == 3


def age_history(conn: psycopg.Connection) -> None:
    """Make all history look as if it had finished long ago."""
    conn.execute("UPDATE finished SET finished_at = finished_at - 90 * 86400000::BIGINT")


def test_a_login_that_may_not_register_a_follower(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str, observer: str
) -> None:
    finish(conn, "acme", [b"x"])
    with pytest.raises(NotPermitted, match="--no-follow"):
        archive(spark, folder, options | {"user": observer}, tables=["history"])
    done = archive(spark, folder, options | {"user": observer}, tables=["history"], follow=False)
    assert done.tables["history"].rows == 1


@pytest.fixture
def observer(conn: psycopg.Connection, dsn: str) -> Iterator[str]:
    """A login that may read the views and do nothing else."""
    known = psycopg.conninfo.conninfo_to_dict(dsn)
    name = f"reader_of_{known['dbname']}"
    conn.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{known.get('password', '')}'")
    conn.execute(f"GRANT USAGE ON SCHEMA lonnymq TO {name}")
    conn.execute(f"GRANT SELECT ON history, dead_letters TO {name}")
    functions = "history_bounds, history_mark, bound_channels, login_is_free, finished_visible, dead_visible"
    conn.execute(f"GRANT EXECUTE ON FUNCTION {functions} TO {name}")
    yield name
    conn.execute(f"DROP OWNED BY {name}")
    conn.execute(f"DROP ROLE {name}")


def test_a_queue_without_history_is_refused(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str
) -> None:
    conn.execute("SELECT queue_set(p_history => FALSE)")
    with pytest.raises(HistoryNotKept, match="lonnymq queue set --history"):
        archive(spark, folder, options)


def test_the_lake_of_another_queue_is_refused(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str
) -> None:
    finish(conn, "acme", [b"x"])
    archive(spark, folder, options, tables=["history"])
    table = DeltaTable(f"{folder}/history")
    table.alter.set_table_properties(
        {lake_table.SOURCE: "cluster 1, schema lonnymq, history"}, raise_if_not_exists=False
    )
    with pytest.raises(LakeUnsuitable, match="cluster 1") as refused:
        archive(spark, folder, options, tables=["history"])
    assert "another folder" in str(refused.value)


def test_a_database_restored_to_an_earlier_time_is_refused(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str
) -> None:
    finish(conn, "acme", [b"x"])
    archive(spark, folder, options, tables=["history"])
    table = DeltaTable(f"{folder}/history")
    later = CommitProperties(app_transactions=[Transaction(delta_table.POSITION, 10**12)])
    table.create_write_transaction(
        [], mode="append", schema=table.schema(), partition_by=[lake_table.DAY], commit_properties=later
    )
    with pytest.raises(PositionUnknown, match="goes up to transaction 1000000000000"):
        archive(spark, folder, options, tables=["history"])


def test_every_repeats_until_stopped(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str
) -> None:
    finish(conn, "acme", [b"x"])
    stop = threading.Event()
    rounds: list[int] = []

    def watch(progress: ArchiveProgress) -> None:
        if not progress.is_caught_up:
            return
        rounds.append(progress.tables["history"].rows)
        if len(rounds) == 1:
            finish(conn, "acme", [b"y"])
        else:
            stop.set()

    archive(spark, folder, options, tables=["history"], every=0.01, stop=stop, on_progress=watch)
    assert rounds == [1, 2]


def trim(conn: psycopg.Connection) -> None:
    """Drop all history that no follower still needs."""
    age_history(conn)
    conn.execute("SELECT maintain()")
    assert in_postgresql(conn) == []


def test_a_new_archive_begins_with_what_is_still_kept(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str
) -> None:
    finish(conn, "acme", [b"old"] * 3)
    trim(conn)
    finish(conn, "acme", [b"x"] * 3)
    [(oldest,)] = conn.execute("SELECT MIN(finished_at) FROM history").fetchall()
    done = archive(spark, folder, options, rows_per_commit=2).tables
    assert done["history"].rows == 3
    assert done["history"].begins_at is not None
    assert datetime.fromisoformat(done["history"].begins_at) == datetime.fromtimestamp(oldest / 1000, UTC)
    assert done["dead"].begins_at is None
    assert ids(folder) == in_postgresql(conn)
    finish(conn, "acme", [b"y"])
    again = archive(spark, folder, options).tables["history"]
    assert (again.rows, again.begins_at) == (1, None)


def test_an_archive_of_the_whole_history_has_no_begins_at(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str
) -> None:
    finish(conn, "acme", [b"x"])
    assert archive(spark, folder, options).tables["history"].begins_at is None


@pytest.mark.parametrize("is_more", [True, False], ids=["more has come", "nothing is left"])
def test_rows_that_were_dropped_after_the_position(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str, *, is_more: bool
) -> None:
    finish(conn, "acme", [b"x"])
    archive(spark, folder, options, tables=["history"], follow=False)
    finish(conn, "acme", [b"lost"])
    trim(conn)
    if is_more:
        finish(conn, "acme", [b"y"])
    with pytest.raises(RowsLost, match="are no longer kept"):
        archive(spark, folder, options, tables=["history"], follow=False)


def test_relative_paths_home_and_file_addresses(
    spark: SparkSession,
    conn: psycopg.Connection,
    options: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark's processes keep the working directory that Spark was started in."""
    finish(conn, "acme", [b"x"] * 3)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for place, rows in [("my lake", 3), ("~/my lake/", 0), ((tmp_path / "my lake").as_uri(), 0)]:
        done = archive(spark, place, options, tables=["history"])
        assert (done.lake, done.tables["history"].rows) == (str(tmp_path / "my lake"), rows)
        assert delta_table.read(spark, f"{place.rstrip('/')}/history").count() == 3
    assert len(followers(conn)) == 1


def followers(conn: psycopg.Connection) -> list[tuple[Any, ...]]:
    return conn.execute("SELECT name, snapshot FROM history_followers()").fetchall()


@pytest.mark.parametrize("place", ["", " ", "file://elsewhere/lake"])
def test_invalid_folders(spark: SparkSession, options: dict[str, str], place: str) -> None:
    with pytest.raises(InvalidArgument):
        archive(spark, place, options)


def test_the_archive_continues_from_a_restored_version(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str
) -> None:
    """Delta itself keeps the position of the version before the restore."""
    for _ in range(3):
        finish(conn, "acme", [b"x"] * 2)
        archive(spark, folder, options, tables=["history"])
    table = DeltaTable(f"{folder}/history")
    table.restore(1)
    assert len(ids(folder)) == 2
    table.optimize.compact()
    assert archive(spark, folder, options, tables=["history"]).tables["history"].rows == 4
    assert ids(folder) == in_postgresql(conn)
    assert archive(spark, folder, options, tables=["history"]).tables["history"].rows == 0


def test_a_deleted_folder_is_filled_again(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], folder: str
) -> None:
    """And PostgreSQL keeps the rows that it lacks meanwhile."""
    finish(conn, "acme", [b"x"])
    finish(conn, "acme", [b"y"])
    archive(spark, folder, options, tables=["history"])
    shutil.rmtree(folder)
    stop = threading.Event()
    archive(
        spark,
        folder,
        options,
        tables=["history"],
        rows_per_commit=1,
        stop=stop,
        on_progress=lambda _: stop.set(),
    )
    assert len(ids(folder)) == 1
    age_history(conn)
    conn.execute("SELECT maintain()")
    assert len(in_postgresql(conn)) == 2


def test_folders_with_long_names_have_different_followers(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], tmp_path: Path
) -> None:
    finish(conn, "acme", [b"x"])
    for one in "ab":
        deep = tmp_path / one / ("ö" * 60) / ("ö" * 60) / ("ö" * 60)
        assert archive(spark, str(deep), options, tables=["history"]).tables["history"].rows == 1
    assert len(followers(conn)) == 2
