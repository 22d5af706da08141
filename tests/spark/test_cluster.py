"""The formats on a cluster, whose executors are processes of their own on two hosts."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from deltalake import DeltaTable

from tests.spark.cluster import HOSTS, SETTINGS, Cluster
from tests.spark.driven import Driver, DriverFailed
from tests.spark.round_trip import drive
from tests.spark.traffic import finish

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(services: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


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


def test_our_code_is_sent_to_executors_that_do_not_have_it(
    cluster: Cluster, conn: psycopg.Connection, options: dict[str, str], tmp_path: Path
) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE, p_history_content => TRUE)")
    finish(conn, "a", [b"x"])
    python = python_without_us(tmp_path)
    arguments = {"master": cluster.url, **SETTINGS}
    with pytest.raises(AssertionError, match="Failed to find the data source: lonnymq"):
        drive(arguments, options, {"PYSPARK_PYTHON": str(python)})
    seen = drive({**arguments, "ship_code": True}, options, {"PYSPARK_PYTHON": str(python)})
    assert seen["waiting"] == list(range(40))
    assert seen["finished"] == ["x"]


def test_an_archive_in_a_folder_by_a_relative_path(
    cluster: Cluster, conn: psycopg.Connection, options: dict[str, str], tmp_path: Path
) -> None:
    """Executors have working folders of their own; and one that is not shared is found out."""
    conn.execute("SELECT queue_set(p_history => TRUE)")
    ids = finish(conn, "a", [b"x"] * 30)
    archived = tmp_path / "history"
    with Driver(cluster.url, **SETTINGS) as driver:
        with pytest.raises(DriverFailed, match=r"LakeNotShared: .*nothing was committed"):
            driver.run("archive", options=options, lake="/proc/self/cwd", folder=str(tmp_path))
        assert DeltaTable(archived).version() == 0, "the table was made, and has no commit"
        driver.run("archive", options=options, lake=".", folder=str(tmp_path))
    assert sorted(DeltaTable(archived).to_pyarrow_table()["id"].to_pylist()) == ids


def python_without_us(folder: Path) -> Path:
    """This Python with all that is installed, but without what is installed as a link, as we are."""
    packages = Path(psycopg.__file__).parents[1]
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec {sys.executable} -S "$@"\n', encoding="utf-8"
    )
    python.chmod(0o755)
    return python


def test_a_cluster_ends_with_all_that_it_started(tmp_path: Path) -> None:
    with Cluster(tmp_path, hosts=HOSTS[:1]) as running:
        started = running.processes()
        assert len(started) == 2
    assert running.processes() == {}
    shutil.rmtree(tmp_path)
