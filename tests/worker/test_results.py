"""The results of tasks: kept by the worker, awaited by the caller."""

import asyncio
import threading
import time
from typing import Any

import psycopg
import pytest

from lonnymq import App, AsyncJob, AsyncQueue, Created, Delivery, Job, Queue, Result
from lonnymq.errors import InvalidArgument, InvalidTime, MessageDead, NotEncodable, ResultUnknown
from tests.database import Connect
from tests.worker.serving import TIMEOUT_S, drain, serving, until


def test_what_a_task_returns_is_kept(queue: Queue, app: App) -> None:
    @app.task(keep_result=60)
    def add(a: int, b: int) -> int:
        return a + b

    @app.task(keep_result=60)
    async def listed(n: int) -> list[int]:
        return list(range(n))

    @app.task(keep_result=60)
    def silent() -> None: ...

    @app.task
    def plain() -> object:
        return object()

    made = [add.enqueue(1, 2), listed.enqueue(3), silent.enqueue()]
    not_kept = [plain.enqueue(), add.using(keep_result=0).enqueue(1, 1)]
    assert drain(app) == [None] * 5
    assert [handle.wait(timeout=TIMEOUT_S) for handle in made] == [3, [0, 1, 2], None]
    assert queue.result(made[0].id) == 3
    for handle in not_kept:
        with pytest.raises(ResultUnknown, match="is not kept"):
            handle.wait(timeout=TIMEOUT_S)


def test_a_call_can_keep_the_result_for_itself(app: App) -> None:
    @app.task
    def double(n: int) -> int:
        return 2 * n

    handle = double.using(keep_result=60).enqueue(4)
    drain(app)
    assert handle.wait() == 8


def test_the_error_of_a_dead_message_is_kept(queue: Queue, app: App) -> None:
    @app.task(keep_result=60, max_attempts=2, backoff=0)
    def fail() -> None:
        raise ValueError("no such customer")

    handle = fail.enqueue()
    drain(app)
    with pytest.raises(MessageDead, match="is dead: ValueError: no such customer") as caught:
        handle.wait(timeout=TIMEOUT_S)
    assert caught.value.error is not None
    assert "in fail" in caught.value.error
    queue.dead.discard([handle.id or 0])
    with pytest.raises(MessageDead, match="ValueError: no such customer"):
        queue.result(handle.id)


def test_a_value_that_cannot_be_kept_makes_a_dead_letter(queue: Queue, app: App) -> None:
    """The work is done, so the task does not run again."""
    runs = []

    @app.task(keep_result=60, backoff=0)
    def unfit() -> object:
        runs.append(1)
        return object()

    @app.task(keep_result=60, backoff=0)
    def large() -> str:
        runs.append(1)
        return "x" * 2000

    queue.set(content_max_bytes=1000)
    handles = [unfit.enqueue(), large.enqueue()]
    [error, nothing] = sorted(drain(app), key=repr, reverse=True)
    assert isinstance(error, NotEncodable)
    assert nothing is None
    assert len(runs) == 2
    with pytest.raises(MessageDead, match="unfit returned a object, which cannot be kept as its result"):
        handles[0].wait(timeout=TIMEOUT_S)
    with pytest.raises(MessageDead, match="the result of large is refused: the result is 2002 bytes long"):
        handles[1].wait(timeout=TIMEOUT_S)


def test_a_refused_result_does_not_stop_the_others(queue: Queue, app: App) -> None:
    @app.task(keep_result=60)
    def text(n: int) -> str:
        return "x" * n

    queue.set(content_max_bytes=1000)
    handles = [text.enqueue(2000 if n == 7 else n) for n in range(30)]
    drain(app)
    for n, handle in enumerate(handles):
        if n == 7:
            with pytest.raises(MessageDead, match="is refused"):
                handle.wait(timeout=TIMEOUT_S)
        else:
            assert handle.wait(timeout=TIMEOUT_S) == "x" * n


def test_a_handler_that_completes_in_its_own_transaction(dsn: str, app: App) -> None:
    @app.task(keep_result=60)
    def plain(n: int) -> int:
        with psycopg.connect(dsn) as conn:
            Job.current().complete(conn=conn, result=n + 1)
        return -1

    @app.task
    async def later(n: int) -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            await AsyncJob.current().complete(conn=conn, result=n + 1, keep_result=60)

    @app.task
    def forgetful() -> None:
        with psycopg.connect(dsn) as conn:
            Job.current().complete(conn=conn, result=1)

    handles = [plain.enqueue(1), later.enqueue(2)]
    assert drain(app) == [None, None]
    assert handles[0].wait() == 2
    assert app.queue.as_sync().result(handles[1].id) == 3
    forgetful.using(max_attempts=1).enqueue()
    [error] = drain(app)
    assert isinstance(error, InvalidArgument)
    assert "keeps no result" in str(error)


def test_the_handler_of_messages_without_a_task(queue: Queue, app: App) -> None:
    @app.consume
    def handle(message: Delivery) -> Any:
        return message.payload

    made = queue.enqueue({"n": 1}, keep_result=60)
    drain(app)
    assert queue.result(made.id) == {"n": 1}


