"""A dequeue that waits: its steps, what it asks for and what it makes of each answer; and its ear."""

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

PATIENCE = 10
WISH = DequeueRequest(1, None, None, None, async_commit=False, is_busy=True)
NOTHING = Dequeued([], 0)
FOUND = Dequeued([Delivery(1, "acme", b"", None, None, 1, UUID(int=7), 0)], None)
QUIET = Look(is_due=False, again_at=POLL_MS, is_awaited=True, now_at=0)
UNHEARD = Look(is_due=False, again_at=POLL_MS, is_awaited=False, now_at=0)
VAIN = [(MessageDequeue, NOTHING), (Dispatch, False), (MessageDequeue, NOTHING)]
IN_SILENCE = False
DISCARDED = (Sleep, IN_SILENCE)
ASLEEP = [*VAIN, (SleepLook, UNHEARD), DISCARDED, (SleepBegin, Awaited(3, is_sure=True)), (SleepLook, QUIET)]


def walk(steps: Steps, script: Iterable[tuple[type, Any]]) -> Any:
    """Answer what is asked as it is written; the step that comes next."""
    step = next(steps)
    for kind, answer in script:
        assert isinstance(step, kind)
        step = steps.send(answer)
    return step


def test_what_was_taken_is_handed_over_before_anything_else_can_fail() -> None:
    """It is leased: a look that failed now would leave it to nobody until the lease ends."""
    steps = take_or_wait(WISH, None, is_listening=True)
    with pytest.raises(StopIteration) as end:
        walk(steps, [*ASLEEP, (Sleep, True), (Pair, FOUND)])
    assert end.value.value == FOUND.deliveries


def test_half_of_what_was_asked_for_is_handed_over_too() -> None:
    steps = take_or_wait(
        DequeueRequest(2, None, None, None, async_commit=False, is_busy=True), None, is_listening=True
    )
    some = Dequeued(FOUND.deliveries, 0)
    with pytest.raises(StopIteration) as end:
        walk(steps, [*ASLEEP, (Sleep, True), (Pair, some)])
    assert end.value.value == FOUND.deliveries, "and at once: no other dispatch and dequeue comes first"


def test_a_sleep_that_still_stands_is_not_asked_for_again() -> None:
    """Nor is a notification discarded that came while it looked."""
    steps = take_or_wait(WISH, None, is_listening=True)
    step = walk(steps, [*ASLEEP, (Sleep, False), (SleepLook, QUIET), (Sleep, False), (SleepLook, QUIET)])
    assert step == Sleep(POLL_MS)


def test_a_sleep_that_somebody_ended_is_asked_for_before_the_next_look() -> None:
    steps = take_or_wait(WISH, None, is_listening=True)
    step = walk(steps, [*ASLEEP, (Sleep, False), (SleepLook, UNHEARD)])
    assert step == Sleep(0)
    assert steps.send(IN_SILENCE) == SleepBegin(3)
    assert steps.send(Awaited(4, is_sure=True)) == SleepLook(4)


def test_who_is_not_sure_looks_again_in_a_moment_and_later_once_a_second() -> None:
    steps = take_or_wait(WISH, None, is_listening=True)
    step = walk(steps, [*VAIN, (SleepLook, UNHEARD)])
    naps = []
    for _ in range(12):
        assert step == Sleep(0)
        assert steps.send(IN_SILENCE) == SleepBegin(None), "who was not sure has nothing to stand on"
        assert steps.send(Awaited(3, is_sure=False)) == SleepLook(None)
        nap = steps.send(UNHEARD)
        assert isinstance(nap, Sleep)
        naps.append(nap.milliseconds)
        assert steps.send(IN_SILENCE) == SleepLook(None)
        step = steps.send(UNHEARD)
    assert naps[:4] == [UNSURE_MS, 2 * UNSURE_MS, 4 * UNSURE_MS, 8 * UNSURE_MS]
    assert naps[-1] == POLL_MS


def test_what_is_due_is_not_slept_over() -> None:
    due = Look(is_due=True, again_at=0, is_awaited=True, now_at=0)
    steps = take_or_wait(WISH, None, is_listening=True)
    with pytest.raises(StopIteration) as end:
        walk(steps, [*ASLEEP[:-1], (SleepLook, due), (MessageDequeue, FOUND)])
    assert end.value.value == FOUND.deliveries


LISTENERS = (
    "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'lonnymq listen'"
    " AND query LIKE 'LISTEN%'"
)


async def listener(conn: psycopg.Connection, other_than: int = 0) -> int:
    """The process that serves it."""
    async with asyncio.timeout(PATIENCE):
        while not (found := conn.execute(f"SELECT pid {LISTENERS} AND pid <> {other_than}").fetchall()):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return int(found[0][0])


def test_who_waits_for_long_listens_again_after_its_connection_broke(
    dsn: str, conn: psycopg.Connection
) -> None:
    async def main() -> list[Any]:
        async with AsyncQueue(dsn) as queue:
            waiting = asyncio.create_task(queue.dequeue_until(asyncio.Event()))
            first = await listener(conn)
            conn.execute("SELECT pg_terminate_backend(%s)", (first,))
            await listener(conn, other_than=first)
            await queue.enqueue("at last")
            return [message.payload for message in await asyncio.wait_for(waiting, PATIENCE)]

    assert asyncio.run(main()) == ["at last"]


def test_who_had_no_listener_tries_again(
    dsn: str, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There was no connection left for it, say."""
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
            return [message.payload for message in await asyncio.wait_for(waiting, PATIENCE)]

    assert asyncio.run(main()) == ["at last"]
