"""The example of a declarative pipeline, run by spark-pipelines."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pyarrow.dataset as ds
import pytest

from lonnymq.spark.sessions.launch import java_environment
from lonnymq.spark.sessions.spark_session import NEEDED_BY_CONNECT, is_installed
from tests.examples.page import CHECKOUT
from tests.spark import quick_java
from tests.spark.traffic import finish, kill

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(is_installed(module) for module in (*NEEDED_BY_CONNECT, "yaml")),
        reason="needs the packages of spark-pipelines: pip install 'pyspark[pipelines]'",
    ),
]
STORAGE = "file:///tmp/lonnymq-orders"
LASTING = ("--conf", "spark.sql.catalogImplementation=hive")
"""A catalog that the second run finds again. The first run starts more quickly without it."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    copy = shutil.copytree(CHECKOUT / "examples/pipeline", tmp_path / "project")
    spec = copy / "spark-pipeline.yml"
    text = spec.read_text(encoding="utf-8")
    assert STORAGE in text
    spec.write_text(text.replace(STORAGE, f"file://{tmp_path}/storage"), encoding="utf-8")
    return copy


def run(project: Path, dsn: str, quick: dict[str, str], *arguments: str) -> None:
    with java_environment("local[2]"):
        python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        done = subprocess.run(
            [Path(sys.executable).with_name("spark-pipelines"), "run", *arguments],
            cwd=project,
            env={**os.environ, **python, **quick, "LONNYMQ_DSN": dsn},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Run is COMPLETED" in done.stdout


def told(conn: psycopg.Connection) -> list[tuple[str, str]]:
    """The channels and errors of the dead letters that support was told of."""
    rows = conn.execute("SELECT content FROM message WHERE channel = 'support' ORDER BY id").fetchall()
    return [
        (failure["channel"], failure["error"]) for failure in (json.loads(content) for (content,) in rows)
    ]


def in_table(project: Path) -> list[str]:
    table = ds.dataset(project / "spark-warehouse/finished", format="parquet", exclude_invalid_files=True)
    return sorted(table.to_table(columns=["channel"])["channel"].to_pylist())


@pytest.mark.parametrize("is_run_again", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_example(
    conn: psycopg.Connection, dsn: str, project: Path, tmp_path: Path, *, is_run_again: bool
) -> None:
    quick = quick_java.interpreted(tmp_path)
    conn.execute("SELECT queue_set(p_history => TRUE)")
    finish(conn, "acme", [b"one", b"two"])
    kill(conn, "doomed", [b"three"])
    arguments = LASTING if is_run_again else ()
    run(project, dsn, quick, *arguments)
    [first] = told(conn)
    assert first[0] == "doomed"
    assert in_table(project) == ["acme", "acme", "doomed"]
    if is_run_again:
        kill(conn, "also doomed", [b"four"])
        run(project, dsn, quick, *arguments)
        assert [channel for channel, _ in told(conn)] == ["doomed", "also doomed"], "each of them once"
        assert in_table(project) == ["acme", "acme", "also doomed", "doomed"]
