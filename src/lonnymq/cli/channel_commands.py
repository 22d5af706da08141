"""channels: list them, show one, explain why it waits, set its policy, pause and resume it, delete it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lonnymq.channel_policy import POLICIES
from lonnymq.cli.completion import channel_names
from lonnymq.cli.confirm import confirm
from lonnymq.cli.display import limit_text
from lonnymq.cli.failure import BadValue, NotThere
from lonnymq.cli.open_queue import opened
from lonnymq.cli.option_flags import flag, text_flag, with_flags
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Limit, Schema, Yes, print_json
from lonnymq.cli.printing import Column, note, print_list, print_page, print_record, print_records
from lonnymq.errors import NotPermitted
from lonnymq.formatting import count, duration, exactly, printable
from lonnymq.monitor.explanations import explanation
from lonnymq.monitor.known import is_known
from lonnymq.monitor.server import dispatch, server_time

if TYPE_CHECKING:
    from lonnymq.client.queue import Queue
    from lonnymq.commands import ChannelPolicy, ChannelStatistics

LISTED_CAP, SHOWN_CAP = 1_000, 10_000
WITH_MESSAGES = "add --with-messages to delete them too"

app = typer.Typer(help="Channels: list, show, explain, set limits, pause, delete.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(help="The channel's name.", show_default=False, autocompletion=channel_names)
]
Names = Annotated[
    list[str], typer.Argument(help="The channels' names.", show_default=False, autocompletion=channel_names)
]


class ChannelOrder(StrEnum):
    """How channels are ordered."""

    NAME = "name"
    NEXT = "next"
    WAITING = "waiting"


@app.command("list")
def list_channels(
    *,
    order: Annotated[
        ChannelOrder, typer.Option(help="By name, by who is served next, or by how much waits.")
    ] = ChannelOrder.NAME,
    prefix: Annotated[
        str | None,
        typer.Option(help="Only channels whose names begin with this, by name.", show_default=False),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(help="Start after this channel, to see the next page by name.", show_default=False),
    ] = None,
    limit: Limit = 50,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """List channels, what they hold, and why they are not served now.

    Scheduled and dead messages are counted up to 1,000, so that the list is cheap.

    Example: lonnymq channels list --order waiting --limit 10
    """
    with opened(dsn, schema) as queue:
        dispatch(queue)
        found = queue.channels(order=order, prefix=prefix, after=after, limit=limit)
    has_pages = order == ChannelOrder.NAME
    print_page(
        found,
        _columns(),
        limit=limit if has_pages else limit + 1,
        cursor=lambda channel: channel.channel,
        otherwise=_none_listed(prefix, after),
        as_json=as_json,
    )


def _none_listed(prefix: str | None, after: str | None) -> str:
    if after is not None:
        return "There are no more channels."
    return "There are no channels whose names begin with it." if prefix else "There are no channels."


@app.command()
def show(name: Name, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Show what a channel holds, counted up to 10,000, and its policy.

    Example: lonnymq channels show acme
    """
    with opened(dsn, schema) as queue:
        dispatch(queue)
        found = queue.channel(name).stats(cap=SHOWN_CAP)
        now = server_time(queue)
    if not is_known(found):
        raise NotThere(
            f"channel {name!r} has no messages and no policy, and nothing of it was ever served",
            "`lonnymq channels list` lists the channels",
        )
    print_record(found, partial(_fields, now=now), as_json=as_json)


