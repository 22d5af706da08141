"""The formats on a cluster, with executors on two hosts."""

import shutil
from pathlib import Path

import psycopg
import pytest
from deltalake import DeltaTable

from tests.spark.cluster import HOSTS, SETTINGS, Cluster
from tests.spark.driver_process import Driver, DriverFailed
from tests.spark.round_trip import drive
from tests.spark.traffic import finish

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.mark.long  # test_cluster_faults.py does the same with code that is sent
def test_source_and_sink_run_on_two_workers(
    cluster: Cluster, conn: psycopg.Connection, options: dict[str, str]
) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE, p_history_content => TRUE)")
    finish(conn, "a", [b"x", b"y", b"z"])
    seen = drive({"master": cluster.url, **SETTINGS}, options)
    assert seen["waiting"] == list(range(40))
    assert seen["finished"] == ["x", "y", "z"]
    assert seen["hosts"] == list(HOSTS)
    assert seen["stderr"] == ""


@pytest.mark.long  # tests/spark/test_cluster_faults.py archives on a cluster
def test_an_archive_in_a_folder_by_a_relative_path(
    cluster: Cluster, conn: psycopg.Connection, options: dict[str, str], tmp_path: Path
) -> None:
    """Executors have other working directories. A folder that is not shared is an error."""
    conn.execute("SELECT queue_set(p_history => TRUE)")
    ids = finish(conn, "a", [b"x"] * 30)
    archived = tmp_path / "history"
    with Driver(cluster.url, **SETTINGS) as driver:
        with pytest.raises(DriverFailed, match=r"LakeNotShared: .*nothing was committed"):
            driver.run("archive", options=options, lake="/proc/self/cwd", folder=str(tmp_path))
        assert DeltaTable(archived).version() == 0, "the table was created, and has no other commit"
        driver.run("archive", options=options, lake=".", folder=str(tmp_path))
    assert sorted(DeltaTable(archived).to_pyarrow_table()["id"].to_pylist()) == ids


@pytest.mark.long
def test_a_stopped_cluster_leaves_no_processes(tmp_path: Path) -> None:
    with Cluster(tmp_path, hosts=HOSTS[:1]) as running:
        started = running.processes()
        assert len(started) == 2
    assert running.processes() == {}
    shutil.rmtree(tmp_path)
