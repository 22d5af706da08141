"""The report on its page and in the terminal, also with hostile names of tenants."""

import re
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from html.parser import HTMLParser
from io import StringIO

import pytest
from rich.console import Console

from lonnymq.spark.reports import formats
from lonnymq.spark.reports.build import Report
from lonnymq.spark.reports.model import Flow, ShareSeries, TenantNumbers, Totals
from lonnymq.spark.reports.page import LISTED, listed
from lonnymq.spark.reports.style import SCRIPT

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></style></svg></script>",
    "<!-- ",
    "&lt;b&gt; &amp;",
    r"$\frac{1}{$ \x {0} %s",
    "_hidden",
    "[bold red]x[/bold red] :boom:",
    "\x1b[31mred\x07\x9b",
    "\u202egnp.exe",
    "株式会社 🦜 ไทย العربية",
    "a" * 255,
    " ",
    "\n\t",
    "\ud7ff\uffff",
)
BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
NOTHING = Totals(
    channels=0,
    messages=0,
    completed=0,
    dead=0,
    cancelled=0,
    retries=0,
    waits=0,
    wait_p50_ms=None,
    wait_p95_ms=None,
    wait_p99_ms=None,
    throughput=None,
    work_s=0.0,
    jain=None,
    competed=0,
    misallocated=None,
)


def tenant(channel: str, messages: int = 10, wait_ms: float | None = 12.5) -> TenantNumbers:
    return TenantNumbers(
        channel=channel,
        messages=messages,
        completed=messages,
        dead=0,
        cancelled=0,
        retries=1,
        waits=messages,
        wait_p50_ms=wait_ms,
        wait_p95_ms=wait_ms and wait_ms * 2,
        wait_p99_ms=wait_ms and wait_ms * 3,
        throughput=0.5,
        share=0.25,
        entitlement=0.125,
        held_s=1.5,
        work_s=3.5,
    )


def report_of(*tenants: TenantNumbers, flows: tuple[Flow, ...] = ()) -> Report:
    messages = sum(one.messages for one in tenants)
    totals = replace(
        NOTHING,
        channels=len(tenants),
        messages=messages,
        completed=messages,
        jain=0.9,
        competed=2,
        misallocated=0.004,
    )
    series = tuple(
        ShareSeries(flow.channel, (0.5, None, 0.25), (0.25, None, 0.25)) for flow in flows if flow.channel
    )
    return Report(tenants, totals, flows, BEGAN, BEGAN + timedelta(seconds=90), 30_000, series)


class ParsedPage(HTMLParser):
    """The tags of a page, and the text in its cells and pictures."""

    VOID = ("meta",)

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def inside(self, tag: str) -> list[str]:
        return [text for of, text in self.texts if of == tag]


def hostile_page() -> ParsedPage:
    flows = tuple(Flow(name, (5, 0, 7)) for name in HOSTILE[:7])
    return ParsedPage(report_of(*map(tenant, HOSTILE), flows=(*flows, Flow(None, (1, 1, 1)))).to_html())


def test_names_are_escaped() -> None:
    page = hostile_page()
    cells, written, legend = page.inside("td"), page.inside("text"), page.inside("span")
    for name in HOSTILE:
        assert formats.name(name) in cells
    for name in HOSTILE[:7]:
        assert formats.name(name) in legend
    for place, name in enumerate(HOSTILE[:12]):
        times = 4 if place < 7 else 2  # waits and shares; and shares over time, wide and narrow
        assert [text.strip() for text in written].count(formats.name(name, 18).strip()) == times
    allowed = {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "h1",
        "h2",
        "p",
        "div",
        "section",
        "span",
    }
    allowed |= {
        "b",
        "i",
        "table",
        "thead",
        "tbody",
        "tfoot",
        "tr",
        "th",
        "td",
        "button",
        "dl",
        "dt",
        "dd",
        "footer",
    }
    allowed |= {"script", "svg", "defs", "g", "path", "use", "text", "tspan", "clippath", "rect"}
    assert {tag for tag, _ in page.tags} <= allowed
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]


