"""Failed orders: a table of them, a count per tenant, and a message to support for each.

Set LONNYMQ_DSN to the address of the database. Formats are found by name: nothing has to be registered.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, struct

QUEUE = {"dsnEnv": "LONNYMQ_DSN"}
spark = SparkSession.active()

dp.create_sink("support", "lonnymq", {**QUEUE, "channel": "support"})


@dp.table
def finished() -> DataFrame:
    """Every message that has finished, once: the stream continues where the last run stopped."""
    history = spark.readStream.format("lonnymq_history").options(**QUEUE, includeContent="false").load()
    return history.select("id", "channel", "outcome", "attempts", "error", "finished_at")


@dp.materialized_view
def outcomes() -> DataFrame:
    return spark.read.table("finished").groupBy("channel", "outcome").count()


@dp.append_flow(target="support")
def report_failures() -> DataFrame:
    """A message per dead letter, but not for those of support: they would report themselves."""
    dead = spark.readStream.table("finished").where(
        (col("outcome") == "dead") & (col("channel") != "support")
    )
    return dead.select(struct("id", "channel", "error", "attempts").alias("content"))
