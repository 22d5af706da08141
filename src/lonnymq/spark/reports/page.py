"""The report as one HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from html import escape

from lonnymq.spark.reports import formats, plots
from lonnymq.spark.reports.explanations import LIMITS_UNKNOWN, MEANINGS
from lonnymq.spark.reports.fields import FIELDS, OF_TENANTS
from lonnymq.spark.reports.html_page import html_page
from lonnymq.spark.reports.model import ReportData, TenantNumbers, Totals

LISTED = 50
LACKING = 10
PLOTTED = 12
MAX_NAME = 1_000
TITLE = "How each tenant was served"


def page(report: ReportData) -> str:
    return html_page(TITLE, _body(report))


def _body(report: ReportData) -> Iterator[str]:
    if report.began_at is None or report.ended_at is None:
        yield '<p class="soft">No messages finished in this time.</p>'
        return
    lasted = formats.duration((report.ended_at - report.began_at).total_seconds() * 1000)
    yield (
        f'<p class="soft">{formats.time(report.began_at)} to {formats.time(report.ended_at)}: {lasted}, '
        f"in buckets of {formats.duration(report.bucket_ms)}</p>"
    )
    if not report.knows_limits:
        yield f'<p class="soft warning">{escape(LIMITS_UNKNOWN)}</p>'
    yield from _cards(report.totals)
    yield '<div class="pair">'
    yield from _plots(report, report.began_at)
    yield "</div>"
    yield from _table(report)
    yield '<section class="sheet"><h2>What the numbers mean</h2><dl>'
    yield from (
        f"<div><dt>{escape(word)}</dt><dd>{escape(meaning)}</dd></div>" for word, meaning in MEANINGS.items()
    )
    yield "</dl></section>"


def _cards(totals: Totals) -> Iterator[str]:
    waits = f"p50 {formats.duration(totals.wait_p50_ms)}, p99 {formats.duration(totals.wait_p99_ms)}"
    competed = f"{formats.count(totals.competed)} tenants competed"
    yield '<div class="cards">'
    for title, value, note in (
        ("Tenants", formats.count(totals.channels), "had messages"),
        ("Messages", formats.count(totals.messages), f"{formats.count(totals.completed)} completed"),
        ("Dead letters", formats.count(totals.dead), _not_completed(totals)),
        ("Wait, p95", formats.duration(totals.wait_p95_ms), waits),
        ("Throughput", formats.rate(totals.throughput), "completed per second"),
        ("Work", formats.duration(totals.work_s * 1000), "of all tenants"),
        (
            "Jain's index",
            formats.index(totals.jain),
            "no tenants competed" if totals.jain is None else competed,
        ),
        ("Misallocated", formats.percent(totals.misallocated), "of what was served"),
    ):
        yield (
            f'<div class="card"><span class="soft">{escape(title)}</span><b>{escape(value)}</b>'
            f'<span class="soft">{escape(note)}</span></div>'
        )
    yield "</div>"


def _not_completed(totals: Totals) -> str:
    return f"{formats.count(totals.retries)} retries, {formats.count(totals.cancelled)} cancelled"


def _plots(report: ReportData, began_at: datetime) -> Iterator[str]:
    if report.flows:
        legend = [
            (plots.colour(place, flow), "all others" if flow.channel is None else formats.name(flow.channel))
            for place, flow in enumerate(report.flows)
        ]
        picture = "".join(
            f'<div class="{size}">{plots.flows(report.flows, began_at, report.bucket_ms, size)}</div>'
            for size in plots.SIZES
        )
        yield _plot("Throughput", "Completed per second, stacked by tenant", legend, picture, is_wide=True)
    shown = [series for series in report.series if any(series.share) or any(series.entitlement)]
    if shown:
        legend = [(plots.SHARE, "share of what was served"), (plots.FAIR, "entitlement")]
        picture = "".join(
            f'<div class="{size}">{plots.shares_over_time(shown, began_at, report.bucket_ms, size)}</div>'
            for size in plots.SIZES
        )
        note = f"{'The' if len(shown) == 1 else f'The {len(shown)}'} largest tenants, over time"
        yield _plot("Share and entitlement over time", note, legend, picture, is_wide=True)
    waited = [tenant for tenant in report.tenants if tenant.waits][:PLOTTED]
    if waited:
        legend = list(
            zip((plots.PALETTE[0], plots.PALETTE[1], plots.PALETTE[7]), ("p50", "p95", "p99"), strict=True)
        )
        yield _plot("Waits", _largest(waited, report), legend, plots.waits(waited))
    served = [tenant for tenant in report.tenants if tenant.share is not None][:PLOTTED]
    if served:
        legend = [(plots.SHARE, "share of what was served"), (plots.FAIR, "entitlement")]
        yield _plot("Share and entitlement", _largest(served, report), legend, plots.shares(served))


def _largest(shown: Sequence[TenantNumbers], report: ReportData) -> str:
    return f"The {len(shown)} largest tenants" if len(shown) < len(report.tenants) else "All tenants"


def _plot(
    title: str, note: str, legend: Iterable[tuple[str, str]], picture: str, *, is_wide: bool = False
) -> str:
    dots = "".join(f'<span><i style="--of:{colour}"></i>{escape(name)}</span>' for colour, name in legend)
    return (
        f'<section class="sheet plot{" whole" if is_wide else ""}"><h2>{title}</h2>'
        f'<p class="soft">{escape(note)}</p><div class="legend">{dots}</div>{picture}</section>'
    )


def listed(tenants: Sequence[TenantNumbers]) -> tuple[list[TenantNumbers], list[TenantNumbers]]:
    """The tenants that get their own row, and the others. The former are the largest, those with the longest
    waits, and those that lack most of their entitlement.
    """
    by_wait = sorted(tenants, key=lambda tenant: tenant.wait_p95_ms or -1, reverse=True)
    by_lack = sorted(tenants, key=lambda tenant: (tenant.share or 0) - (tenant.entitlement or 0))
    chosen = {tenant.channel for tenant in (*tenants[:LISTED], *by_wait[:LISTED], *by_lack[:LACKING])}
    return (
        [tenant for tenant in tenants if tenant.channel in chosen],
        [tenant for tenant in tenants if tenant.channel not in chosen],
    )


def _table(report: ReportData) -> Iterator[str]:
    shown, others = listed(report.tenants)
    note = (
        f"The {LISTED} largest tenants, the {LISTED} with the longest waits, and the {LACKING} that lack most"
        " of their entitlement"
        if others
        else "Click a heading to sort"
    )
    yield f'<section class="sheet"><h2>Tenants</h2><p class="soft">{note}</p><div class="scroll"><table>'
    heads = ["tenant", *(field.head for field in FIELDS)]
    sort = {"messages": ' aria-sort="descending"'}
    cells = (f'<th scope="col"{sort.get(head, "")}><button>{head}</button></th>' for head in heads)
    yield f"<thead><tr>{''.join(cells)}</tr></thead><tbody>"
    most = max(tenant.messages for tenant in shown)
    for tenant in shown:
        yield _row(tenant, most)
    yield "</tbody><tfoot>"
    if others:
        yield _foot(f"{len(others):,} others", (field.of_all(others) for field in FIELDS))
    yield _foot("all", ("" if field.head in OF_TENANTS else field.of(report.totals) for field in FIELDS))
    yield "</tfoot></table></div></section>"


def _foot(name: str, cells: Iterable[str]) -> str:
    return f"<tr><td>{name}</td>{''.join(f'<td>{escape(text)}</td>' for text in cells)}</tr>"


def _row(tenant: TenantNumbers, most: int) -> str:
    name, full = escape(formats.name(tenant.channel)), escape(formats.name(tenant.channel, MAX_NAME))
    cells = [f'<td data-v="{name}" title="{full}">{name}</td>']
    for field in FIELDS:
        value = field.value(tenant)
        kind = ""
        if field.head == "messages":
            kind = f' class="bar" style="--part:{100 * tenant.messages / most:.1f}%"'
        elif field.head == "dead" and tenant.dead:
            kind = ' class="warn"'
        cells.append(f'<td{kind} data-v="{"" if value is None else value}">{escape(field.of(tenant))}</td>')
    return f"<tr>{''.join(cells)}</tr>"
