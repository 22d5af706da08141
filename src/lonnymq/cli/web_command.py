"""web: the dashboard in a browser."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lonnymq.cli.failure import BadValue
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Schema
from lonnymq.cli.printing import note
from lonnymq.errors import InvalidArgument

DEFAULT_HOST = "127.0.0.1"

Host = Annotated[
    str,
    typer.Option(
        help="Listen on this address; 0.0.0.0: on all of this machine. Any but 127.0.0.1 and ::1 needs a user"
        " and a password."
    ),
]
Port = Annotated[
    int,
    typer.Option(min=0, max=65_535, help="Listen on this port; 0: on a free one, which is printed."),
]
TraceUrl = Annotated[
    str | None,
    typer.Option(
        help="Link messages to their traces: an address with {trace_id} in it.",
        show_default=False,
    ),
]
Redact = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WORD",
        help="Also hide values in payloads and headers whose keys contain this word. May be given several"
        " times. Passwords, tokens and the like are always hidden.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    app.command()(web)


def web(
    *,
    host: Host = DEFAULT_HOST,
    port: Port = 8080,
    trace_url: TraceUrl = None,
    redact: Redact = None,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Serve the dashboard until Ctrl-C: tenants, fairness, messages, dead letters, workers and more.

    LONNYMQ_WEB_USER and LONNYMQ_WEB_PASSWORD in the environment are the user and the password that the
    browser asks for. Without them, everyone on this machine may use it, and nobody else can connect.

    Example: lonnymq web --port 8081
    """
    from lonnymq.web import create_app
    from lonnymq.web.redact import SECRET_WORDS
    from lonnymq.web.serve import listen, rule_for, serve, url_of

    try:
        rule = rule_for(host, os.environ)
    except InvalidArgument as error:
        raise BadValue(error.message, error.hint) from error
    if "" in (redact or ()):
        raise BadValue("--redact: the word is empty", "an empty word would hide everything")
    if trace_url is not None and "{trace_id}" not in trace_url:
        raise BadValue(
            f"--trace-url: {trace_url!r} has no {{trace_id}}", "such as https://traces.example/{trace_id}"
        )
    with opened(dsn, schema) as queue, listen(host, port) as listening:
        app = create_app(queue, rule, redact=(*SECRET_WORDS, *(redact or ())), trace_url=trace_url)
        note(f"The dashboard is at {url_of(host, listening)} until Ctrl-C.")
        serve(app, listening)
