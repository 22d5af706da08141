"""The columns of the report in the terminal and on the page: the value of each, and its format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lonnymq.spark.reports import formats
from lonnymq.spark.reports.model import TenantNumbers, Totals


@dataclass(frozen=True)
class Field:
    """`is_sum`: the value of several tenants is the sum of theirs; other fields are left empty."""

    head: str
    value: Callable[[TenantNumbers | Totals], float | None]
    text: Callable[[float | None], str]
    is_sum: bool = False

    def of(self, one: TenantNumbers | Totals) -> str:
        return self.text(self.value(one))

    def of_all(self, tenants: Iterable[TenantNumbers]) -> str:
        if not self.is_sum:
            return ""
        values = [value for value in map(self.value, tenants) if value is not None]
        return self.text(sum(values) if values else None)


def _count(value: float | None) -> str:
    return formats.count(int(value or 0))


def _share(of: TenantNumbers | Totals) -> float | None:
    return of.share if isinstance(of, TenantNumbers) else None


def _entitlement(of: TenantNumbers | Totals) -> float | None:
    return of.entitlement if isinstance(of, TenantNumbers) else None


def _held_ms(of: TenantNumbers | Totals) -> float | None:
    return of.held_s * 1000 if isinstance(of, TenantNumbers) else None


OF_TENANTS = {"share", "entitlement", "held back"}
"""Fields that the totals do not have."""

FIELDS = (
    Field("messages", lambda of: of.messages, _count, is_sum=True),
    Field("completed", lambda of: of.completed, _count, is_sum=True),
    Field("dead", lambda of: of.dead, _count, is_sum=True),
    Field("cancelled", lambda of: of.cancelled, _count, is_sum=True),
    Field("retries", lambda of: of.retries, _count, is_sum=True),
    Field("wait p50", lambda of: of.wait_p50_ms, formats.duration),
    Field("p95", lambda of: of.wait_p95_ms, formats.duration),
    Field("p99", lambda of: of.wait_p99_ms, formats.duration),
    Field("per second", lambda of: of.throughput, formats.rate, is_sum=True),
    Field("share", _share, formats.percent, is_sum=True),
    Field("entitlement", _entitlement, formats.percent, is_sum=True),
    Field("held back", _held_ms, formats.duration),
    Field("work", lambda of: of.work_s * 1000, formats.duration, is_sum=True),
)
