"""How long a waiting dequeue sleeps."""

from collections.abc import Generator
from typing import Any

import pytest

from lonnymq.client import wait
from lonnymq.client.consume import DequeueRequest
from lonnymq.commands import Awaited, Dequeued, Dispatch, Look, MessageDequeue, SleepBegin, SleepLook
from lonnymq.statement import Command

HOUR = 3_600_000


def test_a_clock_that_jumps_between_two_readings_does_not_lengthen_a_sleep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`again_at` was read after the clock had jumped an hour ahead, `now_at` before that."""

    def take(_wish: DequeueRequest) -> Generator[Command[Any], Any, Dequeued]:
        yield from ()
        return Dequeued([], HOUR + 500)

    monkeypatch.setattr(wait, "take", take)
    steps = wait.take_or_wait(
        DequeueRequest(1, None, None, None, async_commit=False, is_busy=True), None, is_listening=False
    )
    assert isinstance(next(steps), SleepLook)
    nap = steps.send(Look(now_at=0, again_at=0, is_due=True, is_awaited=True))
    assert nap == wait.Sleep(wait.POLL_MS)


def test_a_consumer_of_some_lanes_looks_only_at_those() -> None:
    steps = wait.take_or_wait(
        DequeueRequest(1, None, None, ["slow"], async_commit=False, is_busy=True), None, is_listening=True
    )
    step = next(steps)
    looks: list[object] = []
    answers: dict[type, object] = {
        MessageDequeue: Dequeued([], 0),
        Dispatch: False,
        wait.Sleep: False,
        SleepBegin: Awaited(3, is_sure=True),
        SleepLook: Look(now_at=0, again_at=0, is_due=False, is_awaited=False),
    }
    while len(looks) < 3:
        looks += [step] if isinstance(step, SleepLook) else []
        step = steps.send(answers[type(step)])
    assert looks == [SleepLook(None, ["slow"]), SleepLook(3, ["slow"]), SleepLook(3, ["slow"])]
