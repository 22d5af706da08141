"""The driver's side of a write: publish what executors have staged, once.

One transaction makes messages from all staged batches and records which version of which app they were. When
the same version comes again, after a restart or because the answer got lost, it is found there and skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

import psycopg

from lonnymq.adapters.driver_errors import refuse
from lonnymq.adapters.psycopg import run
from lonnymq.commands import ClaimComplete, PublishedOnce, StagingDiscard, StagingPublishOnce
from lonnymq.errors import ChannelFull, InvalidLimit, LonnyMQError
from lonnymq.spark.connection import QueueAddress
from lonnymq.spark.sink.message_columns import ConsumerClaim
from lonnymq.spark.sink.staging import Staged
from lonnymq.spark.transient_errors import TRANSIENT_ERRORS, retry_transient

TaskResults = Sequence[Staged | None]
"""One per task, in the order of partitions. None: the task failed."""
logger = logging.getLogger(__name__)


class StagingLost(LonnyMQError):
    """The driver did not find all rows that executors staged. Nothing was published."""


@dataclass(frozen=True)
class Publisher:
    address: QueueAddress
    drop_full: bool = False
    """Leave out rows whose channel is full, instead of publishing nothing."""

    def publish(
        self, app: str, version: int | None, results: TaskResults, job: UUID | None = None
    ) -> PublishedOnce:
        staged = _successful(results)
        for one in staged:
            if one.refusal is not None:
                raise one.refusal
        try:
            published = retry_transient(lambda: self._publish(app, version, staged, job))
        except TRANSIENT_ERRORS:
            # The rows may be published already, or the call may still run: keep what is staged.
            raise
        except LonnyMQError:
            self._discard(staged)
            raise
        _log(published, app, version)
        return published

    def abandon(self, results: TaskResults) -> None:
        """Delete what was staged if a task failed or refused a row; otherwise `publish` has dealt with it."""
        staged = _successful(results)
        if len(staged) < len(results) or any(one.refusal is not None for one in staged):
            self._discard(staged)

    def _publish(
        self, app: str, version: int | None, staged: Sequence[Staged], job: UUID | None
    ) -> PublishedOnce:
        schema = self.address.schema
        try:
            with self.address.connect() as connection, connection.transaction():
                once = StagingPublishOnce(app, version, _batches(staged), self.drop_full, job)
                published = run(connection, schema, once)
                if not published.is_repeat:
                    _check_complete(published, staged)
                    for command in completions(staged):
                        run(connection, schema, command)
        except InvalidLimit as error:
            raise InvalidLimit(
                error.message,
                "with dedupe keys or a max_size, write at most 100,000 rows, or 512 MiB, at once",
            ) from error
        except ChannelFull as error:
            raise ChannelFull(error.message, _hint_when_full(staged)) from error
        except psycopg.Error as error:  # raised by the commit itself
            refuse(error)
        return published

    def _discard(self, staged: Sequence[Staged]) -> None:
        batches = _batches(staged)
        if not batches:
            return
        try:
            with self.address.connect() as connection:
                run(connection, self.address.schema, StagingDiscard(batches))
        except LonnyMQError as error:
            logger.warning("could not delete staged rows, which stay until they are a day old: %s", error)


def last_claims(claims: Iterable[ConsumerClaim]) -> list[ConsumerClaim]:
    """The last claim of each consumer and generation: completing it completes those before it.

    >>> last_claims([ConsumerClaim("a", 1, 5), ConsumerClaim("b", 1, 2), ConsumerClaim("a", 1, 4)])
    [ConsumerClaim(consumer='a', generation=1, seq=5), ConsumerClaim(consumer='b', generation=1, seq=2)]
    """
    return list({(claim.consumer, claim.generation): claim for claim in sorted(claims)}.values())


def completions(staged: Sequence[Staged]) -> list[ClaimComplete]:
    """Complete what the tasks have processed, except for the messages whose rows have an error."""
    failed = [message for one in staged for message in one.failed]
    found = []
    for claim in last_claims(claim for one in staged for claim in one.claims):
        errors = {
            message.id: message.error
            for message in failed
            if (message.consumer, message.generation) == (claim.consumer, claim.generation)
        }
        found.append(
            ClaimComplete(*claim, whole=True, failed_ids=list(errors), errors=list(errors.values()))
            if errors
            else ClaimComplete(*claim, whole=True)
        )
    return found


def _successful(results: TaskResults) -> list[Staged]:
    return [staged for staged in results if staged is not None]


def _batches(staged: Sequence[Staged]) -> list[UUID]:
    return [one.batch for one in staged if one.batch is not None]


def _check_complete(published: PublishedOnce, staged: Sequence[Staged]) -> None:
    expected = sum(one.rows for one in staged)
    found = published.created + published.duplicates + published.refused
    if found != expected:
        raise StagingLost(
            f"executors staged {expected} rows, but the driver found {found}",
            "run it again if the database crashed or failed over in the meantime, which empties staging;"
            " driver and executors must log in as the same role, and publish within a day",
        )


def _hint_when_full(staged: Sequence[Staged]) -> str:
    again = "nothing was published: raise max_size, or run it again when there is room"
    if any(one.claims for one in staged):
        return f"{again}; nothing was completed either, and the stream starts again with this batch"
    return f"{again}; onFull=drop (on the command line --drop-full) leaves out rows that do not fit"


def _log(published: PublishedOnce, app: str, version: int | None) -> None:
    if published.is_repeat and version is not None:
        logger.warning("nothing was written: %s had already published version %s or later", app, version)
    elif published.duplicates or published.refused:
        logger.warning(
            "%s messages were created, %s were duplicates, %s were dropped because their channels are full",
            published.created,
            published.duplicates,
            published.refused,
        )
