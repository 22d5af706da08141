"""spark report and simulate: how tenants were served, and how they would have been with other settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema
from lonnymq.cli.spark_job import Conf, Master, Since, Until, local_time, spark_job


def report(
    *,
    lake: Annotated[
        str | None,
        typer.Option(
            help="Report on this archive. Default: on the history in PostgreSQL.", show_default=False
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    bucket: Annotated[
        float | None,
        typer.Option(
            help="Seconds per time interval. Default: the whole time in 200 intervals.", show_default=False
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write an HTML page with plots to this file.", show_default=False)
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(help="Write a table with one row per tenant to this file.", show_default=False),
    ] = None,
    master: Master = "local[*]",
    conf: Conf = None,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Report how each tenant was served: waits, throughput, shares and entitlements, retries, failures.

    Example: lonnymq spark report --lake /srv/lake --since 2030-01-01 --html report.html
    """
    from lonnymq.spark.reports.build import report as run
    from lonnymq.spark.reports.sources import rows_of_lake, rows_of_queue

    begin, end = local_time(since), local_time(until)
    with spark_job(dsn, schema, master, conf, "reporting", lake=lake) as job:
        rows = (
            rows_of_queue(job.spark, job.options)
            if lake is None
            else rows_of_lake(job.spark, lake, begin, end)
        )
        found = run(
            job.spark,
            rows.history,
            begin,
            end,
            policies=rows.policies,
            waiting=rows.waiting,
            bucket=bucket,
        )
    if html is not None:
        found.write_html(html)
    if parquet is not None:
        found.write_parquet(parquet)
    if as_json:
        typer.echo(found.to_json())
        return
    found.print()
    for path in filter(None, (html, parquet)):
        typer.echo(f"wrote {path}")


def simulate_settings(
    *,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="CHANNEL.SETTING=VALUE",
            help="Another max_concurrency, rate, burst, weight or paused of a channel. Can be repeated.",
            show_default=False,
        ),
    ] = None,
    consumers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Messages that are worked on at once. Default: as many as ever were.",
            show_default=False,
        ),
    ] = None,
    max_concurrency: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Another limit of the whole queue. 0: no limit. Default: as it was.",
            show_default=False,
        ),
    ] = None,
    lake: Annotated[
        str | None,
        typer.Option(help="Simulate this archive. Default: the history in PostgreSQL.", show_default=False),
    ] = None,
    since: Since = None,
    until: Until = None,
    html: Annotated[
        Path | None, typer.Option(help="Write an HTML page with plots to this file.", show_default=False)
    ] = None,
    master: Master = "local[*]",
    conf: Conf = None,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Simulate how long messages would have waited with other settings.

    Example: lonnymq spark simulate --lake /srv/lake --set acme.max_concurrency=4 --consumers 16
    """
    from lonnymq.simulation.scenario import Scenario, parse_settings
    from lonnymq.spark.simulation.run import simulate as run

    channels = parse_settings(changes or [])
    is_changed = channels or consumers is not None or max_concurrency is not None
    scenarios = [Scenario("proposed", channels, consumers, max_concurrency)] if is_changed else []
    with spark_job(dsn, schema, master, conf, "simulating", lake=lake) as job:
        found = run(
            job.spark,
            job.finished(lake, "history", since, until),
            job.policies(lake),
            scenarios,
            waiting=job.waiting(lake),
            since=local_time(since),
            until=local_time(until),
            progress=job.describe,
        )
    if html is not None:
        found.write_html(html)
    if as_json:
        typer.echo(found.to_json())
        return
    found.print()
    if html is not None:
        typer.echo(f"wrote {html}")
