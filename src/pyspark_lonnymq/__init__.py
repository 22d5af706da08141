"""Makes `format("lonnymq")` known to Spark without registering it."""

from lonnymq.spark.queue_source import QueueSource as DefaultSource

__all__ = ["DefaultSource"]
