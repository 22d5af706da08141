"""What a driver's error means, whichever driver it was and whoever wrapped it."""

from __future__ import annotations

from collections.abc import Iterator

from lonnymq.errors import ConnectionDropped, LonnyMQError, from_sqlstate

# Shut down, crashed, starting up; and sessions that were ended for idling.
ENDED = {"57P01", "57P02", "57P03", "57P05", "25P03"}


def translated(error: BaseException) -> LonnyMQError | None:
    """Ours, where the SQLSTATE is one we know, or the connection is gone."""
    for layer in _layers(error):
        code = getattr(layer, "sqlstate", None) or getattr(layer, "pgcode", None)
        if code is not None:
            diagnosis = getattr(layer, "diag", None)
            message = getattr(diagnosis, "message_primary", None) or getattr(layer, "message", None)
            hint = getattr(diagnosis, "message_hint", None) or getattr(layer, "hint", None)
            if code.startswith("08") or code in ENDED:
                return ConnectionDropped(message or str(layer))
            return from_sqlstate(code, message or str(layer), hint)
    if any(_is_drop(layer) for layer in _layers(error)):
        return ConnectionDropped(str(error))
    return None


def _is_drop(layer: BaseException) -> bool:
    """Of an error that the server had no part in."""
    name = type(layer).__name__
    return (
        isinstance(layer, OSError)
        or bool(getattr(layer, "connection_invalidated", False))
        or name == "OperationalError"
        or (name == "InterfaceError" and "closed" in str(layer))
    )


def _layers(error: BaseException | None) -> Iterator[BaseException]:
    """From the driver's own error outwards: SQLAlchemy and Django wrap it, some drivers twice."""
    if error is not None:
        yield from _layers(error.__cause__)
        yield from _layers(getattr(error, "orig", None))
        yield error