def test_waiting_while_the_worker_runs(dsn: str) -> None:
    async def main() -> list[Any]:
        async with AsyncQueue(dsn) as queue:
            app = App(queue)

            @app.task(keep_result=60)
            async def double(n: int) -> int:
                await asyncio.sleep(0.01)
                return 2 * n

            async with serving(app):
                first = await double.enqueue_async(1).wait(timeout=TIMEOUT_S)
                handles = [await double.enqueue_async(n) for n in range(20)]
                task = asyncio.create_task(double.enqueue_async(50))
                rest = await asyncio.gather(*(handle.wait(timeout=TIMEOUT_S) for handle in handles))
                return [first, *rest, await (await task).wait(timeout=TIMEOUT_S)]

    assert asyncio.run(main()) == [2, *range(0, 40, 2), 100]


def test_a_handle_is_a_created(app: App) -> None:
    @app.task
    def work() -> None: ...

    handle = work.enqueue()
    assert handle == Created(handle.id, Result.CREATED)
    assert {handle} == {Created(handle.id, Result.CREATED)}
    assert repr(handle) == f"Handle(id={handle.id}, result=<Result.CREATED: 'created'>)"


def test_results_of_inline_calls(app: App) -> None:
    @app.task(keep_result=60)
    def pair(n: int) -> tuple[int, int]:
        return n, n

    @app.task(keep_result=60)
    async def later(n: int) -> int:
        return n

    @app.task
    def plain() -> int:
        return 1

    with app.inline():
        assert pair.enqueue(1).wait() == [1, 1], "as it is after it was kept"
        assert later.enqueue(2).wait(timeout=1) == 2
        assert asyncio.run(later.enqueue_async(3).wait()) == 3
        with pytest.raises(ResultUnknown):
            plain.enqueue().wait()


def test_a_schedule_keeps_the_results_of_its_task(app: App) -> None:
    @app.cron("* * * * *")
    @app.task(keep_result=60)
    def tick() -> int:
        return 1

    assert app.crons[0].message.options["keep_result_ms"] == 60_000


def test_wrong_times_are_refused(app: App) -> None:
    for wrong in (-1, "60"):
        with pytest.raises(InvalidTime):
            app.task(keep_result=wrong)(lambda: None)  # type: ignore[arg-type]


def test_progress_is_seen_while_the_task_runs(queue: Queue, app: App, connect: Connect) -> None:
    """The first report is written at once, and the last one soon, however many there are."""
    may_end = threading.Event()

    @app.task(keep_result=60)
    def render() -> str:
        job = Job.current()
        ends_at, n = time.monotonic() + 1.5, 0
        while time.monotonic() < ends_at:
            n += 1
            job.progress(1 / (1 + n % 100), f"page {n}")
        assert n > 1000
        job.progress(1e-50, "saving \0 \ud800")
        assert may_end.wait(TIMEOUT_S)
        return "done"

    @app.task
    async def later() -> None:
        AsyncJob.current().progress(0.25)
        await asyncio.to_thread(may_end.wait, TIMEOUT_S)

    handles = [render.enqueue(), later.enqueue()]
    conn = connect()
    conn.execute("CREATE TABLE public.report (id BIGINT)")
    conn.execute(
        "CREATE FUNCTION public.count_report () RETURNS TRIGGER LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO public.report VALUES (NEW.id); RETURN NEW; END'"
    )
    conn.execute(
        "CREATE TRIGGER count_report AFTER INSERT ON lonnymq.progress"
        " FOR EACH ROW EXECUTE FUNCTION public.count_report()"
    )
    begun_at = time.monotonic()

    async def main() -> None:
        async with serving(app):
            try:
                await until(lambda: queue.status(handles[0].id).progress == 0)
                assert queue.status(handles[0].id).progress_note == "saving \\0 \\ud800"
                await until(lambda: queue.status(handles[1].id).progress == 0.25)
                [(written,)] = conn.execute("SELECT COUNT(*) FROM public.report").fetchall()
                assert 3 <= written <= 2 * (time.monotonic() - begun_at + 2)
            finally:
                may_end.set()

    asyncio.run(main())
    found = queue.status(handles[0].id)
    assert (found.status, found.progress) == ("completed", None)


def test_wrong_progress_is_refused(app: App) -> None:
    @app.task(max_attempts=1)
    def work(fraction: float | str, note: Any) -> None:
        Job.current().progress(fraction, note)  # type: ignore[arg-type]

    for fraction, note in ((1.1, None), (-1, None), ("half", None), (0.5, 7)):
        work.enqueue(fraction, note)
    raised = drain(app)
    assert [type(error) for error in raised] == [InvalidArgument] * 4
    with app.inline():
        work.enqueue(0.5, "half")


def test_progress_is_not_written_for_who_reports_none(dsn: str, app: App, connect: Connect) -> None:
    @app.task
    def work() -> None: ...

    for _ in range(5):
        work.enqueue()
    assert drain(app) == [None] * 5
    assert connect().execute("SELECT COUNT(*) FROM lonnymq.progress").fetchone() == (0,)
