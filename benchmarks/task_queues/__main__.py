"""A child process: reads a command, prepares, reports that it is ready, waits for the start, and runs."""

import asyncio
import json
import random
import sys
import time

from benchmarks.task_queues import load_task_queue
from benchmarks.task_queues.child import READY
from benchmarks.task_queues.child_command import Produce, SendAlone, Work, parse_command
from benchmarks.task_queues.task_counter import TaskCounter
from benchmarks.task_queues.task_queue import TaskQueue

MIN_PAUSE_SECONDS = 0.15  # PgQueuer's worker is busy for 0.1 s after a task
MAX_PAUSE_SECONDS = 0.25
POLL_SECONDS = 0.005
START_TIMEOUT_SECONDS = 60


def main() -> None:
    command = parse_command(sys.stdin.readline())
    queue = load_task_queue(command.queue)
    match command:
        case Work():
            queue.work(
                command.dsn,
                command.kind,
                command.mode,
                TaskCounter(command.counter, command.slot),
                wait_for_start,
            )
        case Produce():
            queue.run(produce(queue, command))
        case SendAlone():
            queue.run(send_alone(queue, command))


def wait_for_start() -> None:
    print(READY, flush=True)
    sys.stdin.readline()


async def produce(queue: TaskQueue, command: Produce) -> None:
    async with queue.producer(command.dsn) as producer:
        calls = iter(range(0, command.tasks, command.size))

        async def call() -> None:
            for first in calls:
                if command.size == 1:
                    await producer.one(first)
                else:
                    await producer.many(range(first, min(first + command.size, command.tasks)))

        wait_for_start()
        start = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(command.concurrent_calls)))
        print_result(time.perf_counter() - start)


async def send_alone(queue: TaskQueue, command: SendAlone) -> None:
    counter = TaskCounter(command.counter)
    since_called, since_returned = [], []
    async with queue.producer(command.dsn) as producer:
        wait_for_start()
        for number in range(command.all_tasks):
            await asyncio.sleep(random.uniform(MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS))
            called_at = time.monotonic()
            await producer.one(number)
            returned_at = time.monotonic()
            async with asyncio.timeout(START_TIMEOUT_SECONDS):
                while counter.count() <= number:  # noqa: ASYNC110 - another process changes it
                    await asyncio.sleep(POLL_SECONDS)
            if number >= command.warm_up_tasks:
                since_called.append((counter.last_at() - called_at) * 1000)
                since_returned.append(max(0.0, counter.last_at() - returned_at) * 1000)
    print_result({"since_called": since_called, "since_returned": since_returned})


def print_result(result: object) -> None:
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
