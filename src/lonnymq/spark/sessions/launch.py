"""The settings that a new session starts with, and the environment of its Java."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lonnymq.spark.sessions.java import find_java, home_for_spark

LOOPBACK = "127.0.0.1"
TASK_ATTEMPTS = 4
LOCAL = re.compile(r"local(?:\[(?P<threads>\*|\d+)\])?")
LOGGING = Path(__file__).with_name("log4j2.properties")
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SETTINGS = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.redaction.regex": "(?i)secret|passw|passfile|token|credential|access[.]?key|dsn",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
LOCAL_SETTINGS = {
    "spark.sql.shuffle.partitions": "8",  # Spark's default of 200 makes 200 tasks
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
}


def is_local(master: str) -> bool:
    """Whether all of Spark runs on this machine, as it also does with a local-cluster."""
    return master.startswith("local")


def with_task_retries(master: str) -> str:
    """Make local[N] local[N,4]: local[N] fails a job at its first failed task, clusters retry tasks."""
    found = LOCAL.fullmatch(master)
    return master if found is None else f"local[{found['threads'] or 1},{TASK_ATTEMPTS}]"


def spark_settings(master: str, given: Mapping[str, str]) -> dict[str, str]:
    chosen = SETTINGS | (LOCAL_SETTINGS if is_local(master) else {}) | dict(given)
    if "SPARK_CONF_DIR" not in os.environ and "log4j" not in chosen.get(JAVA_OPTIONS, ""):
        chosen[JAVA_OPTIONS] = (
            f'{chosen.get(JAVA_OPTIONS, "")} "-Dlog4j2.configurationFile={LOGGING.as_uri()}"'
        )
    return chosen


def pin_python(master: str) -> None:
    """Make Spark's Python workers use this Python: the first one on the PATH may lack our packages.

    On a cluster PYSPARK_PYTHON may name another one. PYSPARK_DRIVER_PYTHON is set as well, because Spark uses
    it for data sources that it imports by name, on executors too, and people set it to a notebook program.
    """
    python = sys.executable if is_local(master) else os.environ.get("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python


@contextmanager
def java_environment(master: str) -> Iterator[None]:
    """Set the environment in which Java is started, and restore it after."""
    before = dict(os.environ)
    chosen = {"JAVA_HOME": str(home_for_spark(find_java()))}
    if is_local(master):
        chosen |= _local_environment()
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name in chosen:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


def _local_environment() -> dict[str, str]:
    import pyspark

    chosen = {}
    home = Path(pyspark.__file__).parent
    if (home / "jars").is_dir():
        chosen["SPARK_HOME"] = str(home)  # it may point to a Spark of another version
    if "SPARK_LOCAL_IP" not in os.environ:
        chosen["SPARK_LOCAL_IP"] = LOOPBACK
    return chosen
