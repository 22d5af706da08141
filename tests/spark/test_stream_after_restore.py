"""A Spark stream with a checkpoint, whose database went back in time while the stream was down."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from lonnymq.embedded import Server
from lonnymq.errors import PositionUnknown
from lonnymq.install import install
from lonnymq.spark.unwrap_errors import unwrap_spark_errors
from tests.database import create_database, unique_name
from tests.faults.clusters import SET_BACK, connect, folder, next_xid, raise_xids, set_back, started
from tests.spark.change_rows import finish, run
from tests.spark.conftest import Services

pytestmark = pytest.mark.slow


def test_a_stream_whose_database_went_back_in_time(
    spark: SparkSession, services: Services, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"

    def stream(server: Server) -> DataFrame:
        name = services.add(server.dsn("queue"), unique_name("server"))
        return spark.readStream.format("lonnymq_history").options(service=name, schema="lonnymq").load()

    def lose(server: Server) -> None:
        [first] = run(stream(server), checkpoint)
        with connect(server, "queue") as conn:
            finish(conn, 2, 9)
        [second] = run(stream(server), checkpoint)
        assert [len(first), len(second)] == [1, 8]

    with folder() as path:
        with started(path) as server:
            create_database(server, "queue")
            with connect(server, "queue") as conn:
                install(conn, schema="lonnymq")
                finish(conn, 1)
        with set_back(path, SET_BACK[0], lose) as server:
            with connect(server, "queue") as conn:
                finish(conn, 100, 110)
            raise_xids(server, next_xid(server) + 1000)
            with (
                pytest.raises(PositionUnknown, match="it went back to an earlier time"),
                unwrap_spark_errors(),
            ):
                run(stream(server), checkpoint)
            [anew] = run(stream(server), tmp_path / "another checkpoint")
            assert sorted(row[1] for row in anew) == [1, *range(100, 111)]
