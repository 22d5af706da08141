"""Conditions of a query on Spark that the database can decide as well, and decides alike.

While `spark.sql.python.filterPushdown.enabled` is off, Spark refuses a reader that has a `pushFilters`
of its own, and does not tell a reader whether it is. So `Pushed` passes for the method that every reader
inherits; it is called only when that is on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from psycopg.sql import Literal
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from lonnymq.client.times import EPOCH, MILLISECOND


@dataclass
class Pushed:
    """Filters over columns that are never null: texts, compared byte by byte, and times."""

    texts: tuple[str, ...]
    times: tuple[str, ...]
    conditions: list[str] = field(default_factory=list)

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Those that are left to Spark."""
        left = []
        for one in filters:
            condition = self._condition(one)
            if condition is None:
                left.append(one)
            else:
                self.conditions.append(condition)
        return left

    def _condition(self, one: Filter) -> str | None:
        match one:
            case IsNotNull((name,)) if name in (*self.texts, *self.times):
                return "TRUE"
            case EqualTo((name,), str(value)) if name in self.texts:
                return _is_one_of(name, [value])
            case In((name,), values) if name in self.texts:
                return _is_one_of(name, [value for value in values if value is not None])
            case EqualTo((name,), datetime() as value) if name in self.times:
                return f"{name} BETWEEN {_at_least(value)} AND {_at_most(value)}"
            case GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
                return self._comparison(one)
        return None

    def _comparison(self, one: GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual) -> str | None:
        [name, *within] = one.attribute
        if within or name not in self.times or not isinstance(one.value, datetime):
            return None
        operator, rounded = COMPARISONS[type(one)]
        return f"{name} {operator} {rounded(one.value)}"


def _is_one_of(name: str, values: list[Any]) -> str | None:
    """None: PostgreSQL has no such text, and would say so instead of finding nothing."""
    if any(not isinstance(value, str) or "\0" in value for value in values):
        return None
    if not values:
        return "FALSE"
    return f"{name} IN ({', '.join(Literal(value).as_string() for value in values)})"


def _at_most(value: datetime) -> int:
    """The last of our milliseconds that is not after the instant."""
    return (value - EPOCH) // MILLISECOND


def _at_least(value: datetime) -> int:
    return -((EPOCH - value) // MILLISECOND)


COMPARISONS: dict[type[Filter], tuple[str, Callable[[datetime], int]]] = {
    GreaterThan: (">", _at_most),
    GreaterThanOrEqual: (">=", _at_least),
    LessThan: ("<", _at_least),
    LessThanOrEqual: ("<=", _at_most),
}
