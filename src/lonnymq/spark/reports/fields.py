"""The columns that the report has for people: what each shows, and how it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lonnymq.spark.reports import text as texts
from lonnymq.spark.reports.model import Tenant, Totals


@dataclass(frozen=True)
class Field:
    """`is_sum`: for several tenants together it is the sum, else it says nothing."""

    head: str
    value: Callable[[Tenant | Totals], float | None]
    text: Callable[[float | None], str]
    is_sum: bool = False

    def of(self, one: Tenant | Totals) -> str:
        return self.text(self.value(one))

    def of_all(self, tenants: Iterable[Tenant]) -> str:
        if not self.is_sum:
            return ""
        values = [value for value in map(self.value, tenants) if value is not None]
        return self.text(sum(values) if values else None)


def _count(value: float | None) -> str:
    return texts.count(int(value or 0))


def _share(of: Tenant | Totals) -> float | None:
    return of.share if isinstance(of, Tenant) else None


def _fair_share(of: Tenant | Totals) -> float | None:
    return of.fair_share if isinstance(of, Tenant) else None


FIELDS = (
    Field("messages", lambda of: of.messages, _count, is_sum=True),
    Field("completed", lambda of: of.completed, _count, is_sum=True),
    Field("dead", lambda of: of.dead, _count, is_sum=True),
    Field("cancelled", lambda of: of.cancelled, _count, is_sum=True),
    Field("retries", lambda of: of.retries, _count, is_sum=True),
    Field("wait p50", lambda of: of.wait_p50_ms, texts.duration),
    Field("p95", lambda of: of.wait_p95_ms, texts.duration),
    Field("p99", lambda of: of.wait_p99_ms, texts.duration),
    Field("a second", lambda of: of.throughput, texts.rate, is_sum=True),
    Field("share", _share, texts.percent),
    Field("fair share", _fair_share, texts.percent),
    Field("work", lambda of: of.work_s * 1000, texts.duration, is_sum=True),
)
