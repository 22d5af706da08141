"""The tenant of a call, for the option `channel` of the backend."""

from typing import Any


def channel_of(task: Any, args: Any, kwargs: Any) -> str | None:
    """By an argument of the call; None: the channel `default`."""
    tenant: str | None = kwargs.get("tenant")
    return tenant
