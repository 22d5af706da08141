"""Sending this package to executors that do not have it.

It sends only our own code, which is pure Python. The packages that it imports (psycopg, pyarrow, pgpq, adbc)
must be installed on the executors.
"""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = (
    "lonnymq",
    "pyspark_lonnymq",
    "pyspark_lonnymq_history",
    "pyspark_lonnymq_dead",
    "pyspark_lonnymq_policies",
)


def ship(spark: SparkSession) -> None:
    """Send the code and register the formats: Spark does not find formats by name in code that was sent."""
    from lonnymq.spark.changes.dead_source import DeadSource
    from lonnymq.spark.changes.history_source import HistorySource
    from lonnymq.spark.changes.policy_source import PolicySource
    from lonnymq.spark.queue_source import QueueSource

    if is_connect(spark):
        spark.addArtifacts(str(zipped_code()), pyfile=True)
    else:
        spark.sparkContext.addPyFile(str(zipped_code()))
    for source in (QueueSource, HistorySource, DeadSource, PolicySource):
        spark.dataSource.register(source)


def is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


@cache
def zipped_code() -> Path:
    """A zip with the packages, kept until this process exits."""
    folder = Path(tempfile.mkdtemp(prefix="lonnymq-code-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "lonnymq.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            root = _folder_of(package)
            for file in sorted(root.rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    archive.write(file, Path(package) / file.relative_to(root))
    return path


def _folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no module named {package}", name=package)
    return Path(spec.origin).parent