@app.command()
def explain(name: Name, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Say why a channel is not served now, and what to do about it: one line per lane.

    Example: lonnymq channels explain acme
    """
    with opened(dsn, schema) as queue:  # without a dispatch, which would hide that nobody else dispatches
        found = queue.channel(name).explain()
        now = server_time(queue)
    if as_json:
        print_records(found)
        return
    for each in found:
        typer.echo(explanation(name, each, now).text)


@app.command("set")
@with_flags(
    {
        name: flag(float, part.help, part.least, part.most)
        if part.read is None
        else text_flag(part.read, part.metavar, part.help)
        for name, part in POLICIES.items()
    }
)
def set_policy(
    name: Name, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False, **options: Any
) -> None:
    """Change a channel's limits and its weight. Those that you do not give keep their values.

    A limit of 0 means no limit. With inherit, the channel has the limit that `lonnymq queue set` gives all
    channels, for example with --channel-rate.

    Example: lonnymq channels set acme --max-concurrency 2 --rate 20/s --burst 50
    """
    if all(value is None for value in options.values()):
        flags = [f"--{name.replace('_', '-')}" for name in POLICIES]
        raise BadValue("nothing to set", f"give {', '.join(flags[:-1])} or {flags[-1]}")
    with opened(dsn, schema) as queue:
        _note_if_new(queue, name)
        policy = queue.channel(name).set(**options)
    _print_policies([policy], as_json=as_json)


@app.command()
def pause(names: Names, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Stop serving these channels until you resume them. Messages that are being worked on are finished.

    Example: lonnymq channels pause acme bluebird
    """
    _set_paused(names, dsn, schema, paused=True, as_json=as_json)


@app.command()
def resume(names: Names, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
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
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Delete a channel: its policy and statistics, and its messages if you say so.

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
        raise NotThere(f"there is no channel {name!r}", "`lonnymq channels list` lists the channels")
    if result == "not_empty":
        raise NotThere(f"channel {name!r} is not empty", WITH_MESSAGES)
    if as_json:
        print_json({"channel": name, "result": result, "messages": messages})
    else:
        typer.echo(f"{result}: {printable(name)} (messages: {count(messages)})")


def _delete(queue: Queue, name: str, *, with_messages: bool) -> tuple[str, int]:
    """Call until it is done. Returns the result and how many messages were deleted."""
    messages = 0
    while True:
        deleted = queue.channel(name).delete(with_messages=with_messages)
        messages += deleted.messages
        if deleted.result != "more":
            return str(deleted.result), messages


def _set_paused(names: list[str], dsn: str | None, schema: str, *, paused: bool, as_json: bool) -> None:
    """All of them or none: a name may be refused."""
    from lonnymq.cli.database import connect

    with opened(dsn, schema) as queue:
        for name in names:
            _note_if_new(queue, name)
        with connect(dsn) as conn, conn.transaction():  # in one order, so that two commands do not deadlock
            found = {name: queue.channel(name).set(paused=paused, conn=conn) for name in sorted(set(names))}
    _print_policies([found[name] for name in names], as_json=as_json)


def _note_if_new(queue: Queue, name: str) -> None:
    """The name may be a typo, or a channel that will be used later."""
    if not dispatch(queue):
        return
    with suppress(NotPermitted):  # if this login may not change a policy, that call says which role it needs
        if not is_known(queue.channel(name).stats(cap=1)):
            note(f"Channel {name!r} is new: nothing was ever enqueued there.")


def _columns() -> list[Column[ChannelStatistics]]:
    def oldest(channel: ChannelStatistics) -> str:
        return "" if channel.oldest_due_ms is None else duration(channel.oldest_due_ms)

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
    """Why it is not served now. A pause comes first."""
    return "paused" if channel.paused else channel.blocked_by or "ready"


def _fields(channel: ChannelStatistics, now: int) -> list[tuple[str, str]]:
    return [
        ("channel", printable(channel.channel)),
        ("state", _state(channel)),
        ("due", count(channel.due)),
        ("scheduled", count(channel.scheduled, SHOWN_CAP)),
        ("leased", count(channel.leased)),
        ("dead", count(channel.dead, SHOWN_CAP)),
        ("oldest due", "" if channel.oldest_due_ms is None else duration(channel.oldest_due_ms)),
        ("served", count(channel.served)),
        ("last served", exactly(channel.last_served_at, now)),
        *((part.title, _shown(name, channel)) for name, part in POLICIES.items()),
    ]


def _shown(name: str, policy: ChannelPolicy) -> str:
    """A part of a policy. The queue's limits for channels are marked."""
    shown = limit_text(getattr(policy, name))
    return f"{shown} (inherited)" if name in policy.inherited else shown


def _print_policies(policies: Sequence[ChannelPolicy], *, as_json: bool) -> None:
    columns: list[Column[ChannelPolicy]] = [
        Column("channel", lambda policy: policy.channel, gives_way=True),
        Column("paused", lambda policy: "yes" if policy.paused else "no"),
        *(Column(part.title, partial(_shown, name), is_number=True) for name, part in POLICIES.items()),
    ]
    print_list(policies, columns, otherwise="", as_json=as_json)
