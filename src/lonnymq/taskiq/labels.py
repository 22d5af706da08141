"""The labels of a task that are options of its message. taskiq sends labels as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

from lonnymq.errors import InvalidArgument
from lonnymq.message_options import TEXT_MAX_BYTES, MessageOptions

CHANNEL_LABEL = "channel"
NOT_GIVEN = "None"  # what taskiq makes of a label that is None
RETRIES_LABEL = "_retries"  # of taskiq's retry middlewares
REQUEUES_LABEL = "X-Taskiq-requeue"  # of taskiq's Context.requeue


class InvalidLabel(InvalidArgument):
    """A label of a task cannot be an option of its message. Nothing was sent."""


_READ: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "lane": (str, "give the name of a lane"),
    "priority": (int, "give a whole number from -100 to 100"),
    "cost": (int, "give a whole number from 1 to 1,000,000"),
    "delay": (float, "give a number of seconds"),
    "run_at": (datetime.fromisoformat, "give an aware datetime, such as 2030-12-31T09:00+01:00"),
    "dedupe_key": (str, "give 1 to 255 bytes of text"),
    "unique_while": (str, "give waiting or running"),
    "unique_for": (float, "give a number of seconds"),
    "max_attempts": (int, "give a whole number from 1 to 1,000,000"),
}


def options_of(labels: Mapping[str, Any]) -> MessageOptions:
    """The options that the labels give. Other labels are taskiq's, or the user's own."""
    options: dict[str, Any] = {}
    for name, (read, hint) in _READ.items():
        given = labels.get(name)
        if given is None or given == NOT_GIVEN:
            continue
        try:
            options[name] = read(str(given))
        except ValueError:
            raise InvalidLabel(f"label {name}: {given!r} cannot be used", hint) from None
    if "dedupe_key" in options:
        options["dedupe_key"] = _key_of_attempt(options["dedupe_key"], labels)
    return cast("MessageOptions", options)


def channel_of(labels: Mapping[str, Any]) -> str | None:
    """The channel that the labels name; None if they name none."""
    given = labels.get(CHANNEL_LABEL)
    if given in (NOT_GIVEN, ""):
        raise InvalidLabel(
            f"label channel: {given!r} is not a channel", "name the tenant's channel, or leave out the label"
        )
    return None if given is None else str(given)


def _key_of_attempt(key: str, labels: Mapping[str, Any]) -> str:
    """taskiq retries a task by sending it again while it runs, and its message may still hold the key. So
    each retry has a key of its own.
    """
    found = [str(labels[name]) for name in (RETRIES_LABEL, REQUEUES_LABEL) if name in labels]
    made = "/".join([key, *found])
    return made if len(made.encode(errors="replace")) <= TEXT_MAX_BYTES else key
