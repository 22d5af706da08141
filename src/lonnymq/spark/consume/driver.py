"""What the driver of a consuming stream asks of the queue, and the heartbeat that keeps its leases."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, TypeVar

import psycopg

from lonnymq.adapters.psycopg import run
from lonnymq.client.times import ServerClock
from lonnymq.commands import (
    Claim,
    ClaimComplete,
    ClaimExtend,
    ClaimExtended,
    ClaimNext,
    ClaimOpen,
    ClaimRead,
    Dispatch,
    QueueGet,
)
from lonnymq.errors import (
    ClaimantTaken,
    ConnectionDropped,
    LonnyMQError,
    PositionUnknown,
)
from lonnymq.spark.connection import Connecting
from lonnymq.spark.sink.publish import until_answered
from lonnymq.spark.sink.staging import PASSING
from lonnymq.statement import Command

BEATS_A_LEASE = 3
BEAT_AGAIN_S = 1.0
DISPATCHES = 100
"""A call places a thousand new messages. Where others create more than that, there is enough to claim."""
PATIENCE_S = 10
"""How long to ask for what others hold for the moment."""
ENOUGH = 50
"""A dispatch readies at least about a hundred messages where so many wait, and more once it knows how much is
asked for. So a claim that found this many, and fewer than it asked for, may have left some behind.
"""
LOOK_AGAIN_S = 0.1
"""Before it is believed that nothing is left: somebody else may have been dispatching."""

Answer = TypeVar("Answer")
logger = logging.getLogger(__name__)


class Session:
    """A connection that is opened when it is needed, and again when it broke."""

    def __init__(self, connecting: Connecting) -> None:
        self._connecting = connecting
        self._connection: psycopg.Connection[Any] | None = None

    def ask(self, command: Command[Answer]) -> Answer:
        """Once: a call that may have been carried out is the caller's to repeat."""
        if self._connection is None:
            self._connection = self._connecting.connect()
        try:
            return run(self._connection, self._connecting.schema, command)
        except ConnectionDropped:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Consumer:
    """Claims under a name. Each call may be made again when its answer got lost, and is."""

    def __init__(
        self, connecting: Connecting, name: str, lease_ms: int | None, lanes: list[str] | None = None
    ) -> None:
        self.connecting = connecting
        self.name = name
        self.lease_ms = lease_ms
        self.lanes = lanes
        self.generation = 0
        self._last = 0
        self._completed = 0
        self._session = Session(connecting)

    def open(self) -> None:
        """From now on, whoever else reads under this name is refused."""
        opened = self._ask(ClaimOpen(self.name))
        self.generation, self._last, self._completed = opened.generation, opened.last_seq, opened.done_seq
        if self.lease_ms is None:
            self.lease_ms = self._ask(QueueGet()).lease_ms

    def now(self) -> int:
        """By the database's clock, which messages are due by."""
        return self._ask(ServerClock())

    def next(self, seq: int, limit: int, before: int | None) -> int:
        """Complete all up to this claim, and claim what comes next. Returns the number of the last claim.

        The same number: there is nothing to claim. Where one claim gets less than the limit although more
        waits, several are made: a batch of Spark's then is all of them.
        """
        if seq != self._completed:
            done = self._ask(ClaimComplete(self.name, self.generation, seq))
            self._completed = seq
            if done.lost:
                logger.warning(
                    "%s messages of consumer %s were read, and will be again: their leases ran out",
                    done.lost,
                    self.name,
                )
        made = self._claimed(seq, limit, before)
        if before is not None:
            gives_up_at = time.monotonic() + PATIENCE_S
            is_sure = False
            while not made.messages and not is_sure and time.monotonic() < gives_up_at:
                is_sure = made.again_at is None
                time.sleep(LOOK_AGAIN_S)
                made = self._claimed(seq, limit, before)
        claimed = made.messages
        while made.messages >= ENOUGH and claimed < limit and made.again_at is not None:
            made = self._claimed(made.seq, limit - claimed, before)
            claimed += made.messages
        self._last = max(self._last, made.seq)
        return made.seq

    def _claimed(self, seq: int, limit: int, before: int | None) -> Claim:
        for _ in range(DISPATCHES):
            if not self._ask(Dispatch()):
                break
        return self._ask(ClaimNext(self.name, self.generation, seq, limit, self.lease_ms, before, self.lanes))

    def forget(self, upto: int) -> None:
        """Leave out what was lost, and extend the leases of the rest."""
        if upto > self._last:
            raise PositionUnknown(
                f"consumer {self.name!r} has made {self._last} claims, and the stream reads claim {upto}",
                "it has the checkpoint of another queue, or the database was restored: begin with a new one",
            )
        lost = self._ask(self.extension(forget=True)).lost
        if lost:
            logger.warning("%s messages of consumer %s are left out: their leases ran out", lost, self.name)

    def extension(self, *, forget: bool = False) -> Command[ClaimExtended]:
        return ClaimExtend(self.name, self.generation, self.lease_ms, forget=forget)

    def check(self, generation: int) -> None:
        """Raise it if somebody else has opened the name since."""
        try:
            self._ask(ClaimRead(self.name, generation, 0, 0))
        finally:
            self.close()

    def close(self) -> None:
        self._session.close()

    def _ask(self, command: Command[Answer]) -> Answer:
        try:
            return until_answered(lambda: self._session.ask(command))
        except ClaimantTaken as error:
            raise taken(self.name) from error


class Heartbeat(threading.Thread):
    """Extends the leases while batches are at work. Ends with its process: leases of the dead run out."""

    def __init__(self, consumer: Consumer) -> None:
        super().__init__(name=f"lonnymq heartbeat of {consumer.name}", daemon=True)
        self._consumer = consumer
        self._session = Session(consumer.connecting)
        self._error: LonnyMQError | None = None
        self._is_over = threading.Event()

    def run(self) -> None:
        try:
            self._beat()
        except ClaimantTaken:
            self._error = taken(self._consumer.name)
        except LonnyMQError as error:
            self._error = error
        finally:
            self._session.close()

    def _beat(self) -> None:
        every = pause = (self._consumer.lease_ms or 0) / 1000 / BEATS_A_LEASE
        while not self._is_over.wait(pause):
            pause = every
            try:
                self._session.ask(self._consumer.extension())
            except PASSING as error:
                logger.warning("leases of consumer %s were not extended: %s", self._consumer.name, error)
                pause = min(BEAT_AGAIN_S, every)

    def check(self) -> None:
        """Raise what ended it."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self._is_over.set()
        self.join()


def taken(name: str) -> ClaimantTaken:
    return ClaimantTaken(
        f"consumer {name!r} is read by another stream, which was started later",
        "one stream at a time: stop one of the two, or give them different names",
    )
