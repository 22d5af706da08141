"""dead: list, group, show, retry and discard messages that used up their attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.confirm import confirm
from lonnymq.cli.display import attempts_of, gist, seconds
from lonnymq.cli.failure import FAILURE, BadValue, NotThere
from lonnymq.cli.message_commands import Id, fields
from lonnymq.cli.message_outcomes import print_outcomes
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import (
    DEFAULT_SCHEMA,
    LAST_ID,
    Dsn,
    Json,
    Limit,
    OfChannel,
    OfLane,
    Schema,
    Yes,
    print_json,
)
from lonnymq.cli.printing import Column, note, print_list, print_page, print_record
from lonnymq.formatting import count, plural, size, when
from lonnymq.monitor.server import server_time

if TYPE_CHECKING:
    from lonnymq.commands import DeadGroup, DeadMessage

SCAN_MAX = 100_000
MEANINGS = {
    "retried": "it waits again, with all its attempts",
    "duplicate": "another message has its dedupe key",
    "full": "its channel is full",
    "discarded": "it is gone",
    "not_found": "no such dead message",
}

app = typer.Typer(
    help="List, group, show, retry and discard dead messages: those that used up their attempts.",
    no_args_is_help=True,
)

Ids = Annotated[
    list[int] | None,
    typer.Argument(min=1, max=LAST_ID, help="Ids of the messages, or --all.", show_default=False),
]
Everything = Annotated[
    bool, typer.Option("--all", help="All dead messages, or all that match --channel, --error and --group.")
]
Error = Annotated[
    str | None,
    typer.Option(
        help="Only messages whose error matches this pattern; % matches any text, _ any character.",
        show_default=False,
    ),
]
Group = Annotated[
    str | None,
    typer.Option(help="Only messages of this group of `lonnymq dead groups`.", show_default=False),
]


@app.command("list")
def list_dead(
    *,
    channel: OfChannel = None,
    error: Error = None,
    lane: OfLane = None,
    group: Group = None,
    after: Annotated[int, typer.Option(min=0, max=LAST_ID, help="Next page: start after this id.")] = 0,
    limit: Limit = 50,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """List dead messages without their payloads, in the order of ids.

    Example: lonnymq dead list --channel acme --error '%timeout%'
    """
    with opened(dsn, schema) as queue:
        found = queue.dead.list(
            channel=channel, error=error, lane=lane, fingerprint=group, after=after, limit=limit
        )
        now = server_time(queue)
    print_page(
        found,
        _columns(now),
        limit=limit,
        cursor=lambda message: str(message.id),
        otherwise="There are no dead messages.",
        as_json=as_json,
    )


@app.command()
def groups(
    *,
    channel: OfChannel = None,
    by_channel: Annotated[bool, typer.Option("--by-channel", help="One group per channel.")] = False,
    limit: Limit = 50,
    scan: Annotated[
        int, typer.Option(min=1, max=SCAN_MAX, help="Read the newest, up to this many.")
    ] = 10_000,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """List dead messages grouped by what went wrong: by task and error, the largest group first.

    In the error, # stands for numbers and ids, and '...' for what was quoted.

    Example: lonnymq dead groups --channel acme
    """
    with opened(dsn, schema) as queue:
        found = queue.dead.groups(channel=channel, by_channel=by_channel, limit=limit, scan=scan)
        now = server_time(queue)
    print_list(
        found,
        _group_columns(now, by_channel=by_channel),
        otherwise="There are no dead messages.",
        as_json=as_json,
    )
    if found and found[0].has_more and not as_json:
        to_read_more = f" To read more: --scan {min(scan * 10, SCAN_MAX)}" if scan < SCAN_MAX else ""
        note(f"There are more dead messages: the newest {count(scan)} were read.{to_read_more}")
    if len(found) == limit and not as_json:
        note("For more groups: a higher --limit")


@app.command()
def show(message_id: Id, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Show everything about a dead message, with its payload and its errors.

    Example: lonnymq dead show 7
    """
    with opened(dsn, schema) as queue:
        found = queue.get(message_id)
        now = server_time(queue)
    if found is None:
        raise NotThere(f"no message {message_id}", "`lonnymq dead list` lists dead messages")
    if found.status != "dead":
        raise NotThere(
            f"message {message_id} is not dead: it is {found.status}",
            f"`lonnymq messages show {message_id}` shows it",
        )
    print_record(found, lambda message: fields(message, now), as_json=as_json)


