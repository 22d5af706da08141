"""Errors about connections: those that a caller passes, and those that break."""

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
            "dequeue does not take a connection: it commits at once, on a connection of the queue",
            "dequeue first, then complete the message in your transaction: complete(message, conn=conn)",
        )


def check_is_open(*, is_closed: bool) -> None:
    if is_closed:
        raise QueueClosed("the queue is closed", "make a new one")


def outcome_unknown(call: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the connection broke before {call} was answered; the call may have taken effect",
        "check before you repeat it; an enqueue with a dedupe_key and a unique_for of 5 minutes or more is "
        "repeated for you, safely",
    )


def unanswered(command: Command[Any]) -> LonnyMQError:
    """The error for a call that got no answer, or an answer that leaves its outcome open."""
    if not command.is_harmless:
        return outcome_unknown(command.function)
    return DatabaseUnreachable(
        f"the connection broke {TRIES} times in a row", "check that the database is up, then try again"
    )
