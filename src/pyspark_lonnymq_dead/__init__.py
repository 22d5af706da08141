"""Spark imports this package for `format("lonnymq_dead")`, so the format needs no registration."""

from lonnymq.spark.changes.dead_source import DeadSource as DefaultSource

__all__ = ["DefaultSource"]
