"""Schedules: a cron expression, and the message that it creates. Checked when it is defined."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from lonnymq.errors import InvalidArgument, MissingExtra
from lonnymq.worker.catch_up import CATCH_UPS, CatchUp
from lonnymq.worker.cron_times import CronTimes

NAME_MAX_BYTES = 255
EXPRESSION_MAX_CHARS = 1000
FIELDS = "give minute, hour, day of month, month and weekday, such as */5 * * * *; seconds may come first"


@dataclass(frozen=True)
class CronMessage:
    """The message that each scheduled time creates. It gets a header `scheduled-at`, in Unix milliseconds.

    `options` are those of message_create, by their names in SQL.
    """

    channel: str
    content: bytes
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Cron:
    """A schedule. Workers that define a schedule of the same name share it."""

    name: str
    times: CronTimes
    catch_up: CatchUp
    message: CronMessage


def cron(
    name: str,
    expression: str,
    message: CronMessage,
    *,
    tz: str | tzinfo | None = None,
    catch_up: CatchUp = "one",
) -> Cron:
    """Make a schedule, or raise InvalidArgument. Without a time zone, times are UTC."""
    if not _is_text(name) or not 1 <= len(name.encode()) <= NAME_MAX_BYTES:
        raise InvalidArgument(f"{name!r} cannot name a schedule", f"give 1 to {NAME_MAX_BYTES} bytes of text")
    if catch_up not in CATCH_UPS:
        raise InvalidArgument(f"catch_up: {catch_up!r} is not known", f"give one of {', '.join(CATCH_UPS)}")
    times = CronTimes(expression, _zone(tz))
    _check(times)
    return Cron(name, times, catch_up, message)


def _zone(tz: str | tzinfo | None) -> tzinfo:
    if tz is None or isinstance(tz, tzinfo):
        return tz or UTC
    try:
        return ZoneInfo(tz)
    except (KeyError, OSError, TypeError, ValueError):
        raise InvalidArgument(
            f"there is no time zone {tz!r}",
            "name one such as Europe/Berlin; where the system has none at all, pip install tzdata",
        ) from None


def _check(times: CronTimes) -> None:
    try:
        from cronsim import CronSimError
    except ImportError:
        raise MissingExtra("schedules need cronsim", "pip install 'lonnymq[cron]'") from None
    expression = times.expression
    if not _is_text(expression) or len(expression) > EXPRESSION_MAX_CHARS:
        raise InvalidArgument(f"{str(expression)[:100]!r} is not a cron expression", FIELDS)
    try:
        first = times.after(int(time.time() * 1000))
    except CronSimError as error:
        raise InvalidArgument(f"{expression!r} is not a cron expression: {error}", FIELDS) from None
    if first is None:
        raise InvalidArgument(f"{expression!r} has no next time", "name a day that exists")


def _is_text(given: object) -> bool:
    """Callers without a type checker may pass anything."""
    return isinstance(given, str)
