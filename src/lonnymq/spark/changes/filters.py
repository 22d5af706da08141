"""Filters of a Spark query that PostgreSQL can evaluate with the same result.

While `spark.sql.python.filterPushdown.enabled` is off, Spark refuses a reader that overrides `pushFilters`,
and a reader cannot see that setting. So `PushedFilters` pretends to be the method that every reader inherits.
Spark calls it only when the setting is on.
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
class PushedFilters:
    """Filters on columns that are never null: texts, compared byte by byte, and times."""

    texts: tuple[str, ...]
    times: tuple[str, ...]
    conditions: list[str] = field(default_factory=list)

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep those that PostgreSQL can evaluate, and return the others to Spark."""
        others = []
        for one in filters:
            condition = self._condition(one)
            if condition is None:
                others.append(one)
            else:
                self.conditions.append(condition)
        return others

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
    """None if PostgreSQL cannot store one of the texts: it would raise an error, not find nothing."""
    if any(not isinstance(value, str) or "\0" in value for value in values):
        return None
    if not values:
        return "FALSE"
    return f"{name} IN ({', '.join(Literal(value).as_string() for value in values)})"


def _at_most(value: datetime) -> int:
    """The last millisecond that is not after this time."""
    return (value - EPOCH) // MILLISECOND


def _at_least(value: datetime) -> int:
    """The first millisecond that is not before this time."""
    return -((EPOCH - value) // MILLISECOND)


COMPARISONS: dict[type[Filter], tuple[str, Callable[[datetime], int]]] = {
    GreaterThan: (">", _at_most),
    GreaterThanOrEqual: (">=", _at_least),
    LessThan: ("<", _at_least),
    LessThanOrEqual: ("<=", _at_most),
}
