"""Schedules on a real database: one message per time, however many workers fire them, and whatever fails."""

import asyncio
import contextlib
import logging
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lonnymq import AsyncQueue
from lonnymq.client.calls import Request
from lonnymq.commands import Fired
from lonnymq.errors import InvalidArgument, NotPermitted, QueueClosed, SchemaMissing
from lonnymq.worker import scheduler
from lonnymq.worker.catch_up import CatchUp
from lonnymq.worker.cron import Cron, CronMessage, cron
from lonnymq.worker.scheduler import run_schedules
from tests.clock import FakeClock
from tests.database import AnyServer, unique_name
from tests.invariants import check, drain

pytestmark = pytest.mark.slow

TIMEOUT_S = 20.0
PASSWORD = "no secret"  # noqa: S105 - of a role that lives for one test
SECOND, MINUTE = 1000, 60_000
EVERY_SECOND = "* * * * * *"
IN_JANUARY = "0 0 1 1 *"


def every_second(catch_up: CatchUp = "all", name: str = "s", channel: str = "reports", cost: int = 2) -> Cron:
    message = CronMessage(
        channel,
        b"{}",
        {"headers": {"task": "report"}, "max_attempts": 3, "priority": 7, "cost": cost, "lane": "slow"},
    )
    return cron(name, EVERY_SECOND, message, catch_up=catch_up)


async def until(is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_true():
        assert time.monotonic() < deadline, f"timed out waiting for {what}"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def schedulers_running(
    dsn: str, *crons: Cron, times: int = 1
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """`times` schedulers at once, each with its own connections. They must stop without an error."""
    stop = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        queues = [await stack.enter_async_context(AsyncQueue(dsn, timeout=2)) for _ in range(times)]
        tasks = [asyncio.create_task(run_schedules(queue, crons, stop)) for queue in queues]
        try:
            yield tasks
        finally:
            stop.set()
            await asyncio.wait_for(asyncio.gather(*tasks), TIMEOUT_S)


def times_fired(conn: psycopg.Connection, channel: str = "reports") -> list[int]:
    query = "SELECT (headers->'scheduled-at')::BIGINT FROM message WHERE channel = %s ORDER BY id"
    return [row[0] for row in conn.execute(query, (channel,))]


def handled_until(conn: psycopg.Connection, name: str = "s") -> int:
    row = conn.execute("SELECT ticked_at FROM schedule WHERE name = %s", (name,)).fetchone()
    return 0 if row is None else int(row[0])


def set_schedule_back(conn: psycopg.Connection, ms: int, name: str = "s") -> None:
    """As if the schedule had not fired for `ms`."""
    conn.execute("SELECT * FROM schedule_open(ARRAY[%s])", (name,))
    conn.execute("UPDATE schedule SET ticked_at = clock_ms() - %s WHERE name = %s", (ms, name))


def is_without_gaps(times: list[int], every: int = SECOND) -> bool:
    return times == list(range(times[0], times[-1] + 1, every))


@pytest.fixture
def refreshes_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "REFRESH_S", 0.05)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, "lonnymq.worker")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "lonnymq.worker"]


def test_three_schedulers_make_one_message_per_time(dsn: str, conn: psycopg.Connection) -> None:
    async def three() -> None:
        async with schedulers_running(dsn, every_second(), every_second(name="t", channel="other"), times=3):
            await until(
                lambda: len(times_fired(conn)) >= 3 <= len(times_fired(conn, "other")), "three messages"
            )

    asyncio.run(three())
    for channel in ("reports", "other"):
        times = times_fired(conn, channel)
        assert is_without_gaps(times)
        assert all(time_ % SECOND == 0 for time_ in times)
    late = conn.execute("SELECT MIN(created_at - (headers->'scheduled-at')::BIGINT) FROM message").fetchone()
    assert late is not None
    assert 0 <= late[0] < 500, "not before its time, nor long after"
    made = "SELECT headers->>'task', content, max_attempts, priority, cost, lane FROM message LIMIT 1"
    assert conn.execute(made).fetchone() == ("report", b"{}", 3, 7, 2, "slow")
    assert len(drain(conn)) > 0
    check(conn)


