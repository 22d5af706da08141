"""dead: messages that used up their attempts, kept until somebody retries or discards them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.confirm import confirm
from lonnymq.cli.failure import FAILURE, BadValue, NotThere
from lonnymq.cli.formatting import count, gist, size, tries, when
from lonnymq.cli.message_commands import LAST_ID, Id, fields
from lonnymq.cli.message_outcomes import print_outcomes
from lonnymq.cli.open_queue import opened, server_time
from lonnymq.cli.options import Dsn, Json, Limit, OfChannel, Schema, Yes, print_json
from lonnymq.cli.printing import Column, note, print_fields, print_records, print_table

if TYPE_CHECKING:
    from lonnymq.commands import DeadMessage

SCHEMA = "lonnymq"
MEANS = {
    "retried": "it waits again, with fresh attempts",
    "duplicate": "another message has its dedupe key",
    "full": "its channel is full",
    "discarded": "it is gone",
    "not_found": "there is no such dead message",
}

app = typer.Typer(help="Dead messages: list, show, retry, discard.", no_args_is_help=True)

Ids = Annotated[
    list[int] | None, typer.Argument(min=1, max=LAST_ID, help="Their ids; or --all.", show_default=False)
]
Everything = Annotated[
    bool, typer.Option("--all", help="All that are dead; of a --channel or an --error alone, if given.")
]
Error = Annotated[
    str | None,
    typer.Option(help="Only with an error like this pattern, % for anything.", show_default=False),
]


@app.command("list")
def list_dead(
    *,
    channel: OfChannel = None,
    error: Error = None,
    after: Annotated[int, typer.Option(min=0, max=LAST_ID, help="The next page: begin after this id.")] = 0,
    limit: Limit = 50,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """List dead messages, without their content, by id.

    Example: lonnymq dead list --channel acme --error '%timeout%'
    """
    with opened(dsn, schema) as queue:
        found = queue.dead.list(channel=channel, error=error, after=after, limit=limit)
        now = server_time(queue)
    if as_json:
        print_records(found)
        return
    print_table(found, _columns(now), otherwise="There are no dead messages.")
    if len(found) == limit:
        note(f"For more: --after {found[-1].id}")


@app.command()
def show(message_id: Id, *, dsn: Dsn = None, schema: Schema = SCHEMA, as_json: Json = False) -> None:
    """Show all there is to know of a dead message, with its content and what it died of.

    Example: lonnymq dead show 7
    """
    with opened(dsn, schema) as queue:
        found = queue.get(message_id)
        now = server_time(queue)
    if found is None:
        raise NotThere(f"there is no message {message_id}", "`lonnymq dead list` lists those that are dead")
    if found.status != "dead":
        raise NotThere(
            f"message {message_id} is not dead but {found.status}",
            f"`lonnymq messages show {message_id}` shows it",
        )
    if as_json:
        print_records([found])
    else:
        print_fields(fields(found, now))


@app.command()
def retry(
    message_ids: Ids = None,
    *,
    everything: Everything = False,
    channel: OfChannel = None,
    error: Error = None,
    delay: Annotated[
        float | None,
        typer.Option(min=0, help="Not before so many seconds; for ids only.", show_default=False),
    ] = None,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """Put dead messages back into line, with fresh attempts: some by id, or all.

    Example: lonnymq dead retry --all --channel acme --error '%timeout%'
    """
    ids = _chosen(message_ids, channel, error, everything=everything)
    if delay is not None and everything:
        raise BadValue("--delay is for messages given by id", "leave it out, or give ids instead of --all")
    with opened(dsn, schema) as queue:
        if ids:
            print_outcomes(queue.dead.retry(ids, delay=delay), {"retried"}, MEANS, as_json=as_json)
            return
        done = queue.dead.retry_all(channel=channel, error=error)
    if as_json:
        print_json({"retried": done.retried, "refused": done.refused})
    else:
        refused = f", {count(done.refused)} refused: their key is taken, or their channel full"
        typer.echo(f"{count(done.retried)} retried{refused if done.refused else ''}")
    if done.refused:
        raise typer.Exit(FAILURE)


@app.command()
def discard(
    message_ids: Ids = None,
    *,
    everything: Everything = False,
    channel: OfChannel = None,
    error: Error = None,
    yes: Yes = False,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """Let dead messages go for good: some by id, or all.

    Example: lonnymq dead discard 7 8 --yes
    """
    ids = _chosen(message_ids, channel, error, everything=everything)
    with opened(dsn, schema) as queue:
        confirm(f"Discard {_named(ids, channel, error)} for good?", yes=yes)
        if ids:
            print_outcomes(queue.dead.discard(ids), {"discarded"}, MEANS, as_json=as_json)
            return
        done = queue.dead.discard_all(channel=channel, error=error)
    if as_json:
        print_json({"discarded": done.discarded})
    else:
        typer.echo(f"{count(done.discarded)} discarded")


def _chosen(
    message_ids: list[int] | None, channel: str | None, error: str | None, *, everything: bool
) -> list[int]:
    """The ids; none where all are meant. What leaves open which are meant is refused."""
    is_narrowed = channel is not None or error is not None
    if message_ids and (everything or is_narrowed):
        raise BadValue("ids say which are meant", "give ids, or --all with --channel or --error, not both")
    if not message_ids and not everything:
        raise BadValue(
            "nothing says which are meant", "give ids, or --all, with --channel or --error if need be"
        )
    return message_ids or []


def _named(ids: list[int], channel: str | None, error: str | None) -> str:
    if ids:
        return f"{len(ids)} dead message(s)"
    of_channel = f" of channel {channel!r}" if channel is not None else ""
    of_error = f" with errors like {error!r}" if error is not None else ""
    return f"all dead messages{of_channel}{of_error}"


def _columns(now: int) -> list[Column[DeadMessage]]:
    return [
        Column("id", lambda message: str(message.id), is_number=True),
        Column("channel", lambda message: message.channel, gives_way=True),
        Column("lane", lambda message: message.lane, gives_way=True),
        Column("died", lambda message: when(message.dead_at, now)),
        Column("tries", lambda message: tries(message.attempts, message.max_attempts), is_number=True),
        Column("size", lambda message: size(message.content_bytes), is_number=True),
        Column("error", lambda message: gist(message.error), gives_way=True),
    ]
