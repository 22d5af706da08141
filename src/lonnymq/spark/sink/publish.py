"""What the driver does to write: publish, once, what executors have staged.

One transaction makes messages of all batches and writes down which version of which app they were. When they
come again, after a restart or because the answer got lost, they are found there and skipped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import psycopg

from lonnymq.adapters.driver_errors import refuse
from lonnymq.adapters.psycopg import run
from lonnymq.commands import ClaimComplete, PublishedOnce, StagingDiscard, StagingPublishOnce
from lonnymq.errors import ChannelFull, InvalidLimit, LonnyMQError
from lonnymq.spark.connection import Connecting
from lonnymq.spark.sink.message_columns import Claim
from lonnymq.spark.sink.staging import PASSING, Staged

PATIENCE_S = 60
LONGEST_PAUSE_S = 5.0

Answer = TypeVar("Answer")
Answers = Sequence[Staged | None]
"""Of tasks, in the order of their partitions. None: the task failed."""
logger = logging.getLogger(__name__)


class StagingLost(LonnyMQError):
    """What executors staged is not what the driver finds. Nothing was published."""


@dataclass(frozen=True)
class Publisher:
    connecting: Connecting
    drop_full: bool = False
    """Leave out rows whose channel is full, instead of publishing nothing."""

    def publish(self, app: str, version: int | None, answers: Answers) -> PublishedOnce:
        told = _told(answers)
        for answer in told:
            if answer.refusal is not None:
                raise answer.refusal
        try:
            published = until_answered(lambda: self._published(app, version, told))
        except PASSING:
            # It may be published, or be on its way: what is staged stays.
            raise
        except LonnyMQError:
            self._discard(told)
            raise
        _tell(published, app, version)
        return published

    def abandon(self, answers: Answers) -> None:
        """Take away what was staged; not where publish() was asked, which has seen to it."""
        told = _told(answers)
        if len(told) < len(answers) or any(answer.refusal is not None for answer in told):
            self._discard(told)

    def _published(self, app: str, version: int | None, told: Sequence[Staged]) -> PublishedOnce:
        schema = self.connecting.schema
        try:
            with self.connecting.connect() as connection, connection.transaction():
                once = StagingPublishOnce(app, version, _batches(told), self.drop_full)
                published = run(connection, schema, once)
                if not published.is_repeat:
                    _check_all_there(published, told)
                    for claim in last_claims(claim for answer in told for claim in answer.claims):
                        run(connection, schema, ClaimComplete(*claim, whole=True))
        except InvalidLimit as error:
            raise InvalidLimit(
                error.message,
                "with dedupe keys, or a max_size, write at most 100,000 rows, or 512 MiB, at once",
            ) from error
        except ChannelFull as error:
            raise ChannelFull(error.message, _what_to_do_when_full(told)) from error
        except psycopg.Error as error:  # of the commit itself
            refuse(error)
        return published

    def _discard(self, told: Sequence[Staged]) -> None:
        batches = _batches(told)
        if not batches:
            return
        try:
            with self.connecting.connect() as connection:
                run(connection, self.connecting.schema, StagingDiscard(batches))
        except LonnyMQError as error:
            logger.warning("what was staged stays until it is a day old: %s", error)


def until_answered(ask: Callable[[], Answer]) -> Answer:
    """Ask again while the connection breaks, or there is none to be had."""
    pause = 0.1
    gives_up_at: float | None = None
    while True:
        try:
            return ask()
        except PASSING as error:
            gives_up_at = gives_up_at or time.monotonic() + PATIENCE_S
            if time.monotonic() > gives_up_at:
                raise
            logger.warning("the database is asked again: %s", error)
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)


def last_claims(claims: Iterable[Claim]) -> list[Claim]:
    """Of each consumer and generation: a claim stands for those before it.

    >>> last_claims([Claim("a", 1, 5), Claim("b", 1, 2), Claim("a", 1, 4)])
    [Claim(consumer='a', generation=1, seq=5), Claim(consumer='b', generation=1, seq=2)]
    """
    return list({(claim.consumer, claim.generation): claim for claim in sorted(claims)}.values())


def _told(answers: Answers) -> list[Staged]:
    return [answer for answer in answers if answer is not None]


def _batches(told: Sequence[Staged]) -> list[UUID]:
    return [answer.batch for answer in told if answer.batch is not None]


def _check_all_there(published: PublishedOnce, told: Sequence[Staged]) -> None:
    staged = sum(answer.rows for answer in told)
    found = published.created + published.duplicates + published.refused
    if found != staged:
        raise StagingLost(
            f"executors staged {staged} rows, and the driver finds {found}",
            "driver and executors must log in as the same role; what is staged is kept for a day",
        )


def _what_to_do_when_full(told: Sequence[Staged]) -> str:
    again = "nothing was published: raise max_size, or run it again when there is room"
    if any(answer.claims for answer in told):
        return f"{again}; nothing was completed either, and the stream starts again with this batch"
    return f"{again}; onFull=drop (on the command line --drop-full) leaves out what does not fit"


def _tell(published: PublishedOnce, app: str, version: int | None) -> None:
    if published.is_repeat and version is not None:
        logger.warning("%s has published version %s, or a later one, before: nothing was done", app, version)
    elif published.duplicates or published.refused:
        logger.warning(
            "%s messages were created; %s were duplicates; %s were dropped, as their channels are full",
            published.created,
            published.duplicates,
            published.refused,
        )
