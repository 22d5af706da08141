"""What taskiq asks of a result backend, without a broker."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel
from taskiq import TaskiqResult
from taskiq.depends.progress_tracker import TaskProgress
from taskiq.serializers import PickleSerializer

from lonnymq import AsyncQueue
from lonnymq.errors import InvalidArgument, NotEncodable, ResultUnknown
from lonnymq.taskiq import LonnyMQResultBackend
from tests.clock import FakeClock


class Invoice(BaseModel):
    number: int
    sent_at: datetime


class Odd(Exception):
    """Has an argument that JSON cannot have."""


def result(value: Any, error: BaseException | None = None) -> TaskiqResult[Any]:
    return TaskiqResult(
        is_err=error is not None,
        log="a log",
        return_value=value,
        execution_time=0.1,
        labels={"a": 1},
        error=error,
    )


def test_results(dsn: str, conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)

    async def main() -> None:
        backend: LonnyMQResultBackend[Any] = LonnyMQResultBackend(dsn, keep_result=60)
        await backend.startup()
        sent = Invoice(number=7, sent_at=datetime(2030, 1, 1, tzinfo=UTC))
        given: dict[str, Any] = {"one": 11, "none": None, "text": "zoë", "list": [1, {"two": [3.5]}]}
        for task_id, value in given.items():
            assert not await backend.is_result_ready(task_id)
            await backend.set_result(task_id, result(value))
            assert await backend.is_result_ready(task_id)
            assert await backend.get_result(task_id, with_logs=True) == result(value)
        assert (await backend.get_result("one")).log is None
        await backend.set_result("one", result(sent))
        assert Invoice.model_validate((await backend.get_result("one")).return_value) == sent
        await backend.set_result("one", result(None, ValueError("no", 7)))
        error = (await backend.get_result("one")).error
        assert isinstance(error, ValueError)
        assert error.args == ("no", 7)
        await backend.set_result("one", result(None, Odd(object())))
        assert isinstance((await backend.get_result("one")).error, Odd)
        await backend.set_result("one", result(object()))
        assert isinstance((await backend.get_result("one")).error, NotEncodable)
        for task_id in ("i" * 256, "i" * 255 + "/progress", "one/progress"):
            await backend.set_result(task_id, result(len(task_id)))
            assert (await backend.get_result(task_id)).return_value == len(task_id)
        assert await backend.get_progress("one") is None
        clock.advance(60_000)
        assert not await backend.is_result_ready("text")
        for task_id in ("text", "never was"):
            with pytest.raises(ResultUnknown):
                await backend.get_result(task_id)
        await backend.shutdown()

    asyncio.run(main())


def test_progress_and_another_serializer(dsn: str) -> None:
    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            plain: LonnyMQResultBackend[Any] = LonnyMQResultBackend(queue)
            pickled: LonnyMQResultBackend[Any] = LonnyMQResultBackend(queue, serializer=PickleSerializer())
            assert await plain.get_progress("one") is None
            for progress in (
                TaskProgress(state="STARTED", meta=0.5),
                TaskProgress(state="half", meta={"a": [1]}),
            ):
                await plain.set_progress("one", progress)
                assert await plain.get_progress("one") == progress
            assert not await plain.is_result_ready("one")
            await pickled.set_result("two", result({1, 2}))
            assert (await pickled.get_result("two")).return_value == {1, 2}
            await pickled.shutdown()
            assert await plain.is_result_ready("two"), "the queue is not the backend's to close"

    asyncio.run(main())
    with pytest.raises(InvalidArgument):
        LonnyMQResultBackend(dsn, keep_result=0)