def test_the_definition_is_stored(dsn: str, conn: psycopg.Connection) -> None:
    async def brief() -> None:
        daily = cron("s", "30 7 * * *", every_second().message, tz="Europe/Berlin", catch_up="none")
        async with schedulers_running(dsn, daily), AsyncQueue(dsn) as queue:
            await until(lambda: handled_until(conn) > 0, "the schedule to be there")
            found = await queue.schedule("s")
            assert found is not None
            assert (found.expression, found.time_zone, found.catch_up) == (
                "30 7 * * *",
                "Europe/Berlin",
                "none",
            )
            created = await queue.run_schedule("s")
            assert created.result == "created"

    asyncio.run(brief())
    made = (
        "SELECT headers - 'scheduled-at', content, max_attempts, priority, cost, lane, channel FROM message"
    )
    headers = {"task": "report", "schedule-run": True}
    assert conn.execute(made).fetchall() == [(headers, b"{}", 3, 7, 2, "slow", "reports")]


def test_pause_and_resume(dsn: str, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times during the pause are skipped, although catch_up is all."""
    monkeypatch.setattr(scheduler, "PAUSED_S", 0.05)

    async def brief() -> None:
        async with schedulers_running(dsn, every_second(), times=2), AsyncQueue(dsn) as queue:
            await until(lambda: len(times_fired(conn)) >= 1, "a first message")
            await queue.pause_schedule("s")
            before = times_fired(conn)
            paused_at = before[-1]
            row = "SELECT clock_ms() > %s"
            await until(
                lambda: conn.execute(row, (paused_at + 3 * SECOND,)).fetchone() == (True,), "missed times"
            )
            assert times_fired(conn) == before
            await queue.resume_schedule("s")
            resumed_at = handled_until(conn)
            await until(lambda: len(times_fired(conn)) >= len(before) + 2, "two more")
            later = times_fired(conn)[len(before) :]
            assert later[0] > resumed_at - SECOND
            assert later[0] - paused_at >= 3 * SECOND
            assert is_without_gaps(later)

    asyncio.run(brief())


def test_in_threads(dsn: str, conn: psycopg.Connection) -> None:
    """Each thread has its own event loop."""
    is_over = threading.Event()

    async def one() -> None:
        async with schedulers_running(dsn, every_second()):
            await until(is_over.is_set, "the end")

    threads = [threading.Thread(target=asyncio.run, args=(one(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        asyncio.run(until(lambda: len(times_fired(conn)) >= 3, "three messages"))
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert is_without_gaps(times_fired(conn))


def _run_for_ever(dsn: str) -> None:
    async def for_ever() -> None:
        async with AsyncQueue(dsn) as queue:
            await run_schedules(queue, [every_second()], asyncio.Event())

    asyncio.run(for_ever())


@contextmanager
def processes(dsn: str, count: int) -> Iterator[Callable[[], None]]:
    """`count` processes that fire. The function it yields kills one of them and starts another."""
    context = multiprocessing.get_context("spawn")

    def start() -> Any:
        process = context.Process(target=_run_for_ever, args=(dsn,), daemon=True)
        process.start()
        return process

    running = [start() for _ in range(count)]

    def replace() -> None:
        victim = running.pop(random.randrange(len(running)))
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        running.append(start())

    try:
        yield replace
    finally:
        for process in running:
            process.kill()
            process.join()


def test_processes_that_are_killed(dsn: str, conn: psycopg.Connection) -> None:
    """Some are killed just when they fire: nothing is fired twice, and nothing is lost."""
    with processes(dsn, 3) as replace:
        asyncio.run(until(lambda: len(times_fired(conn)) >= 1, "a first message"))
        for _ in range(6):
            row = conn.execute("SELECT clock_ms() % 1000 / 1000.0").fetchone()
            assert row is not None
            time.sleep(1.0 - float(row[0]) + random.uniform(-0.01, 0.01))  # to kill it just when it fires
            replace()
        seen = len(times_fired(conn))
        asyncio.run(until(lambda: len(times_fired(conn)) >= seen + 2, "two more"))
    times = times_fired(conn)
    assert len(times) >= 8
    assert is_without_gaps(times)


def test_workers_with_different_expressions(dsn: str, conn: psycopg.Connection) -> None:
    """While a new version is rolled out, no time fires twice."""

    async def both() -> None:
        old = every_second("one")
        new = cron("s", "*/2 * * * * *", CronMessage("reports", b"{}"), tz="Asia/Kolkata", catch_up="none")
        async with schedulers_running(dsn, old, times=2), schedulers_running(dsn, new, times=2):
            await until(lambda: len(times_fired(conn)) >= 4, "four messages")

    asyncio.run(both())
    times = times_fired(conn)
    assert times == sorted(set(times))


def test_a_new_schedule_starts_now_and_catches_up_nothing(dsn: str, conn: psycopg.Connection) -> None:
    row = conn.execute("SELECT clock_ms()").fetchone()
    assert row is not None

    async def first() -> None:
        async with schedulers_running(dsn, every_second()):
            await until(lambda: bool(times_fired(conn)), "a first message")

    asyncio.run(first())
    assert times_fired(conn)[0] > row[0]


@pytest.mark.parametrize(("catch_up", "made"), [("one", 1), ("all", 2400), ("none", 0)])
def test_after_a_downtime(
    dsn: str, conn: psycopg.Connection, logged: Callable[[], list[str]], catch_up: CatchUp, made: int
) -> None:
    """Three schedulers start after forty minutes in which a schedule of every second did not fire."""
    clock = FakeClock(conn, at=1_763_208_000_500)
    set_schedule_back(conn, 0)
    was_handled_until = handled_until(conn)
    clock.advance(40 * MINUTE)
    last = clock.at - 500

    async def back() -> None:
        every = cron("s", EVERY_SECOND, CronMessage("reports", b"{}"), catch_up=catch_up)
        if catch_up == "none":
            clock.advance(2 * MINUTE)  # more than the grace, for an hourly schedule
            every = cron("s", "0 40 * * * *", CronMessage("reports", b"{}"), catch_up=catch_up)
        async with schedulers_running(dsn, every, times=3):
            await until(lambda: handled_until(conn) > was_handled_until, "the schedule to advance")
            await until(
                lambda: handled_until(conn) >= last // MINUTE * MINUTE, "the schedule to be up to date"
            )

    asyncio.run(back())
    times = times_fired(conn)
    assert len(times) == made
    if catch_up == "one":
        assert times == [last]
    if catch_up == "all":
        assert is_without_gaps(times)
        assert (times[0], times[-1]) == (was_handled_until + 500, last)
    assert any("missed times" in line for line in logged()) == (catch_up != "all")


def test_nothing_fires_before_its_time(
    dsn: str, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database's clock stands still while the worker's runs: the worker tries, and learns the time."""
    clock = FakeClock(conn, at=1_763_208_000_900)
    tries = []
    perform = AsyncQueue.perform

    async def counted(queue: AsyncQueue, request: Request[Any]) -> Any:
        answer = await perform(queue, request)
        if isinstance(answer, Fired):
            tries.append(answer.result)
        return answer

    monkeypatch.setattr(AsyncQueue, "perform", counted)

    async def both() -> None:
        async with schedulers_running(dsn, every_second(), times=2):
            await until(lambda: handled_until(conn) > 0, "the schedule to be there")
            await until(lambda: len(tries) >= 4, "a few tries")
            assert set(tries) == {"early"}
            assert times_fired(conn) == []
            clock.advance(100)
            await until(lambda: times_fired(conn) == [clock.at], "the message")

    begun = time.monotonic()
    asyncio.run(both())
    assert len(tries) <= 2 * (time.monotonic() - begun) / 0.1 + 2, (
        "one try per tenth of a second, which is what was left"
    )


def test_times_go_by_the_databases_clock(dsn: str, conn: psycopg.Connection) -> None:
    """The database's clock is three days ahead of this machine's."""
    conn.execute(
        "CREATE OR REPLACE FUNCTION clock_ms () RETURNS BIGINT LANGUAGE sql VOLATILE AS "
        "$$SELECT FLOOR(EXTRACT(EPOCH FROM clock_timestamp() + INTERVAL '3 days') * 1000)::BIGINT$$"
    )

    async def two() -> None:
        async with schedulers_running(dsn, every_second(), times=2):
            await until(lambda: len(times_fired(conn)) >= 2, "two messages")

    asyncio.run(two())
    times = times_fired(conn)
    assert is_without_gaps(times)
    assert times[0] > (time.time() + 2.9 * 86_400) * 1000


def test_a_clock_that_was_set_back(
    dsn: str, conn: psycopg.Connection, logged: Callable[[], list[str]]
) -> None:
    """What has fired does not fire again, and a warning is logged."""
    set_schedule_back(conn, -MINUTE)
    was_handled_until = handled_until(conn)

    async def one() -> None:
        async with schedulers_running(dsn, every_second()):
            await until(
                lambda: any("ahead of the database's clock" in line for line in logged()), "a warning"
            )
            await asyncio.sleep(1.1)  # one time passes, and nothing may fire

    asyncio.run(one())
    assert (times_fired(conn), handled_until(conn)) == ([], was_handled_until)


def test_stops_at_once(dsn: str, conn: psycopg.Connection) -> None:
    async def one() -> float:
        async with schedulers_running(dsn, cron("s", IN_JANUARY, CronMessage("reports", b"{}"))):
            await until(lambda: handled_until(conn) > 0, "the schedule to be there")
            begun = time.monotonic()
        return time.monotonic() - begun

    assert asyncio.run(one()) < 2


def test_an_idle_scheduler_writes_nothing(dsn: str, conn: psycopg.Connection, refreshes_often: None) -> None:
    def written() -> list[Any]:
        """It changes with each version of a row."""
        return conn.execute("SELECT name, xmin::TEXT, ctid::TEXT FROM schedule").fetchall()

    def transactions() -> int:
        row = conn.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        return int(row.fetchall()[0][0])

    async def one() -> None:
        async with schedulers_running(dsn, cron("s", IN_JANUARY, CronMessage("reports", b"{}")), times=2):
            await until(lambda: handled_until(conn) > 0, "the schedule to be there")
            before, count = written(), transactions()
            await until(lambda: transactions() > count + 20, "twenty reads")
            assert written() == before
            assert times_fired(conn) == []

    asyncio.run(one())


def test_a_deleted_schedule_starts_again(dsn: str, conn: psycopg.Connection) -> None:
    """When it is next due: the scheduler that tries to fire it notices that it is gone."""

    async def one() -> None:
        async with schedulers_running(dsn, every_second(), times=2):
            await until(lambda: len(times_fired(conn)) >= 1, "a message")
            conn.execute("SELECT schedule_delete('s')")
            seen = len(times_fired(conn))
            await until(lambda: len(times_fired(conn)) > seen, "another message")

    asyncio.run(one())
    assert times_fired(conn) == sorted(set(times_fired(conn)))


def test_a_full_channel_is_logged_as_an_error(
    dsn: str, conn: psycopg.Connection, logged: Callable[[], list[str]]
) -> None:
    conn.execute("SELECT channel_set('reports', p_max_size => 1)")

    async def one() -> None:
        async with schedulers_running(dsn, every_second()):
            await until(lambda: any("channel 'reports' is full" in line for line in logged()), "a warning")
            conn.execute("SELECT channel_set('reports', p_max_size => 0)")
            await until(lambda: len(times_fired(conn)) >= 2, "another message")

    asyncio.run(one())
    assert not is_without_gaps(times_fired(conn))
    refused = "SELECT refused >= 1, refused_at BETWEEN opened_at AND clock_ms() FROM schedule_list()"
    assert conn.execute(refused).fetchone() == (True, True)


def test_a_schedule_that_cannot_fire_does_not_delay_others(
    dsn: str, conn: psycopg.Connection, logged: Callable[[], list[str]]
) -> None:
    async def one() -> None:
        async with schedulers_running(dsn, every_second(name="a", cost=-1), every_second(name="b")):
            await until(lambda: len(times_fired(conn)) >= 3, "three messages of the other")

    asyncio.run(one())
    assert is_without_gaps(times_fired(conn))
    failures = [line for line in logged() if "'a' could not fire" in line]
    assert 1 <= len(failures) <= 3, "it is logged, but not every time"


def terminate_connections(conn: psycopg.Connection) -> None:
    conn.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def test_connections_that_break(dsn: str, conn: psycopg.Connection) -> None:
    """Again and again, at any moment: each time is caught up once."""

    async def three() -> None:
        async with schedulers_running(dsn, every_second(), times=3):
            while len(times_fired(conn)) < 3:
                terminate_connections(conn)
                await asyncio.sleep(random.uniform(0, 0.2))
            seen = len(times_fired(conn))
            await until(lambda: len(times_fired(conn)) >= seen + 2, "two more")

    asyncio.run(three())
    assert is_without_gaps(times_fired(conn))


def test_a_database_that_is_down_for_a_while(
    dsn: str, server: AnyServer, conn: psycopg.Connection, logged: Callable[[], list[str]]
) -> None:
    name = sql.Identifier(conn.info.dbname)

    async def two() -> None:
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as admin:
            async with schedulers_running(dsn, every_second(), times=2):
                await until(lambda: len(times_fired(conn)) >= 1, "a message")
                admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS FALSE").format(name))
                try:
                    terminate_connections(conn)
                    await until(
                        lambda: sum("is unavailable" in line for line in logged()) >= 2, "both to notice"
                    )
                    await asyncio.sleep(2)  # times are missed
                finally:
                    admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS TRUE").format(name))
                await until(
                    lambda: sum("is available again" in line for line in logged()) >= 2,
                    "both to notice that it is back",
                )
                seen = len(times_fired(conn))
                await until(lambda: len(times_fired(conn)) > seen, "another message")

    asyncio.run(two())
    assert is_without_gaps(times_fired(conn))
    assert len(times_fired(conn)) >= 3
    assert sum("is unavailable" in line for line in logged()) == 2, "each logs it once"


def test_a_start_while_the_database_is_down(
    dsn: str, server: AnyServer, conn: psycopg.Connection, logged: Callable[[], list[str]]
) -> None:
    name = sql.Identifier(conn.info.dbname)

    async def one() -> None:
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as admin:
            admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS FALSE").format(name))
            async with schedulers_running(dsn, every_second()):
                await until(lambda: any("is unavailable" in line for line in logged()), "it to notice")
                admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS TRUE").format(name))
                await until(lambda: bool(times_fired(conn)), "a message")

    asyncio.run(one())


def test_errors_of_the_first_read_are_raised(dsn: str, conn: psycopg.Connection) -> None:
    name = unique_name("consumer")
    role = sql.Identifier(name)
    conn.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(PASSWORD)))
    login = make_conninfo(dsn, user=name, password=PASSWORD)

    async def one(address: str, *crons: Cron, **options: Any) -> None:
        async with AsyncQueue(address, **options) as queue:
            await asyncio.wait_for(run_schedules(queue, crons, asyncio.Event()), TIMEOUT_S)

    try:
        with pytest.raises(NotPermitted):
            asyncio.run(one(login, every_second()))
    finally:
        conn.execute(sql.SQL("DROP ROLE {}").format(role))
    with pytest.raises(SchemaMissing):
        asyncio.run(one(dsn, every_second(), schema="elsewhere"))
    with pytest.raises(InvalidArgument, match="two schedules have the name 's'"):
        asyncio.run(one(dsn, every_second(), every_second("one")))
    asyncio.run(one(dsn))


def test_a_closed_queue_stops_the_scheduler(dsn: str, conn: psycopg.Connection) -> None:
    async def one() -> None:
        queue = AsyncQueue(dsn)
        task = asyncio.create_task(run_schedules(queue, [every_second()], asyncio.Event()))
        await until(lambda: handled_until(conn) > 0, "the schedule to be there")
        await queue.close()
        with pytest.raises(QueueClosed):
            await asyncio.wait_for(task, TIMEOUT_S)

    asyncio.run(one())


def test_later_errors_are_logged_and_retried(
    dsn: str, conn: psycopg.Connection, refreshes_often: None, logged: Callable[[], list[str]]
) -> None:
    """A table disappears and comes back, as in an upgrade that went wrong."""

    async def one() -> None:
        async with schedulers_running(dsn, every_second()):
            await until(lambda: bool(times_fired(conn)), "a message")
            conn.execute("ALTER TABLE schedule RENAME TO gone")
            await until(lambda: any("could not read the schedules" in line for line in logged()), "an error")
            conn.execute("ALTER TABLE gone RENAME TO schedule")
            seen = len(times_fired(conn))
            await until(lambda: len(times_fired(conn)) > seen, "another message")

    asyncio.run(one())
    assert is_without_gaps(times_fired(conn))
