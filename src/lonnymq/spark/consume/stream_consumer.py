"""The driver's side of a consuming stream: it claims and completes messages, and extends their leases."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from lonnymq.client.calls import Steps, walk
from lonnymq.client.consume import MAX_DISPATCHES, dispatch_all
from lonnymq.client.times import ServerClock
from lonnymq.commands import (
    ChannelsDispatch,
    Claim,
    ClaimBegin,
    ClaimComplete,
    ClaimCompleted,
    ClaimExtend,
    ClaimExtended,
    ClaimNext,
    ClaimOpen,
    ClaimRead,
    ClaimWaiting,
    QueueGet,
)
from lonnymq.errors import (
    ClaimantTaken,
    PositionUnknown,
)
from lonnymq.spark.connection import QueueAddress, QueueConnection
from lonnymq.spark.message_filter import MessageFilter
from lonnymq.spark.transient_errors import TRANSIENT_ERRORS, retry_transient
from lonnymq.statement import Command

if TYPE_CHECKING:
    from lonnymq.spark.consume.commit_log import CommitLog

HEARTBEATS_PER_LEASE = 3
LOOK_S = 0.5
"""How often the heartbeat looks whether a batch is committed, or repeats a call that failed."""
EMPTY_CLAIM_TIMEOUT_S = 10
"""How long to retry a claim that found nothing while other sessions had messages locked."""
EMPTY_CLAIM_PAUSE_S = 0.1
"""Pause before the retry: another session may have been dispatching."""
CLAIM_AGAIN_MIN = 50
"""A dispatch makes about a hundred messages ready where as many wait, and more once it knows how many are
wanted. So a claim that got at least this many, but fewer than it wanted, may have left some behind.
"""
WRONG_CHECKPOINT = (
    "the checkpoint is of another queue, or the database was restored: start with a new checkpoint"
)

Answer = TypeVar("Answer")
logger = logging.getLogger(__name__)


def dispatch_wanted(chosen: MessageFilter, wanted: int) -> Steps[None]:
    """Place new messages, and make ready those that a stream wants."""
    yield from dispatch_all()
    if chosen.channels is None and chosen.pattern is None:
        return
    for _ in range(MAX_DISPATCHES):
        if not (
            yield ChannelsDispatch(_names(chosen.channels), chosen.pattern, _names(chosen.lanes), wanted)
        ):
            return


class StreamConsumer:
    """Claims messages under a name. Every call is safe to repeat, and is repeated if its answer got lost."""

    def __init__(
        self,
        address: QueueAddress,
        name: str,
        lease_ms: int | None,
        chosen: MessageFilter = MessageFilter(),  # noqa: B008 - it is immutable
        max_bytes: int | None = None,
    ) -> None:
        self.address = address
        self.name = name
        self.lease_ms = lease_ms
        self.chosen = chosen
        self.max_bytes = max_bytes
        self.generation = 0
        self.begun = 0
        """The last claim of the batch that runs, or ran last."""
        self._last = 0
        self._completed = 0
        self._connection = QueueConnection(address)

    def open(self) -> None:
        """Take over the name: from now on, other streams under it are refused. A pattern of channels that is
        not valid is refused first, so that the stream that runs goes on.
        """
        if self.chosen.pattern is not None:
            retry_transient(lambda: self._connection.read(self.chosen.check))
        opened = self._run(ClaimOpen(self.name))
        self.generation, self._last, self._completed = opened.generation, opened.last_seq, opened.done_seq
        if self.lease_ms is None:
            self.lease_ms = self._run(QueueGet()).lease_ms

    def now(self) -> int:
        """The time of the database's clock, which decides when messages are due."""
        return self._run(ServerClock())

    def next(self, seq: int, limit: int, before: int | None) -> int:
        """Complete everything up to this claim, and claim more. Returns the number of the last claim.

        It returns the same number if there is nothing to claim. A claim may get fewer messages than the limit
        although more wait; then this makes several claims, and all of them are one batch of the stream. If
        the bytes are limited, a batch is one claim.
        """
        self.complete(seq)
        claim = self._claim(seq, limit, before)
        if before is not None:
            deadline = time.monotonic() + EMPTY_CLAIM_TIMEOUT_S
            is_sure = False
            while not claim.messages and not is_sure and time.monotonic() < deadline:
                is_sure = claim.again_at is None
                time.sleep(EMPTY_CLAIM_PAUSE_S)
                claim = self._claim(seq, limit, before)
        claimed = claim.messages if self.max_bytes is None else limit
        while claim.messages >= CLAIM_AGAIN_MIN and claimed < limit and claim.again_at is not None:
            claim = self._claim(claim.seq, limit - claimed, before)
            claimed += claim.messages
        self._last = max(self._last, claim.seq)
        return claim.seq

    def _claim(self, seq: int, limit: int, before: int | None) -> Claim:
        chosen = self.chosen
        walk(dispatch_wanted(chosen, limit), self._run)
        return self._run(
            ClaimNext(
                self.name,
                self.generation,
                seq,
                limit,
                self.lease_ms,
                before,
                _names(chosen.lanes),
                _names(chosen.channels),
                chosen.pattern,
                self.max_bytes,
            )
        )

    def complete(self, seq: int) -> None:
        """Everything up to this claim is done."""
        if seq == self._completed:
            return
        done = self._run(self.completion(seq))
        self._completed = seq
        if done.lost:
            logger.warning(
                "leases ran out: %s messages that consumer %s has read will be delivered again",
                done.lost,
                self.name,
            )

    def has_claimed(self, seq: int) -> bool:
        """Whether there is a claim after this one: an earlier driver has made it, or it has the messages that
        did not fit into this one.
        """
        if self._last > seq or self.max_bytes is None:
            return self._last > seq
        self.complete(seq)
        return self._run(self.extension()).extended > 0

    def waiting(self) -> int:
        """How many messages wait for this stream."""
        walk(dispatch_all(), self._run)
        chosen = self.chosen
        return self._run(ClaimWaiting(_names(chosen.lanes), _names(chosen.channels), chosen.pattern))

    def completion(self, seq: int) -> Command[ClaimCompleted]:
        return ClaimComplete(self.name, self.generation, seq)

    def begin(self, upto: int) -> None:
        """The batch up to this claim begins: remove messages whose leases ran out, and extend the leases of
        the others. If a batch was not completed, it comes again in smaller claims.
        """
        if upto > self._last:
            raise PositionUnknown(
                f"consumer {self.name!r} has made {self._last} claims, but the stream reads claim {upto}",
                WRONG_CHECKPOINT,
            )
        self.begun = upto
        begun = self._run(ClaimBegin(self.name, self.generation, upto, self.lease_ms))
        if begun.lost:
            logger.warning("leases ran out: %s messages of consumer %s are left out", begun.lost, self.name)
        if begun.dead:
            logger.warning(
                "a message with which consumer %s failed too often is a dead letter now", self.name
            )

    def extension(self) -> Command[ClaimExtended]:
        return ClaimExtend(self.name, self.generation, self.lease_ms)

    def check(self, generation: int) -> None:
        """Raise ClaimantTaken if another stream has opened the name since."""
        try:
            self._run(ClaimRead(self.name, generation, 0, 0))
        finally:
            self.close()

    def close(self) -> None:
        self._connection.close()

    def _run(self, command: Command[Answer]) -> Answer:
        try:
            return retry_transient(lambda: self._connection.run(command))
        except ClaimantTaken as error:
            raise _name_taken(self.name) from error


