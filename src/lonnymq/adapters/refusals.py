"""What a driver's error means, whichever driver it was and whoever wrapped it."""

from __future__ import annotations

from collections.abc import Iterator

from lonnymq.errors import LonnyMQError, from_sqlstate


def translated(error: BaseException) -> LonnyMQError | None:
    """Ours, where the SQLSTATE is one we know."""
    for layer in _layers(error):
        code = getattr(layer, "sqlstate", None) or getattr(layer, "pgcode", None)
        if code is not None:
            diagnosis = getattr(layer, "diag", None)
            message = getattr(diagnosis, "message_primary", None) or getattr(layer, "message", None)
            hint = getattr(diagnosis, "message_hint", None) or getattr(layer, "hint", None)
            return from_sqlstate(code, message or str(layer), hint)
    return None


def _layers(error: BaseException | None) -> Iterator[BaseException]:
    """From the driver's own error outwards: SQLAlchemy and Django wrap it, some drivers twice."""
    if error is not None:
        yield from _layers(error.__cause__)
        yield from _layers(getattr(error, "orig", None))
        yield error
