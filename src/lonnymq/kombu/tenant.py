"""Which channel of the queue a message goes to: one per tenant."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from lonnymq.errors import InvalidChannel
from lonnymq.kombu.options import Options
from lonnymq.message_options import DEFAULT_CHANNEL


def channel_of(message: Mapping[str, Any], options: Options) -> str:
    """The channel that the call names, as in `apply_async(channel="acme")`; else the one in the message's
    header; else the one that the option `channel` chooses; else the one of the Celery task that is running;
    else `default`.
    """
    name = options.channel_header
    chosen = message["properties"].get(name)  # kombu puts arguments that it does not know there
    if chosen is None:
        chosen = (message.get("headers") or {}).get(name)
    if chosen is None and options.channel is not None:
        chosen = options.channel(message)
    if chosen is None:
        chosen = _of_running_task(name)
    if chosen is None:
        return DEFAULT_CHANNEL
    if not isinstance(chosen, str):
        raise InvalidChannel(f"channel: {chosen!r} is not a string", "give the name of the tenant's channel")
    return chosen


def _of_running_task(header: str) -> str | None:
    """Subtasks, retries and callbacks stay in their tenant's channel."""
    state = sys.modules.get("celery._state")
    task = None if state is None else state.get_current_task()
    found = None if task is None else task.request.get(header)
    return found if isinstance(found, str) else None
