"""A child process: reads a command, prepares, reports that it is ready, waits for the start, and runs."""

import asyncio
import json
import random
import sys
import time

from benchmarks.task_queues import load_task_queue
from benchmarks.task_queues.child import READY
from benchmarks.task_queues.child_command import (
    Install,
    Produce,
    Send,
    SendAlone,
    SendPaced,
    Work,
    WorkWithLog,
    parse_command,
)
from benchmarks.task_queues.task_counter import TaskCounter
from benchmarks.task_queues.task_log import TaskLog, TaskLogReader
from benchmarks.task_queues.task_queue import TENANT, TaskQueue

MIN_PAUSE_SECONDS = 0.15  # PgQueuer's worker is busy for 0.1 s after a task
MAX_PAUSE_SECONDS = 0.25
POLL_SECONDS = 0.005
START_TIMEOUT_SECONDS = 60


def main() -> None:
    command = parse_command(sys.stdin.readline())
    queue = load_task_queue(command.queue)
    match command:
        case Install():
            wait_for_start()
            queue.install(command.dsn)
            print_result(None)
        case Work():
            counter = TaskCounter(command.counter, command.slot)
            queue.work(command.dsn, command.kind, command.mode, counter, wait_for_start)
        case WorkWithLog():
            log = TaskLog(command.log, command.seconds)
            queue.work(command.dsn, command.kind, command.mode, log, wait_for_start)
        case Produce():
            queue.run(produce(queue, command))
        case Send():
            queue.run(send(queue, command))
        case SendPaced():
            queue.run(send_paced(queue, command))
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


def number_of(task: int, tenants: list[int]) -> int:
    """The number of the n-th task, when tenants take turns."""
    return tenants[task % len(tenants)] * TENANT + task


async def send(queue: TaskQueue, command: Send) -> None:
    log = TaskLogReader(command.log) if command.log else None
    sent = 0
    async with queue.producer(command.dsn) as producer:
        calls = iter(range(0, command.tasks, command.size))

        async def call() -> None:
            nonlocal sent
            for first in calls:
                while log and sent - log.count() > command.backlog:  # noqa: ASYNC110 - others append to it
                    await asyncio.sleep(POLL_SECONDS)
                if time.monotonic() >= end:
                    return
                numbers = [
                    number_of(task, command.tenants)
                    for task in range(first, min(first + command.size, command.tasks))
                ]
                if command.size == 1:
                    await producer.one(numbers[0])
                else:
                    await producer.many(numbers)
                sent += len(numbers)

        wait_for_start()
        start = time.monotonic()
        end = start + command.seconds
        await asyncio.gather(*(call() for _ in range(command.concurrent_calls)))
        print_result({"tasks": sent, "seconds": time.monotonic() - start})


async def send_paced(queue: TaskQueue, command: SendPaced) -> None:
    returned_at = {}
    async with queue.producer(command.dsn) as producer:
        wait_for_start()
        start = time.monotonic()
        for task in range(command.tasks):
            await asyncio.sleep(max(0.0, start + task / command.per_second - time.monotonic()))
            number = number_of(task, command.tenants)
            await producer.one(number)
            returned_at[number] = time.monotonic()
    print_result(returned_at)


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
