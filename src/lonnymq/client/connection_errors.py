"""What a queue says of connections: those it is given, and those that fail."""

from __future__ import annotations

from typing import Any

from lonnymq.errors import (
    DatabaseUnreachable,
    LonnyMQError,
    OutcomeUnknown,
    QueueClosed,
    UnsuitableConnection,
)
from lonnymq.statement import Command

TRIES = 3


def refuse_connection(conn: object | None) -> None:
    if conn is not None:
        raise UnsuitableConnection(
            "a dequeue takes no connection: it commits at once, on one of the queue's own",
            "dequeue first, and complete the message in your transaction, with conn= there",
        )


def check_is_open(*, is_closed: bool) -> None:
    if is_closed:
        raise QueueClosed("the queue is closed", "make a new one")


def doubt(call: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the connection broke before {call} was answered: it may have been done or not",
        "look before you do it again; creating with a dedupe_key is repeated safely, and by itself",
    )


def unanswered(command: Command[Any]) -> LonnyMQError:
    """What to say of a call that got no answer, or none that tells what came of it."""
    if not command.is_harmless:
        return doubt(command.function)
    return DatabaseUnreachable(
        f"the connection broke {TRIES} times in a row", "see that the database is up, then try again"
    )
