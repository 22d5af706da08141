"""Translates the errors of all drivers to ours, also when SQLAlchemy or Django has wrapped them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from types import TracebackType
from typing import NoReturn, Self, TypeVar

from lonnymq.errors import (
    ConnectionDropped,
    DatabaseUnreachable,
    LonnyMQError,
    NotPermitted,
)
from lonnymq.server_errors import from_call, hint_to_connect

Value = TypeVar("Value")

# Shut down, crashed, starting up; sessions terminated for being idle, or because of a transaction timeout.
SESSION_ENDED = {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"}


def translated(error: BaseException) -> LonnyMQError | None:
    """The LonnyMQ error for it, if its SQLSTATE is known or the connection is lost."""
    for layer in _layers(error):
        code = getattr(layer, "sqlstate", None) or getattr(layer, "pgcode", None)
        if code is not None:
            diagnostics = getattr(layer, "diag", None)
            message = getattr(diagnostics, "message_primary", None) or getattr(layer, "message", None)
            hint = getattr(diagnostics, "message_hint", None) or getattr(layer, "hint", None)
            if code.startswith("08") or code in SESSION_ENDED:
                return ConnectionDropped(message or str(layer))
            return from_call(code, message or str(layer), hint)
    if any(_is_connection_loss(layer) for layer in _layers(error)):
        return ConnectionDropped(str(error))
    return None


def sqlstate_of(error: BaseException) -> str | None:
    """The SQLSTATE, if the error came from the server."""
    for layer in _layers(error):
        code = getattr(layer, "sqlstate", None) or getattr(layer, "pgcode", None)
        if code is not None:
            return str(code)
    return None


def refuse(error: BaseException) -> NoReturn:
    """Raise the LonnyMQ error for a driver's error, or the error itself if there is none."""
    ours = translated(error)
    if ours is None:
        raise error
    raise ours from error


def refuse_call(error: BaseException, schema: str, name: str, login: Callable[[], str | None]) -> NoReturn:
    """As `refuse`, after using the function, view or table `name`. If the login lacks the privilege, the
    error names the role to grant.
    """
    ours = translated(error)
    if isinstance(ours, NotPermitted):
        from lonnymq.install.missing_roles import missing_role

        raise missing_role(schema, name, login(), ours.message) from error
    refuse(error)


class CallerBlock:
    """The block in which the caller uses a connection of a pool. It distinguishes the caller's errors from
    those of getting the connection and of giving it back.
    """

    def __init__(self) -> None:
        self._is_entered = False
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        self._is_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._error = error

    def refuse(self, error: BaseException) -> NoReturn:
        """Raise the caller's own error unchanged. An error before the block means that there was no
        connection.
        """
        if error is self._error:
            raise error
        ours = translated(error)
        if isinstance(ours, ConnectionDropped) and not self._is_entered:
            hint = hint_to_connect(ours.message)
            raise DatabaseUnreachable(f"could not connect: {ours.message}", hint) from error
        refuse(error)


@contextmanager
def with_translated_errors(
    context: AbstractContextManager[Value], failures: tuple[type[Exception], ...]
) -> Iterator[Value]:
    """Enter the context, and translate errors of entering and leaving it. The caller's own are unchanged."""
    block = CallerBlock()
    try:
        with context as value, block:
            yield value
    except failures as error:
        block.refuse(error)


@asynccontextmanager
async def with_translated_errors_async(
    context: AbstractAsyncContextManager[Value], failures: tuple[type[Exception], ...]
) -> AsyncIterator[Value]:
    block = CallerBlock()
    try:
        async with context as value:
            with block:
                yield value
    except failures as error:
        block.refuse(error)


def _is_connection_loss(layer: BaseException) -> bool:
    """For an error without a SQLSTATE."""
    name = type(layer).__name__
    return (
        isinstance(layer, OSError)
        or bool(getattr(layer, "connection_invalidated", False))
        or name in {"OperationalError", "PoolTimeout"}
        or (name == "InterfaceError" and "closed" in str(layer))
        or name == "InternalClientError"  # asyncpg: the connection was closed before it sent anything
    )


def _layers(error: BaseException | None) -> Iterator[BaseException]:
    """The errors that wrap each other, the driver's own first."""
    if error is not None:
        yield from _layers(error.__cause__)
        yield from _layers(getattr(error, "orig", None))
        yield error
