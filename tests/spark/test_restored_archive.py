"""Archives whose database went back in time: they fail, and skip nothing, and there is a way to continue."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lonnymq.embedded import Server
from lonnymq.errors import PositionUnknown
from lonnymq.install import install
from lonnymq.spark.lake.archive import archive
from tests.database import create_database, unique_name
from tests.faults.clusters import SET_BACK, connect, folder, next_xid, raise_xids, set_back, started
from tests.spark.conftest import Services
from tests.spark.traffic import finish, kill

pytestmark = pytest.mark.slow


@pytest.fixture
def installed() -> Iterator[Path]:
    """The data folder of a stopped server that has a queue with a history."""
    with folder() as path:
        with started(path) as server:
            create_database(server, "queue")
            with connect(server, "queue") as conn:
                install(conn, schema="lonnymq")
                conn.execute("SELECT queue_set(p_history => TRUE)")
                finish(conn, "past", [b"x"] * 5)
        yield path


def ids(table: Path) -> list[int]:
    return sorted(DeltaTable(table).to_pyarrow_table(columns=["id"])["id"].to_pylist())


@pytest.mark.parametrize(
    ("kind", "follow"),
    [
        (SET_BACK[-1], True),
        *(pytest.param(kind, True, marks=pytest.mark.long) for kind in SET_BACK[:-1]),
        *(pytest.param(kind, False, marks=pytest.mark.long) for kind in SET_BACK),
    ],
)
def test_a_database_that_went_back_in_time_is_refused(
    installed: Path, spark: SparkSession, services: Services, tmp_path: Path, kind: str, *, follow: bool
) -> None:
    lake = tmp_path / "lake"

    def options(server: Server) -> dict[str, str]:
        return {"service": services.add(server.dsn("queue"), unique_name("server")), "schema": "lonnymq"}

    def lose(server: Server) -> None:
        with connect(server, "queue") as conn:
            archive(spark, str(lake), options(server), follow=follow)
            for _ in range(3):
                finish(conn, "lost", [b"x"] * 10)
            dead = kill(conn, "lost", [b"x"])
            archive(spark, str(lake), options(server), follow=follow)
            assert len(ids(lake / "history")) == 36
            assert ids(lake / "dead") == dead

    with set_back(installed, kind, lose) as server:
        with connect(server, "queue") as conn:
            finish(conn, "new", [b"y"] * 7)
            dead = kill(conn, "new", [b"y"])
            raise_xids(server, next_xid(server) + 1000)
            finish(conn, "new", [b"y"] * 7)
            there = [row[0] for row in conn.execute("SELECT id FROM history ORDER BY id")]
        reached = options(server)
        for table in ("history", "dead"):
            with pytest.raises(PositionUnknown, match="it went back to an earlier time") as refused:
                archive(spark, str(lake), reached, tables=[table], follow=follow)
            assert "another folder" in str(refused.value.hint)
        assert len(ids(lake / "history")) == 36
        other = tmp_path / "other"
        archive(spark, str(other), reached, follow=follow)
        assert (ids(other / "history"), ids(other / "dead")) == (there, dead)
        # Or into the same folder, restored to a version from before.
        DeltaTable(lake / "history").restore(1)
        DeltaTable(lake / "dead").restore(0)
        archive(spark, str(lake), reached, follow=follow)
        assert (ids(lake / "history"), ids(lake / "dead")) == (there, dead)
