"""What a client can measure."""

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

from lonnymq.cli.bench.parameters import NOISY
from lonnymq.cli.bench.protocol import Answer, Order, Site
from lonnymq.client.queue import Queue
from lonnymq.message_options import NewMessage

if TYPE_CHECKING:
    from psycopg import Connection

PATIENCE_S = 30.0
DRY_S = 1.0
"""So long a client looks for a first message, in case others hold all that is ready."""
FEWEST = 5
SERVED_BETWEEN = 7
NOISY_CHANNEL = "noisy"


class Measures:
    """Each takes an order, and is of that name."""

    def __init__(self, site: Site, queue: Queue) -> None:
        self._site = site
        self._queue = queue
        self._content = random.Random(1).randbytes(site.content_bytes)  # noqa: S311 - that nothing compresses
        self._channels = cycle([f"tenant-{number}" for number in range(1, site.channels + 1)])

    def measure(self, order: Order) -> Answer:
        measures: dict[str, Callable[[Order], Answer]] = {
            "round_trip": self._round_trip,
            "commit": self._commit,
            "lone": self._lone,
            "quiet": self._quiet,
            "create": self._create,
            "consume": self._consume,
        }
        return measures[order.measure](order)

    def _round_trip(self, order: Order) -> Answer:
        with self._connected() as conn:
            return Answer(samples=list(_timed(order, lambda: conn.execute(""))))

    def _commit(self, order: Order) -> Answer:
        """After a create: what the server does until the message is safe, and the way there and back."""
        with self._connected() as conn:
            conn.autocommit = False

            def create() -> None:
                self._queue.enqueue(self._content, channel=next(self._channels), conn=conn)

            samples = list(_timed(order, conn.commit, before=create))
        self._take(len(samples))
        return Answer(written=len(samples), samples=samples)

    def _lone(self, order: Order) -> Answer:
        """From before the call that creates it until a consumer that waited has it."""
        had: SimpleQueue[float | Exception] = SimpleQueue()
        is_over = threading.Event()

        def consume() -> None:
            try:
                while not is_over.is_set():
                    for message in self._queue.dequeue(wait=PATIENCE_S):
                        had.put(time.perf_counter())
                        self._queue.complete(message)
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                had.put(error)

        def once() -> float:
            begin = time.perf_counter()
            self._queue.enqueue(self._content, channel=next(self._channels))
            at = had.get(timeout=PATIENCE_S)
            if isinstance(at, Exception):
                raise at
            return (at - begin) * 1000

        consumer = threading.Thread(target=consume, daemon=True)
        consumer.start()
        samples: list[float] = []
        end = time.perf_counter() + order.seconds
        while len(samples) < FEWEST or (len(samples) < order.most - 1 and time.perf_counter() < end):
            time.sleep(order.pause_s)  # until the consumer sleeps
            samples.append(once())
        is_over.set()
        self._queue.enqueue(self._content, channel=next(self._channels))  # wakes it, if it waits
        consumer.join(PATIENCE_S)
        self._take(1)
        return Answer(written=len(samples) + 1, samples=samples)

    def _quiet(self, order: Order) -> Answer:
        """A tenant has a backlog, and messages of others arrive: how many are served until each has been."""
        waiting = NOISY
        self._queue.enqueue_many([b""] * waiting, channel=NOISY_CHANNEL)
        arrived: dict[str, deque[int]] = {}
        samples: list[float] = []
        ahead: list[int] = []
        served = 0
        end = time.perf_counter() + order.seconds
        while len(samples) < order.most and (len(samples) < FEWEST or time.perf_counter() < end):
            if served % SERVED_BETWEEN == 0:
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
        return Answer(written=NOISY + len(ahead), samples=samples, ahead=ahead[: len(samples)])

    def _create(self, order: Order) -> Answer:
        begin, cpu = time.perf_counter(), time.process_time()
        written = 0
        while not written or (
            written + order.batch <= order.most and time.perf_counter() < begin + order.seconds
        ):
            channels = islice(self._channels, order.batch)
            if order.batch == 1:
                self._queue.enqueue(self._content, channel=next(channels))
            else:
                self._queue.enqueue_many(NewMessage(self._content, channel) for channel in channels)
            written += order.batch
        return Answer(written, written, time.perf_counter() - begin, time.process_time() - cpu)

    def _consume(self, order: Order) -> Answer:
        """The time counts up to the last message there was."""
        begin, cpu = time.perf_counter(), time.process_time()
        last, handled = begin, 0
        while not handled or handled + order.batch <= order.most:
            if time.perf_counter() >= begin + (order.seconds if handled else max(order.seconds, DRY_S)):
                break
            taken = self._queue.dequeue(order.batch)
            if order.batch == 1:
                for message in taken:
                    self._queue.complete(message)
            elif taken:
                self._queue.complete_many(taken)
            if taken:
                handled += len(taken)
                last = time.perf_counter()
        return Answer(0, handled, last - begin, time.process_time() - cpu)

    def _take(self, messages: int) -> None:
        """So many fewer wait then, if so many do."""
        while messages and (taken := self._queue.dequeue(messages)):
            self._queue.complete_many(taken)
            messages -= len(taken)

    @contextmanager
    def _connected(self) -> Iterator[Connection[Any]]:
        from lonnymq.cli.database import connect

        with connect(self._site.address) as conn:
            conn.prepare_threshold = None  # a pooler may be in between
            yield conn


def _timed(
    order: Order, call: Callable[[], object], before: Callable[[], object] = lambda: None
) -> Iterator[float]:
    end = time.perf_counter() + order.seconds
    for taken in range(order.most):
        before()
        begin = time.perf_counter()
        call()
        yield (time.perf_counter() - begin) * 1000
        if time.perf_counter() >= end and taken + 1 >= FEWEST:
            return
