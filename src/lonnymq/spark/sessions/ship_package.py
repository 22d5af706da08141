"""This package, sent by Spark to executors which do not have it.

Only our own code, which is plain Python: what it imports (psycopg, pyarrow, pgpq, adbc) has to be there.
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

PACKAGES = ("lonnymq", "pyspark_lonnymq", "pyspark_lonnymq_history", "pyspark_lonnymq_dead")


def ship(spark: SparkSession) -> None:
    """Formats that register themselves do not find what was sent, so they are registered here."""
    from lonnymq.spark.dead_source import DeadSource
    from lonnymq.spark.history_source import HistorySource
    from lonnymq.spark.queue_source import QueueSource

    if is_connect(spark):
        spark.addArtifacts(str(zipped_code()), pyfile=True)
    else:
        spark.sparkContext.addPyFile(str(zipped_code()))
    for source in (QueueSource, HistorySource, DeadSource):
        spark.dataSource.register(source)


def is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


@cache
def zipped_code() -> Path:
    """A zip with the packages, kept until this process ends."""
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
