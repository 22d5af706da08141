"""bench: measure how fast a database is as a queue, in a temporary schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.bench.parameters import MAX_BYTES, Parameters
from lonnymq.cli.failure import BadValue
from lonnymq.cli.options import Dsn, Json, print_json
from lonnymq.cli.printing import note, show
from lonnymq.formatting import count, size

if TYPE_CHECKING:
    from lonnymq.cli.bench.results import Results, ServerInfo

DEFAULTS = Parameters()

ClientCount = Annotated[
    int, typer.Option(min=1, max=64, help="Number of client processes that enqueue and dequeue in parallel.")
]
Channels = Annotated[
    int, typer.Option(min=2, max=10_000, help="Number of channels (tenants) to spread the messages over.")
]
Seconds = Annotated[float, typer.Option(min=0.05, max=600, help="Seconds per measurement.")]
PayloadBytes = Annotated[int, typer.Option(min=0, max=1_000_000, help="Size of each message's payload.")]


def register(app: typer.Typer) -> None:
    app.command()(bench)


def bench(
    *,
    clients: ClientCount = DEFAULTS.clients,
    channels: Channels = DEFAULTS.channels,
    seconds: Seconds = DEFAULTS.seconds,
    payload_bytes: PayloadBytes = DEFAULTS.payload_bytes,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Measure how fast your database is as a queue. Takes about half a minute.

    Creates a temporary schema, measures there, and removes it again. Existing queues are not touched, but the
    server is under load meanwhile.

    Example: lonnymq bench --clients 4 --payload-bytes 1000
    """
    parameters = Parameters(clients, channels, seconds, payload_bytes)
    if parameters.max_bytes > MAX_BYTES:
        raise BadValue(
            f"this would write up to {size(parameters.max_bytes)}", "use fewer --clients or --payload-bytes"
        )
    found = _measure(parameters, dsn)
    if as_json:
        from lonnymq.cli.bench.findings import sentences

        print_json(asdict(found) | {"findings": sentences(found)})
    else:
        _print(found)


def _measure(parameters: Parameters, dsn: str | None) -> Results:
    from lonnymq.cli.bench.clients import start_clients
    from lonnymq.cli.bench.protocol import Target
    from lonnymq.cli.bench.scratch_schema import check_rights, find_leftovers, new_name, scratch_schema
    from lonnymq.cli.bench.server_info import server_info
    from lonnymq.cli.bench.steps import Benchmark
    from lonnymq.cli.database import address, connect

    with connect(dsn) as conn:
        conn.prepare_threshold = None  # a pooler may be in between
        check_rights(conn)
        server, schema = server_info(conn), new_name()
        for other in find_leftovers(conn):
            note(
                f"Schema {other} was left by another benchmark. If that is not running any more, remove it"
                f" with `lonnymq uninstall --schema {other}`."
            )
        note(_announcement(parameters, schema, server))
        target = Target(address(dsn), schema, parameters.channels, parameters.payload_bytes)
        with (
            _progress() as report_step,
            scratch_schema(conn, dsn, schema),
            start_clients(target, parameters.clients) as clients,
        ):
            return Benchmark(parameters, clients, conn, report_step).run(schema, server)


def _announcement(parameters: Parameters, schema: str, server: ServerInfo) -> str:
    estimated_s = parameters.estimated_s(is_pooled=server.is_pooled)
    return (
        f"Measuring database {server.database} for about {estimated_s} s. This loads the server: it writes"
        f" at most {count(parameters.max_messages)} messages ({size(parameters.max_bytes)}) into schema"
        f" {schema}, which is removed afterwards."
    )


@contextmanager
def _progress() -> Iterator[Callable[[str], object]]:
    """On a terminal, a bar with the current step."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from lonnymq.cli.bench.steps import STEPS

    screen = Console(stderr=True)
    columns = BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as shown:
        steps = shown.add_task("", total=STEPS)
        started = -1

        def report_step(name: str) -> None:
            nonlocal started
            started += 1
            shown.update(steps, completed=started, description=name)

        yield report_step


def _print(found: Results) -> None:
    from rich.console import Console

    from lonnymq.cli.bench import output
    from lonnymq.cli.bench.findings import sentences

    block = output.ASCII if Console().options.ascii_only else output.BLOCK
    notes = output.paragraphs([output.legend(found), output.fairness(found.fairness), *sentences(found)])
    show(output.paragraphs(output.heading(found)))
    for table in (output.times(found, block), output.rates(found, block), notes):
        typer.echo()
        show(table)
