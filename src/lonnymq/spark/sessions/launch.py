"""What a new session is started with: Spark's settings, and the environment of its Java."""

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
EVERYWHERE = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.redaction.regex": "(?i)secret|passw|passfile|token|credential|access[.]?key|dsn",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
ON_THIS_MACHINE = {
    "spark.sql.shuffle.partitions": "8",  # Spark takes 200, which is a task each
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
}


def is_local(master: str) -> bool:
    """Whether all of Spark runs on this machine; so it does on a local-cluster too."""
    return master.startswith("local")


def retrying(master: str) -> str:
    """A plain local[N] fails a job with its first failed task; a local[N,4] tries again, as clusters do."""
    found = LOCAL.fullmatch(master)
    return master if found is None else f"local[{found['threads'] or 1},{TASK_ATTEMPTS}]"


def settings(master: str, given: Mapping[str, str]) -> dict[str, str]:
    chosen = EVERYWHERE | (ON_THIS_MACHINE if is_local(master) else {}) | dict(given)
    if "SPARK_CONF_DIR" not in os.environ and "log4j" not in chosen.get(JAVA_OPTIONS, ""):
        chosen[JAVA_OPTIONS] = (
            f'{chosen.get(JAVA_OPTIONS, "")} "-Dlog4j2.configurationFile={LOGGING.as_uri()}"'
        )
    return chosen


def pin_python(master: str) -> None:
    """Workers run this Python: Spark would take whichever is on the PATH, and it may lack our packages.

    A cluster may have another. Sources that register themselves run on the driver's Python, on executors too,
    so it is pinned as well; people set it to a notebook.
    """
    python = sys.executable if is_local(master) else os.environ.get("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python


@contextmanager
def environment(master: str) -> Iterator[None]:
    """The environment in which Java is started. It goes back to what it was: other programs read it too."""
    before = dict(os.environ)
    chosen = {"JAVA_HOME": str(home_for_spark(find_java()))}
    if is_local(master):
        chosen |= _on_this_machine()
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name in chosen:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


def _on_this_machine() -> dict[str, str]:
    import pyspark

    chosen = {}
    home = Path(pyspark.__file__).parent
    if (home / "jars").is_dir():
        chosen["SPARK_HOME"] = str(home)  # a Spark of another version may be named there
    if "SPARK_LOCAL_IP" not in os.environ:
        chosen["SPARK_LOCAL_IP"] = LOOPBACK
    return chosen
