"""A dequeue that waits: the steps it takes after each answer, and its listener."""

import asyncio
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from lonnymq import AsyncQueue
from lonnymq.adapters.listener import AsyncListener
from lonnymq.client.calls import Pair
from lonnymq.client.consume import DequeueRequest
from lonnymq.client.wait import POLL_MS, UNSURE_MS, Sleep, Steps, take_or_wait
from lonnymq.commands import (
    Awaited,
    Delivery,
    Dequeued,
    Dispatch,
    Look,
    MessageDequeue,
    SleepBegin,
    SleepLook,
)

TIMEOUT_S = 10
REQUEST = DequeueRequest(1, None, None, None, async_commit=False, is_busy=True)
NOTHING = Dequeued([], 0)
FOUND = Dequeued([Delivery(1, "acme", b"", None, None, 1, UUID(int=7), 0)], None)
QUIET = Look(is_due=False, again_at=POLL_MS, is_awaited=True, now_at=0)
NOT_AWAITED = Look(is_due=False, again_at=POLL_MS, is_awaited=False, now_at=0)
NOTHING_FOUND = [(MessageDequeue, NOTHING), (Dispatch, False), (MessageDequeue, NOTHING)]
NOT_NOTIFIED = False
DISCARDED = (Sleep, NOT_NOTIFIED)
ASLEEP = [
    *NOTHING_FOUND,
    (SleepLook, NOT_AWAITED),
    DISCARDED,
    (SleepBegin, Awaited(3, is_sure=True)),
    (SleepLook, QUIET),
]


def walk(steps: Steps, script: Iterable[tuple[type, Any]]) -> Any:
    """Answer the steps with the script's answers. Returns the next step."""
    step = next(steps)
    for kind, answer in script:
        assert isinstance(step, kind)
        step = steps.send(answer)
    return step


def test_leased_messages_are_returned_before_anything_else_can_fail() -> None:
    """If the next call failed, nobody would have them until the lease ends."""
    steps = take_or_wait(REQUEST, None, is_listening=True)
    with pytest.raises(StopIteration) as end:
        walk(steps, [*ASLEEP, (Sleep, True), (Pair, FOUND)])
    assert end.value.value == FOUND.deliveries


def test_fewer_messages_than_asked_for_are_returned_too() -> None:
    steps = take_or_wait(
        DequeueRequest(2, None, None, None, async_commit=False, is_busy=True), None, is_listening=True
    )
    some = Dequeued(FOUND.deliveries, 0)
    with pytest.raises(StopIteration) as end:
        walk(steps, [*ASLEEP, (Sleep, True), (Pair, some)])
    assert end.value.value == FOUND.deliveries, "at once, without another dispatch and dequeue"


def test_a_sleep_that_is_still_registered_is_not_registered_again() -> None:
    """And a notification that came meanwhile is not discarded."""
    steps = take_or_wait(REQUEST, None, is_listening=True)
    step = walk(steps, [*ASLEEP, (Sleep, False), (SleepLook, QUIET), (Sleep, False), (SleepLook, QUIET)])
    assert step == Sleep(POLL_MS)


def test_a_sleep_that_was_ended_is_registered_before_the_next_look() -> None:
    steps = take_or_wait(REQUEST, None, is_listening=True)
    step = walk(steps, [*ASLEEP, (Sleep, False), (SleepLook, NOT_AWAITED)])
    assert step == Sleep(0)
    assert steps.send(NOT_NOTIFIED) == SleepBegin(3)
    assert steps.send(Awaited(4, is_sure=True)) == SleepLook(4)


def test_an_unsure_consumer_polls_soon_and_then_ever_less_often() -> None:
    steps = take_or_wait(REQUEST, None, is_listening=True)
    step = walk(steps, [*NOTHING_FOUND, (SleepLook, NOT_AWAITED)])
    naps = []
    for _ in range(12):
        assert step == Sleep(0)
        assert steps.send(NOT_NOTIFIED) == SleepBegin(None), "there is no generation to refer to"
        assert steps.send(Awaited(3, is_sure=False)) == SleepLook(None)
        nap = steps.send(NOT_AWAITED)
        assert isinstance(nap, Sleep)
        naps.append(nap.milliseconds)
        assert steps.send(NOT_NOTIFIED) == SleepLook(None)
        step = steps.send(NOT_AWAITED)
    assert naps[:4] == [UNSURE_MS, 2 * UNSURE_MS, 4 * UNSURE_MS, 8 * UNSURE_MS]
    assert naps[-1] == POLL_MS


def test_a_consumer_does_not_sleep_while_messages_are_due() -> None:
    due = Look(is_due=True, again_at=0, is_awaited=True, now_at=0)
    steps = take_or_wait(REQUEST, None, is_listening=True)
    with pytest.raises(StopIteration) as end:
        walk(steps, [*ASLEEP[:-1], (SleepLook, due), (MessageDequeue, FOUND)])
    assert end.value.value == FOUND.deliveries


LISTENERS = (
    "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'lonnymq listen'"
    " AND query LIKE 'LISTEN%'"
)


async def listener(conn: psycopg.Connection, other_than: int = 0) -> int:
    """The backend process of the listener's connection."""
    async with asyncio.timeout(TIMEOUT_S):
        while not (found := conn.execute(f"SELECT pid {LISTENERS} AND pid <> {other_than}").fetchall()):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return int(found[0][0])


def test_a_long_wait_listens_again_after_its_connection_broke(dsn: str, conn: psycopg.Connection) -> None:
    async def main() -> list[Any]:
        async with AsyncQueue(dsn) as queue:
            waiting = asyncio.create_task(queue.dequeue_until(asyncio.Event()))
            first = await listener(conn)
            conn.execute("SELECT pg_terminate_backend(%s)", (first,))
            await listener(conn, other_than=first)
            await queue.enqueue("at last")
            return [message.payload for message in await asyncio.wait_for(waiting, TIMEOUT_S)]

    assert asyncio.run(main()) == ["at last"]


def test_a_wait_without_a_listener_tries_again_to_listen(
    dsn: str, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example because there was no free connection."""
    monkeypatch.setattr("lonnymq.client.async_queue.LISTEN_AGAIN_MS", 100)
    real, tries = AsyncListener.connect, iter([True, True, False])

    async def connect(conninfo: str, channel: str) -> AsyncListener | None:
        return None if next(tries, False) else await real(conninfo, channel)

    monkeypatch.setattr(AsyncListener, "connect", connect)

    async def main() -> list[Any]:
        async with AsyncQueue(dsn) as queue:
            waiting = asyncio.create_task(queue.dequeue_until(asyncio.Event()))
            await listener(conn)
            await queue.enqueue("at last")
            return [message.payload for message in await asyncio.wait_for(waiting, TIMEOUT_S)]

    assert asyncio.run(main()) == ["at last"]
