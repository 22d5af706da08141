"""The session that tests, commands and people get."""

from pyspark.sql import SparkSession
from pyspark.sql.types import LongType


def test_it_counts(spark: SparkSession) -> None:
    assert spark.range(10, numPartitions=2).count() == 10


def test_its_workers_run_this_python(spark: SparkSession) -> None:
    assert spark.range(3).schema["id"].dataType == LongType()
