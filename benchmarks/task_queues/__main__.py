"""A child process: it reads an order, makes ready, says so, is told to begin, and does it."""

import asyncio
import json
import random
import sys
import time

from benchmarks.task_queues import named
from benchmarks.task_queues.child import READY
from benchmarks.task_queues.order import Produce, SendAlone, Work, parsed
from benchmarks.task_queues.tally import Tally
from benchmarks.task_queues.task_queue import TaskQueue

SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.15, 0.25  # PgQueuer's worker is busy for 0.1 s after a task
LOOK_SECONDS = 0.005
LONGEST_WAIT_SECONDS = 60


def main() -> None:
    order = parsed(sys.stdin.readline())
    queue = named(order.queue)
    match order:
        case Work():
            queue.work(order.dsn, order.kind, order.mode, Tally(order.tally, order.slot), begin)
        case Produce():
            queue.run(produce(queue, order))
        case SendAlone():
            queue.run(send_alone(queue, order))


def begin() -> None:
    print(READY, flush=True)
    sys.stdin.readline()


async def produce(queue: TaskQueue, order: Produce) -> None:
    async with queue.producer(order.dsn) as producer:
        calls = iter(range(0, order.tasks, order.size))

        async def call() -> None:
            for first in calls:
                if order.size == 1:
                    await producer.one(first)
                else:
                    await producer.many(range(first, min(first + order.size, order.tasks)))

        begin()
        start = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(order.at_once)))
        tell(time.perf_counter() - start)


async def send_alone(queue: TaskQueue, order: SendAlone) -> None:
    tally = Tally(order.tally)
    since_called, since_returned = [], []
    async with queue.producer(order.dsn) as producer:
        begin()
        for number in range(order.all_tasks):
            await asyncio.sleep(random.uniform(SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS))
            called_at = time.monotonic()
            await producer.one(number)
            returned_at = time.monotonic()
            async with asyncio.timeout(LONGEST_WAIT_SECONDS):
                while tally.count() <= number:  # noqa: ASYNC110 - another process does it
                    await asyncio.sleep(LOOK_SECONDS)
            if number >= order.first_tasks:
                since_called.append((tally.last_at() - called_at) * 1000)
                since_returned.append(max(0.0, tally.last_at() - returned_at) * 1000)
    tell({"since_called": since_called, "since_returned": since_returned})


def tell(answer: object) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
