"""The measurements that a client process can make."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from lonnymq.cli.bench.parameters import NOISY_BACKLOG
from lonnymq.cli.bench.protocol import Answer, Measurement, Target
from lonnymq.client.queue import Queue
from lonnymq.message_options import NewMessage

if TYPE_CHECKING:
    from psycopg import Connection

TIMEOUT_S = 30.0
FIRST_MESSAGE_TIMEOUT_S = 1.0
"""How long a client looks for its first message, as the others may have leased all that are ready."""
MIN_SAMPLES = 5
SERVED_BETWEEN_ARRIVALS = 7
NOISY_CHANNEL = "noisy"


class Measures:
    """One method per measurement."""

    def __init__(self, target: Target, queue: Queue) -> None:
        self._target = target
        self._queue = queue
        # Random bytes, so that nothing compresses them.
        self._payload = random.Random(1).randbytes(target.payload_bytes)  # noqa: S311
        self._channels = cycle([f"tenant-{number}" for number in range(1, target.channels + 1)])

    def measure(self, measurement: Measurement) -> Answer:
        measures: dict[str, Callable[[Measurement], Answer]] = {
            "round_trip": self._round_trip,
            "commit": self._commit,
            "latency": self._latency,
            "quiet": self._quiet,
            "enqueue": self._enqueue,
            "consume": self._consume,
        }
        return measures[measurement.name](measurement)

    def _round_trip(self, measurement: Measurement) -> Answer:
        with self._connected() as conn:
            return Answer(samples=list(_timed(measurement, lambda: conn.execute(""))))

    def _commit(self, measurement: Measurement) -> Answer:
        """The commit of a transaction that enqueued one message, with its round trip."""
        with self._connected() as conn:
            conn.autocommit = False

            def create() -> None:
                self._queue.enqueue(self._payload, channel=next(self._channels), conn=conn)

            samples = list(_timed(measurement, conn.commit, before=create))
        self._remove(len(samples))
        return Answer(written=len(samples), samples=samples)

    def _latency(self, measurement: Measurement) -> Answer:
        """From before the call that enqueues a message until a waiting consumer has it."""
        received: SimpleQueue[float | Exception] = SimpleQueue()
        stopped = threading.Event()

        def consume() -> None:
            try:
                while not stopped.is_set():
                    for message in self._queue.dequeue(wait=TIMEOUT_S):
                        received.put(time.perf_counter())
                        self._queue.complete(message)
            except Exception as error:  # noqa: BLE001 - raised by the thread that waits
                received.put(error)

        def measure_once() -> float:
            begin = time.perf_counter()
            self._queue.enqueue(self._payload, channel=next(self._channels))
            at = received.get(timeout=TIMEOUT_S)
            if isinstance(at, Exception):
                raise at
            return (at - begin) * 1000

        consumer = threading.Thread(target=consume, daemon=True)
        consumer.start()
        samples: list[float] = []
        end = time.perf_counter() + measurement.seconds
        while len(samples) < MIN_SAMPLES or (
            len(samples) < measurement.limit - 1 and time.perf_counter() < end
        ):
            time.sleep(measurement.pause_s)  # until the consumer sleeps again
            samples.append(measure_once())
        stopped.set()
        # Wake the consumer, so that its thread ends.
        self._queue.enqueue(self._payload, channel=next(self._channels))
        consumer.join(TIMEOUT_S)
        self._remove(1)
        return Answer(written=len(samples) + 1, samples=samples)

    def _quiet(self, measurement: Measurement) -> Answer:
        """One tenant has a backlog and messages of others arrive: how many messages are served until each of
        them is.
        """
        waiting = NOISY_BACKLOG
        self._queue.enqueue_many([b""] * waiting, channel=NOISY_CHANNEL)
        arrived: dict[str, deque[int]] = {}
        samples: list[float] = []
        ahead: list[int] = []
        served = 0
        end = time.perf_counter() + measurement.seconds
        while len(samples) < measurement.limit and (len(samples) < MIN_SAMPLES or time.perf_counter() < end):
            if served % SERVED_BETWEEN_ARRIVALS == 0:
                channel = next(self._channels)
                self._queue.enqueue(b"", channel=channel)
                arrived.setdefault(channel, deque()).append(served)
                ahead.append(waiting)
            for message in self._queue.dequeue():
                self._queue.complete(message)
                served += 1
                if message.channel == NOISY_CHANNEL:
                    waiting -= 1
                else:
                    samples.append(served - arrived[message.channel].popleft())
        for channel in (NOISY_CHANNEL, *arrived):
            self._queue.channel(channel).delete(with_messages=True)
        return Answer(written=NOISY_BACKLOG + len(ahead), samples=samples, ahead=ahead[: len(samples)])

    def _enqueue(self, measurement: Measurement) -> Answer:
        begin, cpu = time.perf_counter(), time.process_time()
        written = 0
        while not written or (
            written + measurement.batch <= measurement.limit
            and time.perf_counter() < begin + measurement.seconds
        ):
            channels = islice(self._channels, measurement.batch)
            if measurement.batch == 1:
                self._queue.enqueue(self._payload, channel=next(channels))
            else:
                self._queue.enqueue_many(NewMessage(self._payload, channel) for channel in channels)
            written += measurement.batch
        return Answer(written, written, time.perf_counter() - begin, time.process_time() - cpu)

    def _consume(self, measurement: Measurement) -> Answer:
        """The time ends with the last message that was found."""
        begin, cpu = time.perf_counter(), time.process_time()
        last, handled = begin, 0
        while not handled or handled + measurement.batch <= measurement.limit:
            if time.perf_counter() >= begin + (
                measurement.seconds if handled else max(measurement.seconds, FIRST_MESSAGE_TIMEOUT_S)
            ):
                break
            taken = self._queue.dequeue(measurement.batch)
            if measurement.batch == 1:
                for message in taken:
                    self._queue.complete(message)
            elif taken:
                self._queue.complete_many(taken)
            if taken:
                handled += len(taken)
                last = time.perf_counter()
        return Answer(0, handled, last - begin, time.process_time() - cpu)

    def _remove(self, messages: int) -> None:
        """Dequeue and complete this many messages, or as many as there are."""
        while messages and (taken := self._queue.dequeue(messages)):
            self._queue.complete_many(taken)
            messages -= len(taken)

    @contextmanager
    def _connected(self) -> Iterator[Connection[Any]]:
        from lonnymq.cli.database import connect

        with connect(self._target.address) as conn:
            conn.prepare_threshold = None  # a pooler may be in between
            yield conn


def _timed(
    measurement: Measurement, call: Callable[[], object], before: Callable[[], object] = lambda: None
) -> Iterator[float]:
    end = time.perf_counter() + measurement.seconds
    for taken in range(measurement.limit):
        before()
        begin = time.perf_counter()
        call()
        yield (time.perf_counter() - begin) * 1000
        if time.perf_counter() >= end and taken + 1 >= MIN_SAMPLES:
            return
