"""Makes `format("lonnymq_dead")` known to Spark without registering it."""

from lonnymq.spark.dead_source import DeadSource as DefaultSource

__all__ = ["DefaultSource"]
