"""Spark imports this package for `format("lonnymq_history")`, so the format needs no registration."""

from lonnymq.spark.changes.history_source import HistorySource as DefaultSource

__all__ = ["DefaultSource"]
