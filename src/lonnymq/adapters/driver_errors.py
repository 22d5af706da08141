"""What a driver's error means, whichever driver it was and whoever wrapped it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import NoReturn, Self

from lonnymq.errors import (
    IS_IT_UP,
    ConnectionDropped,
    DatabaseUnreachable,
    LonnyMQError,
    NotPermitted,
    from_call,
)

# Shut down, crashed, starting up; and sessions that were ended for idling, or for too long a transaction.
ENDED = {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"}


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
            return from_call(code, message or str(layer), hint)
    if any(_is_drop(layer) for layer in _layers(error)):
        return ConnectionDropped(str(error))
    return None


def sqlstate_of(error: BaseException) -> str | None:
    """What the server said, if it said anything."""
    for layer in _layers(error):
        code = getattr(layer, "sqlstate", None) or getattr(layer, "pgcode", None)
        if code is not None:
            return str(code)
    return None


def refuse(error: BaseException) -> NoReturn:
    """Raise what a driver's error means; the error itself where it means nothing to us."""
    ours = translated(error)
    if ours is None:
        raise error
    raise ours from error


def refuse_call(error: BaseException, schema: str, name: str, login: Callable[[], str | None]) -> NoReturn:
    """As refuse, where a function, view or table of this name was used: a login that may not do so is told
    which role it lacks.
    """
    ours = translated(error)
    if isinstance(ours, NotPermitted):
        from lonnymq.install.missing_roles import lacking

        raise lacking(schema, name, login(), ours.message) from error
    refuse(error)


class Lent:
    """The time for which a connection is lent: tells the borrower's errors from those before and after."""

    def __init__(self) -> None:
        self._is_begun = False
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        self._is_begun = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._error = error

    def refuse(self, error: BaseException) -> NoReturn:
        """Raise what an error means: the borrower's is theirs; one before, that there was nothing to lend."""
        if error is self._error:
            raise error
        ours = translated(error)
        if isinstance(ours, ConnectionDropped) and not self._is_begun:
            raise DatabaseUnreachable(
                f"could not connect: {ours.message}",
                IS_IT_UP,
            ) from error
        refuse(error)


def _is_drop(layer: BaseException) -> bool:
    """Of an error that the server had no part in."""
    name = type(layer).__name__
    return (
        isinstance(layer, OSError)
        or bool(getattr(layer, "connection_invalidated", False))
        or name in {"OperationalError", "PoolTimeout"}
        or (name == "InterfaceError" and "closed" in str(layer))
        or name == "InternalClientError"  # asyncpg: it read the end of the connection before it sent anything
    )


def _layers(error: BaseException | None) -> Iterator[BaseException]:
    """From the driver's own error outwards: SQLAlchemy and Django wrap it, some drivers twice."""
    if error is not None:
        yield from _layers(error.__cause__)
        yield from _layers(getattr(error, "orig", None))
        yield error
