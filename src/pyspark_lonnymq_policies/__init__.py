"""Spark imports this package for `format("lonnymq_policies")`, so the format needs no registration."""

from lonnymq.spark.changes.policy_source import PolicySource as DefaultSource

__all__ = ["DefaultSource"]
