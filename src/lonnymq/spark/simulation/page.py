"""A simulation as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from lonnymq.formatting import plural
from lonnymq.simulation.outcome import (
    SimulationData,
    TenantOutcome,
    WaitNumbers,
    consumers_text,
    errors_text,
)
from lonnymq.simulation.scenario import Scenario
from lonnymq.spark.reports import formats
from lonnymq.spark.reports.html_page import html_page
from lonnymq.spark.simulation import plots, terminal

TITLE = "What other settings would have done"
PLOTTED = 12
LISTED = 200
MAX_NAME = 1_000


def page(simulation: SimulationData) -> str:
    return html_page(TITLE, _body(simulation))


def _body(simulation: SimulationData) -> Iterator[str]:
    yield (
        f'<p class="soft">{formats.time(simulation.began_at)} to {formats.time(simulation.ended_at)}:'
        f" {plural(simulation.messages, 'message')} of {plural(len(simulation.tenants), 'tenant')}, simulated"
        f" in {plural(simulation.windows, 'part')}</p>"
    )
    yield from _cards(simulation)
    if simulation.refusal:
        yield f'<section class="sheet"><h2>No answer</h2><p>{escape(simulation.refusal)}</p></section>'
    answered = [tenant for tenant in simulation.tenants if not tenant.refusal][:PLOTTED]
    if answered:
        yield '<div class="pair">'
        yield from (_plot(one, answered, simulation) for one in simulation.scenarios)
        yield "</div>"
    yield from _table(simulation)
    yield '<section class="sheet"><h2>How far to trust it</h2><dl>'
    meanings = {
        "Errors": errors_text(),
        "Served by": consumers_text(simulation.consumers),
        **simulation.limits,
    }
    yield from (
        f"<div><dt>{escape(word)}</dt><dd>{escape(meaning)}</dd></div>" for word, meaning in meanings.items()
    )
    yield "</dl></section>"


def _cards(simulation: SimulationData) -> Iterator[str]:
    answered = simulation.messages - simulation.refused_messages
    yield '<div class="cards">'
    for title, value, note in (
        ("Messages", formats.count(simulation.messages), "with a known wait"),
        ("Tenants", formats.count(len(simulation.tenants)), "had messages"),
        ("Answered for", formats.percent(answered / max(1, simulation.messages)), "of the messages"),
        ("Consumers", formats.count(simulation.consumers.count), "worked at once"),
    ):
        yield (
            f'<div class="card"><span class="soft">{escape(title)}</span><b>{escape(value)}</b>'
            f'<span class="soft">{escape(note)}</span></div>'
        )
    yield "</div>"


def changes_text(scenario: Scenario) -> str:
    """What a scenario changes, as the command line would say it."""
    changes = [
        f"{formats.name(channel)}.{setting}={value}"
        for channel, settings in scenario.channels.items()
        for setting, value in settings.items()
    ]
    if scenario.consumers is not None:
        changes.append(plural(scenario.consumers, "consumer"))
    if scenario.max_concurrency is not None:
        changes.append(f"at most {scenario.max_concurrency or 'any number'} at once in the queue")
    return ", ".join(changes) or "nothing is changed"


def _plot(scenario: Scenario, tenants: list[TenantOutcome], simulation: SimulationData) -> str:
    some = f"the {len(tenants)} largest tenants" if len(tenants) < len(simulation.tenants) else "all tenants"
    note = f"{changes_text(scenario)}. Waits of {some}: a line from p50 to p95, the dot is p95"
    legend = ((plots.BEFORE, "actual settings, simulated"), (plots.AFTER, scenario.name))
    dots = "".join(f'<span><i style="--of:{colour}"></i>{escape(name)}</span>' for colour, name in legend)
    return (
        f'<section class="sheet plot whole"><h2>{escape(scenario.name)}</h2>'
        f'<p class="soft">{escape(note)}</p>'
        f'<div class="legend">{dots}</div>{plots.waits(tenants, scenario.name)}</section>'
    )


def _table(simulation: SimulationData) -> Iterator[str]:
    names = [one.name for one in simulation.scenarios]
    shown = simulation.tenants[:LISTED]
    note = f"The {LISTED} largest tenants. " if len(simulation.tenants) > LISTED else ""
    yield (
        f'<section class="sheet"><h2>Tenants</h2><p class="soft">{note}Waits are p50 / p95, sorted by'
        ' p95. Click a heading to sort</p><div class="scroll"><table>'
    )
    heads = ["tenant", "messages", "recorded", "simulated", "error", *names, "no answer because"]
    cells = (f'<th scope="col"><button>{escape(head)}</button></th>' for head in heads)
    yield f"<thead><tr>{''.join(cells)}</tr></thead><tbody>"
    for tenant in shown:
        yield _row(tenant, names)
    yield "</tbody></table></div></section>"


def _row(tenant: TenantOutcome, scenarios: list[str]) -> str:
    name, full = escape(formats.name(tenant.channel)), escape(formats.name(tenant.channel, MAX_NAME))
    errors = [value for value in (tenant.error_p50, tenant.error_p95) if value is not None]
    kind = ' class="warn"' if tenant.refusal else ""
    answers = [
        _waits(tenant.scenarios[one]) if one in tenant.scenarios else '<td data-v=""></td>'
        for one in scenarios
    ]
    return "".join(
        [
            f'<tr><td data-v="{name}" title="{full}">{name}</td>',
            f'<td data-v="{tenant.messages}">{formats.count(tenant.messages)}</td>',
            _waits(tenant.recorded),
            _waits(tenant.actual),
            f'<td{kind} data-v="{max(errors, default="")}">{escape(terminal.error(tenant))}</td>',
            *answers,
            f'<td data-v="">{escape(tenant.refusal or "")}</td></tr>',
        ]
    )


def _waits(numbers: WaitNumbers) -> str:
    value = "" if numbers.p95_ms is None else numbers.p95_ms
    return f'<td data-v="{value}">{escape(terminal.waits(numbers))}</td>'
