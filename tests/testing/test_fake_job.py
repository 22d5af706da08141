"""job: a job for tests that call tasks directly."""

from __future__ import annotations

import asyncio

import pytest

from lonnymq import App, AsyncJob, BatchSummary, Job, Queue, StopReason
from lonnymq.testing import job
from lonnymq.worker.exceptions import LeaseLost
from lonnymq.worker.job import NoJob

app = App(Queue("host=/nowhere dbname=nothing"))


@app.task()
def send_pages(pages: int) -> str:
    current = Job.current()
    for page in range(current.state or 0, pages):
        if current.should_stop:
            break
        current.save(page + 1)
        current.progress(page / pages, "sending")
    else:
        current.complete(conn=object(), result=(pages, "sent"))
    return f"{current.channel} {current.task} {current.attempt}"


@app.task()
async def send_pages_asynchronously(pages: int) -> str:
    current = AsyncJob.current()
    for page in range(current.state or 0, pages):
        await current.save({"page": page})
    await current.complete(conn=object(), result="sent")
    return f"{current.channel} {current.task} {current.attempt}"


def test_a_plain_task() -> None:
    with job(attempt=2, state=3, channel="acme", task="send") as fake:
        assert send_pages(5) == "acme send 2"
    assert fake.saved == [4, 5]
    assert fake.progress == [(0.6, "sending"), (0.8, "sending")]
    assert fake.is_completed
    assert fake.result == [5, "sent"], "as JSON has it"


def test_an_asynchronous_task() -> None:
    with job(headers={"trace": "1"}, payload={"a": 1}, message_id=7, lane="slow") as fake:
        message = AsyncJob.current().message
        assert asyncio.run(send_pages_asynchronously(2)) == "default None 1"
    assert (message.id, message.lane, message.payload) == (7, "slow", {"a": 1})
    assert message.headers == {"trace": "1", "content-type": "application/json"}
    assert fake.saved == [{"page": 0}, {"page": 1}]
    assert (fake.is_completed, fake.result, fake.progress) == (True, "sent", [])


def test_a_task_that_is_told_to_stop() -> None:
    with job() as fake:
        fake.stop_reason = StopReason.SHUTDOWN
        send_pages(5)
    assert (fake.saved, fake.is_completed) == ([], False)


def test_a_lost_lease() -> None:
    with job() as fake:
        fake.is_lease_lost = True
        with pytest.raises(LeaseLost):
            send_pages(5)
        with pytest.raises(LeaseLost):
            send_pages(0)
        with pytest.raises(LeaseLost):
            asyncio.run(send_pages_asynchronously(1))
    assert (fake.saved, fake.is_completed) == ([], False)


def test_the_callback_of_a_batch() -> None:
    summary = BatchSummary(7, "import", total=3, completed=2, dead=1, failed_id=12)
    with job(batch=summary):
        assert Job.current().batch == summary
    with job():
        assert Job.current().batch is None


def test_it_is_the_current_job_in_its_block_only() -> None:
    with pytest.raises(NoJob, match=r"lonnymq\.testing\.job"):
        Job.current()
    with job(message_id=1):
        with job(message_id=2):
            assert Job.current().id == 2
        assert AsyncJob.current().id == 1
    with pytest.raises(NoJob):
        AsyncJob.current()
