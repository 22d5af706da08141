"""A Spark session that just works, on this machine or on a cluster."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
TASK_ATTEMPTS = 4
LOCAL = re.compile(r"local(?:\[(?P<threads>\*|\d+)\])?")
DEFAULTS = {
    "spark.redaction.regex": "(?i)secret|passw|passfile|token|credential|access[.]?key|dsn",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
ON_THIS_MACHINE = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
}


def session(master: str = "local[*]", app_name: str = "lonnymq", **conf: str) -> SparkSession:
    """A session on `master`; `conf` are Spark's settings, as `**{"spark.driver.memory": "4g"}`."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = DEFAULTS | conf
    found = LOCAL.fullmatch(master)
    if found is not None:
        # Spark retries no task on a plain local[N].
        master = f"local[{found['threads'] or 1},{TASK_ATTEMPTS}]"
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        settings = ON_THIS_MACHINE | settings
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
