"""`replay`: enqueue past messages again, from the lake or directly from history or dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from lonnymq.errors import InvalidArgument, LonnyMQError
from lonnymq.spark.load_files import write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lonnymq.spark.sink.publication import Publication


KEPT = ("headers", "lane", "priority", "cost", "dedupe_key", "max_attempts")


class NothingToReplay(LonnyMQError):
    """Some rows have no content, so no messages can be made from them."""


def replay(
    rows: DataFrame,
    options: Mapping[str, str],
    *,
    channels: list[str] | None = None,
    outcomes: list[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    into: str | None = None,
    once: str | None = None,
    drop_full: bool = False,
) -> Publication:
    """Enqueue a new message for each of these rows of history or dead letters. Returns how many.

    `into` is one channel for all of them; without it, each goes to its own channel again. They keep their
    headers, lane, priority, cost and dedupe key, so a message whose key is held by one that waits is a
    duplicate. A dead letter keeps its max_attempts; the history has none, and the queue's applies. Attempts
    are counted from the beginning. With `once`, a replay of that name is done only once, and a replay of no
    rows does not count. `load` says what happens then, and with full channels.
    """
    from pyspark.sql.functions import col, lit

    from lonnymq.spark.sink.publication import Publication

    chosen = narrowed(rows, channels=channels, outcomes=outcomes, since=since, until=until)
    if chosen.where(col("content").isNull()).limit(1).count():
        raise NothingToReplay(
            "the history did not keep the content of some of these messages",
            "`SELECT queue_set(p_history_content => TRUE)` keeps it from now on; dead letters always have it",
        )
    if once is not None and chosen.isEmpty():
        return Publication(created=0, duplicates=0, refused=0, is_repeat=False)
    to = lit(into) if into is not None else col("channel")
    kept = [name for name in KEPT if name in rows.columns]  # an archive of an older version has fewer
    return write(chosen.select(to.alias("channel"), "content", *kept), options, once, drop_full=drop_full)


def narrowed(
    rows: DataFrame,
    *,
    channels: list[str] | None,
    outcomes: list[str] | None,
    since: datetime | None,
    until: datetime | None,
) -> DataFrame:
    from pyspark.sql.functions import col, lit
    from pyspark.sql.types import MapType

    finished_at = "finished_at" if "finished_at" in rows.columns else "dead_at"
    if finished_at not in rows.columns or "content" not in rows.columns:
        raise InvalidArgument(
            "these rows are not of history or of dead letters, or were read without their content",
            'read format("lonnymq_history") or format("lonnymq_dead"), or the tables of the archive',
        )
    if "headers" in rows.columns and isinstance(rows.schema["headers"].dataType, MapType):
        raise InvalidArgument(
            "the headers are a map, in which every value is a text",
            "read the rows with headersFormat=json, so that a replay changes nothing",
        )
    if channels is not None:
        rows = rows.where(col("channel").isin(channels))
    if outcomes is not None:
        if "outcome" not in rows.columns:
            raise InvalidArgument("dead letters have no outcome", "leave outcomes out")
        rows = rows.where(col("outcome").isin(outcomes))
    if since is not None:
        rows = rows.where(col(finished_at) >= lit(since))
    if until is not None:
        rows = rows.where(col(finished_at) < lit(until))
    return rows