class Heartbeat(threading.Thread):
    """Extends the leases while batches run. When the driver's process dies, the leases run out.

    With a commit log, it also completes a batch soon after Spark has committed it.
    """

    def __init__(self, consumer: StreamConsumer, commits: CommitLog | None = None) -> None:
        super().__init__(name=f"lonnymq heartbeat of {consumer.name}", daemon=True)
        self._consumer = consumer
        self._commits = commits
        self._completed = 0
        self._connection = QueueConnection(consumer.address)
        self._error: Exception | None = None
        self._stopped = threading.Event()

    def run(self) -> None:
        try:
            self._extend_until_stopped()
        except ClaimantTaken:
            self._error = _name_taken(self._consumer.name)
        except Exception as error:  # noqa: BLE001 - check() raises it: otherwise the leases would run out
            self._error = error
        finally:
            self._connection.close()

    def _extend_until_stopped(self) -> None:
        interval = (self._consumer.lease_ms or 0) / 1000 / HEARTBEATS_PER_LEASE
        extend_at = time.monotonic() + interval
        while not self._stopped.wait(min(interval, LOOK_S)):
            try:
                self._complete_committed()
                if time.monotonic() >= extend_at:
                    self._connection.run(self._consumer.extension())
                    extend_at = time.monotonic() + interval
            except TRANSIENT_ERRORS as error:
                logger.warning("could not extend the leases of consumer %s: %s", self._consumer.name, error)

    def _complete_committed(self) -> None:
        begun = self._consumer.begun
        if self._commits is None or begun == self._completed:
            return
        try:
            is_done = self._commits.last_seq() == begun
        except OSError as error:
            logger.warning("could not read the checkpoint of consumer %s: %s", self._consumer.name, error)
            return
        if is_done:
            self._connection.run(self._consumer.completion(begun))
            self._completed = begun

    def check(self) -> None:
        """Raise the error that stopped the heartbeat, if there was one."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def _names(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)


def _name_taken(name: str) -> ClaimantTaken:
    return ClaimantTaken(
        f"another stream, which started later, consumes as {name!r}",
        "stop one of the two streams, or give them different names",
    )
