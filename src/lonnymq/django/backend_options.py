"""The OPTIONS of a backend, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import partial
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from lonnymq.client.times import milliseconds, waiting
from lonnymq.django.database import check_is_postgresql
from lonnymq.errors import LonnyMQError
from lonnymq.message_options import DEFAULT_CHANNEL, Duration
from lonnymq.schema_name import check_schema_name
from lonnymq.worker.backoff import Delays

ChannelOf = Callable[..., str]


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """`channel` is a function, or the path of one, that is called with the task, its args and its kwargs and
    returns the channel of a call whose task has none. `instrument` are functions, or paths of them, that get
    each queue of the backend, such as `lonnymq.otel.instrument`. The others are described in docs/django.md.
    """

    database: str = "default"
    worker_database: str | None = None
    schema: str = "lonnymq"
    channel: str | ChannelOf | None = None
    max_attempts: int = 1
    max_crashes: int = 3
    backoff: Delays | None = None
    timeout: Duration | None = None
    lease: Duration | None = None
    keep_result: Duration = timedelta(days=7)
    instrument: tuple[Any, ...] = ()

    @classmethod
    def of(cls, alias: str, given: Mapping[str, Any]) -> BackendOptions:
        """Raises ImproperlyConfigured, which names the backend and the option."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise ImproperlyConfigured(
                    f"TASKS[{alias!r}]: there is no option {name!r}. The options are {', '.join(known)}."
                )
        made = cls(**given)
        for name in known:
            try:
                made.check(name)
            except (ImportError, ImproperlyConfigured, LonnyMQError, ValueError) as error:
                raise ImproperlyConfigured(f"TASKS[{alias!r}], option {name!r}: {error}") from error
        return made

    def check(self, name: str) -> None:
        """Raise an error that says what is wrong with one of the options."""
        value = getattr(self, name)
        if value is not None or name in NEEDED:
            check_option(name, value)

    def channel_of(self, task: Any, args: Any, kwargs: Any) -> str:
        """The channel of a call: that of the task, else what the function of the settings says."""
        own: str | None = getattr(task, "channel", None)
        if own is not None:
            return own
        if self.channel is None:
            return DEFAULT_CHANNEL
        chosen: str | None = imported(self.channel)(task, args, kwargs)
        return DEFAULT_CHANNEL if chosen is None else chosen


def check_option(name: str, value: Any) -> None:
    """Raise an error that says what is wrong with the value of an option."""
    if name in CHECKS:
        CHECKS[name](value)


def imported(function: object) -> Callable[..., Any]:
    """The function, or the one at this path."""
    found = import_string(function) if isinstance(function, str) else function
    if not callable(found):
        raise ImproperlyConfigured(f"{function!r} is not a function")
    return found  # type: ignore[no-any-return]


def _check_all(functions: Iterable[object]) -> None:
    for function in functions:
        imported(function)


def _check_positive(value: Duration) -> None:
    if milliseconds(value) <= 0:
        raise ValueError(f"{value!r} is not a positive duration. Give seconds or a timedelta.")


def _check_delays(value: Delays) -> None:
    if not callable(value):
        waiting(value)


def _check_count(least: int, value: object) -> None:
    if type(value) is not int or value < least:
        raise ValueError(f"{value!r} is not a whole number of {least} or more")


NEEDED = ("database", "schema", "max_attempts", "max_crashes", "keep_result")
CHECKS: dict[str, Callable[[Any], object]] = {
    "database": check_is_postgresql,
    "worker_database": check_is_postgresql,
    "schema": check_schema_name,
    "channel": imported,
    "instrument": _check_all,
    "max_attempts": partial(_check_count, 1),
    "max_crashes": partial(_check_count, 0),
    "keep_result": waiting,
    "timeout": _check_positive,
    "lease": _check_positive,
    "backoff": _check_delays,
}
