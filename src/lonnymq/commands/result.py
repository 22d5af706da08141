"""The outcomes that are expected."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from lonnymq.statement import SqlType


class Result(StrEnum):
    """What came of a call. None of these is an error: a lease may be lost, a channel may be full."""

    CREATED = "created"
    DUPLICATE = "duplicate"
    FULL = "full"
    COMPLETED = "completed"
    EXTENDED = "extended"
    CANCELLED = "cancelled"
    MARKED = "marked"
    RESCHEDULED = "rescheduled"
    RETRIED = "retried"
    DISCARDED = "discarded"
    DELETED = "deleted"
    FIRED = "fired"
    SKIPPED = "skipped"
    EARLY = "early"
    MORE = "more"
    NOT_EMPTY = "not_empty"
    LEASED = "leased"
    DEAD = "dead"
    LOST = "lost"
    NOT_FOUND = "not_found"


ResultText = Annotated[Result, SqlType("TEXT", load={str(result): result for result in Result}.__getitem__)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call for one of many messages."""

    id: int
    result: ResultText
