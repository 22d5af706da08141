"""Spark imports this package for `format("lonnymq")`, so the format needs no registration."""

from lonnymq.spark.queue_source import QueueSource as DefaultSource

__all__ = ["DefaultSource"]