@app.command()
def retry(
    message_ids: Ids = None,
    *,
    everything: Everything = False,
    channel: OfChannel = None,
    error: Error = None,
    group: Group = None,
    spread: Annotated[
        str,
        typer.Option(
            help="Make them due evenly over this time, not at once: 90s, 10m, 2h.", show_default=False
        ),
    ] = "0",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count them. With --all; nothing changes.")
    ] = False,
    delay: Annotated[
        float | None,
        typer.Option(
            min=0, help="Retry after this many seconds. Only with ids, not with --all.", show_default=False
        ),
    ] = None,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Enqueue dead messages again, with all their attempts: by id, or all of them.

    Example: lonnymq dead retry --all --group 5f0c1b7a9e2d --spread 10m
    """
    ids = _chosen_ids(message_ids, [channel, error, group], everything=everything)
    over = seconds(spread)
    if delay is not None and everything:
        raise BadValue("--delay is for messages given by id", "leave it out, or give ids instead of --all")
    if dry_run and ids:
        raise BadValue("--dry-run is for --all", "leave it out, or give --all instead of ids")
    with opened(dsn, schema) as queue:
        if ids:
            outcomes = queue.dead.retry(ids, delay=delay, spread=over)
            print_outcomes(outcomes, {"retried"}, MEANINGS, as_json=as_json)
            return
        done = queue.dead.retry_all(
            channel=channel, error=error, fingerprint=group, spread=over, dry_run=dry_run
        )
    _check_found(group, done.retried + done.refused)
    if dry_run and as_json:
        print_json({"would_retry": done.retried})
    elif dry_run:
        typer.echo(f"{count(done.retried)} would be retried")
    elif as_json:
        print_json({"retried": done.retried, "refused": done.refused})
    else:
        refused = f", {count(done.refused)} refused: their dedupe key is taken, or their channel is full"
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
    group: Group = None,
    yes: Yes = False,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Delete dead messages for good: by id, or all of them.

    Example: lonnymq dead discard 7 8 --yes
    """
    ids = _chosen_ids(message_ids, [channel, error, group], everything=everything)
    with opened(dsn, schema) as queue:
        confirm(f"Discard {_description(ids, channel, error, group)} for good?", yes=yes)
        if ids:
            print_outcomes(queue.dead.discard(ids), {"discarded"}, MEANINGS, as_json=as_json)
            return
        done = queue.dead.discard_all(channel=channel, error=error, fingerprint=group)
    _check_found(group, done.discarded)
    if as_json:
        print_json({"discarded": done.discarded})
    else:
        typer.echo(f"{count(done.discarded)} discarded")


def _chosen_ids(message_ids: list[int] | None, narrowing: list[str | None], *, everything: bool) -> list[int]:
    """The ids, or an empty list for all. Refuses arguments that leave open which messages are meant."""
    is_narrowed = any(option is not None for option in narrowing)
    if message_ids and (everything or is_narrowed):
        raise BadValue(
            "ids cannot be combined with --all, --channel, --error or --group",
            "give either ids or these options",
        )
    if not message_ids and not everything:
        raise BadValue("no messages given", "give ids, or --all, which --channel, --error and --group narrow")
    return message_ids or []


def _check_found(group: str | None, number: int) -> None:
    """Fail if a group was named that has no dead messages."""
    if group is not None and not number:
        raise NotThere(f"no such dead messages of group {group}", "`lonnymq dead groups` lists the groups")


def _description(ids: list[int], channel: str | None, error: str | None, group: str | None) -> str:
    if ids:
        return plural(len(ids), "dead message")
    of_channel = f" of channel {channel!r}" if channel is not None else ""
    of_error = f" whose error matches {error!r}" if error is not None else ""
    of_group = f" of group {group!r}" if group is not None else ""
    return f"all dead messages{of_channel}{of_group}{of_error}"


def _columns(now: int) -> list[Column[DeadMessage]]:
    return [
        Column("id", lambda message: str(message.id), is_number=True),
        Column("channel", lambda message: message.channel, gives_way=True),
        Column("lane", lambda message: message.lane, gives_way=True),
        Column("died", lambda message: when(message.dead_at, now)),
        Column(
            "attempts", lambda message: attempts_of(message.attempts, message.max_attempts), is_number=True
        ),
        Column("size", lambda message: size(message.content_bytes), is_number=True),
        Column("error", lambda message: gist(message.error), gives_way=True),
    ]


def _group_columns(now: int, *, by_channel: bool) -> list[Column[DeadGroup]]:
    channels: Column[DeadGroup] = Column("channels", lambda group: count(group.channels), is_number=True)
    channel: Column[DeadGroup] = Column("channel", lambda group: group.channel or "", gives_way=True)
    return [
        Column("group", lambda group: group.fingerprint),
        Column("messages", lambda group: count(group.messages), is_number=True),
        channel if by_channel else channels,
        Column("first", lambda group: when(group.first_dead_at, now)),
        Column("last", lambda group: when(group.last_dead_at, now)),
        Column("example", lambda group: str(group.example_id), is_number=True),
        Column("task", lambda group: group.task or "", gives_way=True),
        Column("error", lambda group: group.pattern or "", gives_way=True),
    ]
