"""Makes `format("lonnymq_history")` known to Spark without registering it."""

from lonnymq.spark.history_source import HistorySource as DefaultSource

__all__ = ["DefaultSource"]