def test_no_other_script_may_run() -> None:
    page = hostile_page()
    assert page.inside("script") == [SCRIPT]
    [policy] = [str(a["content"]) for tag, a in page.tags if tag == "meta" and "http-equiv" in a]
    digest = b64encode(sha256(SCRIPT.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def test_the_page_loads_nothing() -> None:
    text = report_of(tenant("acme"), flows=(Flow("acme", (1, 2, 3)),)).to_html()
    for _, attributes in ParsedPage(text).tags:
        for name, value in attributes.items():
            if name in {"src", "href", "xlink:href", "action", "data"}:
                assert str(value).startswith("#")
    assert "://" not in text
    assert "@import" not in text
    assert set(re.findall(r"url\((.)", text)) <= {"#"}


def test_pictures_take_the_colour_of_the_page() -> None:
    text = report_of(tenant("acme"), flows=(Flow("acme", (1, 2, 3)),)).to_html()
    pictures = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(pictures) == 6
    for picture in pictures:
        assert "currentColor" in picture
        assert not set(re.findall(r"#(?:000000|ffffff)\b", picture))
        assert "<!--" not in picture
    ids = [re.findall(r'id="(p[0-9a-f]{6,})"', picture) for picture in pictures]
    assert len({one for of in ids for one in of}) == sum(map(len, ids)), "two pictures use the same id"


def test_the_page_has_the_numbers() -> None:
    page = ParsedPage(report_of(tenant("acme", 1_234_567), tenant("b", 3, None)).to_html())
    rows = page.inside("td")
    numbers = "1,234,567|1,234,567|0|0|1|12.5 ms|25 ms|37.5 ms|0.5|25 %|12.5 %|1.5 s|3.5 s"
    assert rows[:14] == ["acme", *numbers.split("|")]
    assert rows[14:23] == ["b", "3", "3", "0", "0", "1", "-", "-", "-"]
    values = [attributes.get("data-v") for tag, attributes in page.tags if tag == "td"]
    assert values[6:9] == ["12.5", "25.0", "37.5"]
    assert values[20:23] == ["", "", ""]


def test_an_empty_page() -> None:
    page = ParsedPage(Report((), NOTHING, (), None, None, 1_000).to_html())
    assert "No messages finished in this time." in page.inside("p")
    assert "svg" not in {tag for tag, _ in page.tags}


def test_tenants_that_never_waited_or_competed() -> None:
    alone = replace(tenant("acme", wait_ms=None), waits=0, share=None, entitlement=None)
    assert "svg" not in {tag for tag, _ in ParsedPage(report_of(alone).to_html()).tags}
    at_once = ParsedPage(report_of(tenant("acme", wait_ms=0)).to_html())
    assert "svg" in {tag for tag, _ in at_once.tags}
    ParsedPage(report_of(tenant("acme", wait_ms=1e12)).to_html())


def test_a_hundred_thousand_tenants_make_a_small_page() -> None:
    many = [tenant(f"tenant {n}", 100_000 - n, wait_ms=float(n)) for n in range(100_000)]
    many[500] = replace(many[500], share=0.0, entitlement=0.5)
    shown, others = listed(many)
    assert [one.channel for one in shown] == [
        *(f"tenant {n}" for n in range(LISTED)),
        "tenant 500",
        *(f"tenant {n}" for n in range(100_000 - LISTED, 100_000)),
    ]
    assert len(shown) + len(others) == 100_000
    text = report_of(*many).to_html()
    assert len(text) < 500_000
    cells = ParsedPage(text).inside("td")
    at = cells.index("99,899 others")
    assert cells[at + 1] == f"{sum(one.messages for one in others):,}"
    assert cells[cells.index("all") + 1] == f"{sum(one.messages for one in many):,}"


def printed(report: Report, width: int = 160) -> str:
    out = StringIO()
    report.print(Console(file=out, width=width, force_terminal=False))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 160])
def test_the_terminal(width: int) -> None:
    text = printed(report_of(tenant("acme", 1_234), *(tenant(f"tenant {n}", 2) for n in range(30))), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in text
    assert re.search(r"acme +1,234 ", text)
    assert re.search(r"11 others +22 ", text)
    assert re.search(r"all +1,294 ", text)
    flat = " ".join(text.split())
    assert "Jain's index of fairness: 0.900, where 1 is fair, over 2 tenants that competed. 0.4 % of" in flat
    assert "2030-01-01 00:00:00 UTC to 2030-01-01 00:01:30 UTC." in text
    assert ("cancelled" in text) == (width == 160)


def test_names_send_no_control_codes_to_the_terminal() -> None:
    text = printed(report_of(*map(tenant, HOSTILE)))
    assert set(text) & {"\x1b", "\x07", "\x9b", "\u202e", "\t"} == set()
    for name in HOSTILE[:12]:
        assert formats.name(name, 24) in text


def test_an_empty_report_in_the_terminal() -> None:
    assert printed(Report((), NOTHING, (), None, None, 1_000)) == "No messages finished in this time.\n"
    alone = replace(report_of(tenant("acme")), totals=replace(NOTHING, channels=1, messages=1))
    assert "No two tenants competed" in printed(alone)


def test_numbers_that_no_tenant_has_are_not_summed() -> None:
    many = [replace(tenant(f"tenant {n}"), throughput=None) for n in range(120)]
    cells = ParsedPage(report_of(*many).to_html()).inside("td")
    assert cells[cells.index("70 others") + 6] == "-"  # empty cells have no text
    assert re.search(r"100 others +1,000 +1,000 +0 +0 +100 +- +", printed(report_of(*many)))
