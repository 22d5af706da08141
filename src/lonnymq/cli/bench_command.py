"""bench: what a database does with the queue, measured in a schema made for it and removed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.bench.parameters import MOST_OCTETS, Terms
from lonnymq.cli.failure import BadValue
from lonnymq.cli.formatting import count, size
from lonnymq.cli.options import Dsn, Json, print_json
from lonnymq.cli.printing import note, show

if TYPE_CHECKING:
    from lonnymq.cli.bench.results import Results, Surroundings

USUAL = Terms()

Clients = Annotated[int, typer.Option(min=1, max=64, help="Processes that produce and consume at a time.")]
Channels = Annotated[int, typer.Option(min=2, max=10_000, help="Tenants that messages are spread over.")]
Seconds = Annotated[float, typer.Option(min=0.05, max=600, help="For each measurement.")]
ContentBytes = Annotated[int, typer.Option(min=0, max=1_000_000, help="The size of a message.")]


def register(app: typer.Typer) -> None:
    app.command()(bench)


def bench(
    *,
    clients: Clients = USUAL.clients,
    channels: Channels = USUAL.channels,
    seconds: Seconds = USUAL.seconds,
    content_bytes: ContentBytes = USUAL.content_bytes,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Measure what your database does with the queue, in about half a minute.

    It makes a schema of its own, loads the server with messages in it, and removes it.

    No queue that is there is touched, but what else the server does shares it meanwhile.

    Example: lonnymq bench --clients 4 --content-bytes 1000
    """
    terms = Terms(clients, channels, seconds, content_bytes)
    if terms.most_bytes > MOST_OCTETS:
        raise BadValue(
            f"that would write up to {size(terms.most_bytes)}", "give fewer --clients or --content-bytes"
        )
    found = _measure(terms, dsn)
    if as_json:
        from lonnymq.cli.bench.findings import sentences

        print_json(asdict(found) | {"reading": sentences(found)})
    else:
        _print(found)


def _measure(terms: Terms, dsn: str | None) -> Results:
    from lonnymq.cli.bench.clients import crew
    from lonnymq.cli.bench.protocol import Site
    from lonnymq.cli.bench.scratch_schema import check_rights, ground, left_behind, new_name
    from lonnymq.cli.bench.server_info import surroundings
    from lonnymq.cli.bench.steps import Course
    from lonnymq.cli.database import address, connect

    with connect(dsn) as conn:
        conn.prepare_threshold = None  # a pooler may be in between
        check_rights(conn)
        around, schema = surroundings(conn), new_name()
        for other in left_behind(conn):
            note(
                f"Schema {other} is of another bench: if none runs, `lonnymq uninstall --schema {other}`"
                " removes it."
            )
        note(_announced(terms, schema, around))
        site = Site(address(dsn), schema, terms.channels, terms.content_bytes)
        with _progress() as tell, ground(conn, dsn, schema), crew(site, terms.clients) as clients:
            return Course(terms, clients, conn, tell).run(schema, around)


def _announced(terms: Terms, schema: str, around: Surroundings) -> str:
    about_s = terms.about_s(is_pooled=around.is_pooled)
    return (
        f"Measuring database {around.database} for about {about_s} s, which loads the server: at most"
        f" {count(terms.most_messages)} messages ({size(terms.most_bytes)}) are written into schema {schema},"
        " and that is removed."
    )


@contextmanager
def _progress() -> Iterator[Callable[[str], object]]:
    """On a terminal, a bar and what is being measured."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from lonnymq.cli.bench.steps import STEPS

    screen = Console(stderr=True)
    columns = BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as shown:
        steps = shown.add_task("", total=STEPS)
        begun = -1

        def tell(what: str) -> None:
            nonlocal begun
            begun += 1
            shown.update(steps, completed=begun, description=what)

        yield tell


def _print(found: Results) -> None:
    from rich.console import Console

    from lonnymq.cli.bench import output
    from lonnymq.cli.bench.findings import sentences

    block = output.ASCII if Console().options.ascii_only else output.BLOCK
    said = output.paragraphs([output.legend(found), output.fairness(found.fairness), *sentences(found)])
    show(output.paragraphs(output.heading(found)))
    for table in (output.times(found, block), output.rates(found, block), said):
        typer.echo()
        show(table)
