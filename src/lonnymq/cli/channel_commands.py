"""channels: what they hold, and the policy each is served by."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.completion import channel_names
from lonnymq.cli.confirm import confirm
from lonnymq.cli.failure import BadValue, NotThere
from lonnymq.cli.formatting import count, exactly, printable, span
from lonnymq.cli.open_queue import dispatch, opened, server_time
from lonnymq.cli.options import Dsn, Json, Limit, Schema, Yes, print_json
from lonnymq.cli.printing import Column, note, print_fields, print_records, print_table

if TYPE_CHECKING:
    from lonnymq.client.queue import Queue
    from lonnymq.commands import ChannelPolicy, ChannelStatistics

SCHEMA = "lonnymq"
LISTED_CAP, SHOWN_CAP = 1_000, 10_000
WITH_MESSAGES = "add --with-messages if they may go too"

app = typer.Typer(help="Channels: list, show, set limits, pause, delete.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(help="The channel's name.", show_default=False, autocompletion=channel_names)
]
Names = Annotated[
    list[str], typer.Argument(help="The channels' names.", show_default=False, autocompletion=channel_names)
]


class Order(StrEnum):
    """By name, by whose turn it is, or by how much waits."""

    NAME = "name"
    NEXT = "next"
    WAITING = "waiting"


@app.command("list")
def list_channels(
    *,
    order: Annotated[
        Order, typer.Option(help="By name, by whose turn is next, or the most waiting first.")
    ] = Order.NAME,
    after: Annotated[
        str | None,
        typer.Option(help="The next page by name: begin after this channel.", show_default=False),
    ] = None,
    limit: Limit = 50,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """List channels, what they hold, and why they are not being served.

    Counts end at 1,000 each, so that listing costs little, however much waits.

    Example: lonnymq channels list --order waiting --limit 10
    """
    with opened(dsn, schema) as queue:
        dispatch(queue)
        found = queue.channels(order=order, after=after, limit=limit)
    if as_json:
        print_records(found)
        return
    otherwise = "There are no channels." if after is None else "There are no more channels."
    print_table(found, _columns(), otherwise=otherwise)
    if order == Order.NAME and len(found) == limit:
        note(f"For more: --after {shlex.quote(found[-1].channel)}")


@app.command()
def show(name: Name, *, dsn: Dsn = None, schema: Schema = SCHEMA, as_json: Json = False) -> None:
    """Show what a channel holds, counted up to 10,000, and its policy.

    Example: lonnymq channels show acme
    """
    with opened(dsn, schema) as queue:
        dispatch(queue)
        found = queue.channel(name).stats(cap=SHOWN_CAP)
        now = server_time(queue)
    if _is_unknown(found):
        raise NotThere(
            f"channel {name!r} has no messages and no limits, and nothing of it was ever served",
            "`lonnymq channels list` lists those that have",
        )
    if as_json:
        print_records([found])
    else:
        print_fields(_fields(found, now))


@app.command("set")
def set_policy(
    name: Name,
    *,
    max_concurrency: Annotated[
        int | None,
        typer.Option(min=0, help="At most so many are worked on at once; 0: no limit.", show_default=False),
    ] = None,
    release_interval: Annotated[
        float | None,
        typer.Option(min=0, help="At least so many seconds between two; 0: none.", show_default=False),
    ] = None,
    max_size: Annotated[
        int | None,
        typer.Option(min=0, help="At most so many wait or are worked on; 0: no limit.", show_default=False),
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option(
            min=0.001, max=1000, help="Its share: 2 is twice that of a channel with 1.", show_default=False
        ),
    ] = None,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """Change a channel's limits and its weight; those that are not given stay.

    Example: lonnymq channels set acme --max-concurrency 2 --release-interval 0.5
    """
    if all(given is None for given in (max_concurrency, release_interval, max_size, weight)):
        raise BadValue("nothing to set", "give --max-concurrency, --release-interval, --max-size or --weight")
    with opened(dsn, schema) as queue:
        _tell_if_new(queue, name)
        policy = queue.channel(name).set(
            max_concurrency=max_concurrency,
            release_interval=release_interval,
            max_size=max_size,
            weight=weight,
        )
    _print_policies([policy], as_json=as_json)


@app.command()
def pause(names: Names, *, dsn: Dsn = None, schema: Schema = SCHEMA, as_json: Json = False) -> None:
    """Serve no more of these channels until they are resumed. What is being worked on goes on.

    Example: lonnymq channels pause acme bluebird
    """
    _set_paused(names, dsn, schema, paused=True, as_json=as_json)


@app.command()
def resume(names: Names, *, dsn: Dsn = None, schema: Schema = SCHEMA, as_json: Json = False) -> None:
    """Serve paused channels again.

    Example: lonnymq channels resume acme
    """
    _set_paused(names, dsn, schema, paused=False, as_json=as_json)


@app.command()
def delete(
    name: Name,
    *,
    with_messages: Annotated[
        bool, typer.Option("--with-messages", help="Delete its messages too: waiting, leased and dead.")
    ] = False,
    yes: Yes = False,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """Forget a channel: its limits, and what it served; with its messages only when told so.

    Example: lonnymq channels delete acme --with-messages
    """
    with opened(dsn, schema) as queue:
        dispatch(queue)
        found = queue.channel(name).stats(cap=SHOWN_CAP)
        held = ", ".join(
            f"{count(number)}{'+' if counted >= SHOWN_CAP else ''} {what}"
            for what, number, counted in (
                ("waiting", found.waiting, found.scheduled),
                ("leased", found.leased, 0),
                ("dead", found.dead, found.dead),
            )
            if number
        )
        if held and not with_messages:
            raise NotThere(f"channel {name!r} is not empty: {held}", WITH_MESSAGES)
        confirm(f"Delete channel {name!r} ({held or 'no messages'})?", yes=yes)
        result, messages = _delete(queue, name, with_messages=with_messages)
    if result == "not_found":
        raise NotThere(f"there is no channel {name!r}", "`lonnymq channels list` lists those there are")
    if result == "not_empty":
        raise NotThere(f"channel {name!r} is not empty", WITH_MESSAGES)
    if as_json:
        print_json({"channel": name, "result": result, "messages": messages})
    else:
        typer.echo(f"{result}: {printable(name)} (messages: {count(messages)})")


def _delete(queue: Queue, name: str, *, with_messages: bool) -> tuple[str, int]:
    """In as many calls as it takes, and how many messages went."""
    messages = 0
    while True:
        deleted = queue.channel(name).delete(with_messages=with_messages)
        messages += deleted.messages
        if deleted.result != "more":
            return str(deleted.result), messages


def _set_paused(names: list[str], dsn: str | None, schema: str, *, paused: bool, as_json: bool) -> None:
    policies = []
    with opened(dsn, schema) as queue:
        for name in names:
            _tell_if_new(queue, name)
            policies.append(queue.channel(name).set(paused=paused))
    _print_policies(policies, as_json=as_json)


def _tell_if_new(queue: Queue, name: str) -> None:
    """It may be a slip of the pen, or a channel to come."""
    dispatch(queue)
    if _is_unknown(queue.channel(name).stats(cap=1)):
        note(f"Channel {name!r} is new: nothing was ever queued there.")


def _is_unknown(found: ChannelStatistics) -> bool:
    limits = found.max_concurrency, found.release_interval_ms, found.paused, found.max_size
    has_policy = any(limits) or found.weight != 1
    return not (has_policy or found.waiting or found.leased or found.dead or found.served)


def _columns() -> list[Column[ChannelStatistics]]:
    def oldest(channel: ChannelStatistics) -> str:
        return "" if channel.oldest_due_ms is None else span(channel.oldest_due_ms)

    return [
        Column("channel", lambda channel: channel.channel, gives_way=True),
        Column("due", lambda channel: count(channel.due), is_number=True),
        Column("scheduled", lambda channel: count(channel.scheduled, LISTED_CAP), is_number=True),
        Column("leased", lambda channel: count(channel.leased), is_number=True),
        Column("dead", lambda channel: count(channel.dead, LISTED_CAP), is_number=True),
        Column("oldest", oldest, is_number=True),
        Column("served", lambda channel: count(channel.served), is_number=True),
        Column("state", _state),
    ]


def _state(channel: ChannelStatistics) -> str:
    """Why nothing of it is served; if it is paused, that above all."""
    return "paused" if channel.paused else channel.blocked_by or "ready"


def _fields(channel: ChannelStatistics, now: int) -> list[tuple[str, str]]:
    return [
        ("channel", printable(channel.channel)),
        ("state", _state(channel)),
        ("due", count(channel.due)),
        ("scheduled", count(channel.scheduled, SHOWN_CAP)),
        ("leased", count(channel.leased)),
        ("dead", count(channel.dead, SHOWN_CAP)),
        ("oldest due", "" if channel.oldest_due_ms is None else span(channel.oldest_due_ms)),
        ("served", count(channel.served)),
        ("last served", exactly(channel.last_served_at, now)),
        ("max concurrency", _limit(channel.max_concurrency)),
        ("release interval", _limit(channel.release_interval_ms, unit=" ms")),
        ("max size", _limit(channel.max_size)),
        ("weight", f"{channel.weight:g}"),
    ]


def _limit(limit: int | None, unit: str = "") -> str:
    return f"{limit:,}{unit}" if limit else "no limit"


def _print_policies(policies: Sequence[ChannelPolicy], *, as_json: bool) -> None:
    if as_json:
        print_records(policies)
        return
    columns: list[Column[ChannelPolicy]] = [
        Column("channel", lambda policy: policy.channel, gives_way=True),
        Column("paused", lambda policy: "yes" if policy.paused else "no"),
        Column("max concurrency", lambda policy: _limit(policy.max_concurrency), is_number=True),
        Column("release interval", lambda policy: _limit(policy.release_interval_ms, " ms"), is_number=True),
        Column("max size", lambda policy: _limit(policy.max_size), is_number=True),
        Column("weight", lambda policy: f"{policy.weight:g}", is_number=True),
    ]
    print_table(policies, columns, otherwise="")
