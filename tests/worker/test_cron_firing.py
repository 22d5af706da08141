"""Schedules on a real database: one message a tick, however many fire them, whatever happens to them."""

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
from lonnymq.worker.scheduler import tend
from tests.clock import FakeClock
from tests.database import AnyServer, unique_name
from tests.invariants import check, drain

PATIENCE = 20.0
PASSWORD = "no secret"  # noqa: S105 - of a role that lives for one test
SECOND, MINUTE = 1000, 60_000
EVERY_SECOND = "* * * * * *"
IN_JANUARY = "0 0 1 1 *"


def every_second(catch_up: CatchUp = "all", name: str = "s", channel: str = "reports") -> Cron:
    message = CronMessage(
        channel,
        b"{}",
        {"headers": {"task": "report"}, "max_attempts": 3, "priority": 7, "cost": 2, "lane": "slow"},
    )
    return cron(name, EVERY_SECOND, message, catch_up=catch_up)


async def until(is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def tended(dsn: str, *crons: Cron, times: int = 1) -> AsyncIterator[list[asyncio.Task[None]]]:
    """So many at once, each with connections of its own; they end without an error."""
    stop = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        queues = [await stack.enter_async_context(AsyncQueue(dsn, timeout=2)) for _ in range(times)]
        tasks = [asyncio.create_task(tend(queue, crons, stop)) for queue in queues]
        try:
            yield tasks
        finally:
            stop.set()
            await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)


def ticks_made(conn: psycopg.Connection, channel: str = "reports") -> list[int]:
    query = "SELECT (headers->'scheduled-at')::BIGINT FROM message WHERE channel = %s ORDER BY id"
    return [row[0] for row in conn.execute(query, (channel,))]


def stands_at(conn: psycopg.Connection, name: str = "s") -> int:
    row = conn.execute("SELECT ticked_at FROM schedule WHERE name = %s", (name,)).fetchone()
    return 0 if row is None else int(row[0])


def set_back(conn: psycopg.Connection, ms: int, name: str = "s") -> None:
    """As if nobody had fired for so long."""
    conn.execute("SELECT * FROM schedule_open(ARRAY[%s])", (name,))
    conn.execute("UPDATE schedule SET ticked_at = clock_ms() - %s WHERE name = %s", (ms, name))


def is_without_gaps(ticks: list[int], every: int = SECOND) -> bool:
    return ticks == list(range(ticks[0], ticks[-1] + 1, every))


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "LOOK_SECONDS", 0.05)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, "lonnymq.worker")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "lonnymq.worker"]


def test_one_message_a_tick_from_three_at_once(dsn: str, conn: psycopg.Connection) -> None:
    async def three() -> None:
        async with tended(dsn, every_second(), every_second(name="t", channel="other"), times=3):
            await until(lambda: len(ticks_made(conn)) >= 3 <= len(ticks_made(conn, "other")), "three ticks")

    asyncio.run(three())
    for channel in ("reports", "other"):
        ticks = ticks_made(conn, channel)
        assert is_without_gaps(ticks)
        assert all(tick % SECOND == 0 for tick in ticks)
    late = conn.execute("SELECT MIN(created_at - (headers->'scheduled-at')::BIGINT) FROM message").fetchone()
    assert late is not None
    assert 0 <= late[0] < 500, "not before its time, nor long after"
    made = "SELECT headers->>'task', content, max_attempts, priority, cost, lane FROM message LIMIT 1"
    assert conn.execute(made).fetchone() == ("report", b"{}", 3, 7, 2, "slow")
    assert len(drain(conn)) > 0
    check(conn)


def test_in_threads(dsn: str, conn: psycopg.Connection) -> None:
    """Each with a loop of its own."""
    is_over = threading.Event()

    async def one() -> None:
        async with tended(dsn, every_second()):
            await until(is_over.is_set, "the end")

    threads = [threading.Thread(target=asyncio.run, args=(one(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        asyncio.run(until(lambda: len(ticks_made(conn)) >= 3, "three ticks"))
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert is_without_gaps(ticks_made(conn))


def _tend_for_ever(dsn: str) -> None:
    async def for_ever() -> None:
        async with AsyncQueue(dsn) as queue:
            await tend(queue, [every_second()], asyncio.Event())

    asyncio.run(for_ever())


@contextmanager
def processes(dsn: str, count: int) -> Iterator[Callable[[], None]]:
    """So many that fire; the call kills one of them and starts another."""
    context = multiprocessing.get_context("spawn")

    def start() -> Any:
        process = context.Process(target=_tend_for_ever, args=(dsn,), daemon=True)
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


@pytest.mark.slow
def test_processes_that_are_killed(dsn: str, conn: psycopg.Connection) -> None:
    """Some of them at a tick: nothing is fired twice, nothing lost."""
    with processes(dsn, 3) as replace:
        asyncio.run(until(lambda: len(ticks_made(conn)) >= 1, "a first tick"))
        for _ in range(6):
            row = conn.execute("SELECT clock_ms() % 1000 / 1000.0").fetchone()
            assert row is not None
            time.sleep(1.0 - float(row[0]) + random.uniform(-0.01, 0.01))  # to hit the tick, not to await it
            replace()
        seen = len(ticks_made(conn))
        asyncio.run(until(lambda: len(ticks_made(conn)) >= seen + 2, "two more"))
    ticks = ticks_made(conn)
    assert len(ticks) >= 8
    assert is_without_gaps(ticks)


def test_workers_that_read_it_otherwise(dsn: str, conn: psycopg.Connection) -> None:
    """While a new version is rolled out: no tick fires twice, whoever is ahead."""

    async def both() -> None:
        old = every_second("one")
        new = cron("s", "*/2 * * * * *", CronMessage("reports", b"{}"), tz="Asia/Kolkata", catch_up="none")
        async with tended(dsn, old, times=2), tended(dsn, new, times=2):
            await until(lambda: len(ticks_made(conn)) >= 4, "four ticks")

    asyncio.run(both())
    ticks = ticks_made(conn)
    assert ticks == sorted(set(ticks))


def test_begins_now_and_makes_up_for_nothing(dsn: str, conn: psycopg.Connection) -> None:
    row = conn.execute("SELECT clock_ms()").fetchone()
    assert row is not None

    async def first() -> None:
        async with tended(dsn, every_second()):
            await until(lambda: bool(ticks_made(conn)), "a first tick")

    asyncio.run(first())
    assert ticks_made(conn)[0] > row[0]


@pytest.mark.parametrize(("catch_up", "made"), [("one", 1), ("all", 2400), ("none", 0)])
def test_after_a_downtime(
    dsn: str, conn: psycopg.Connection, said: Callable[[], list[str]], catch_up: CatchUp, made: int
) -> None:
    """Three at once come back to a schedule of each second, of which forty minutes were missed."""
    clock = FakeClock(conn, at=1_763_208_000_500)
    set_back(conn, 0)
    stood_at = stands_at(conn)
    clock.advance(40 * MINUTE)
    last = clock.at - 500

    async def back() -> None:
        every = cron("s", EVERY_SECOND, CronMessage("reports", b"{}"), catch_up=catch_up)
        if catch_up == "none":
            clock.advance(2 * MINUTE)  # beyond what counts as being on time, for a schedule of each hour
            every = cron("s", "0 40 * * * *", CronMessage("reports", b"{}"), catch_up=catch_up)
        async with tended(dsn, every, times=3):
            await until(lambda: stands_at(conn) > stood_at, "the schedule to move")
            await until(lambda: stands_at(conn) >= last // MINUTE * MINUTE, "the schedule to be up to date")

    asyncio.run(back())
    ticks = ticks_made(conn)
    assert len(ticks) == made
    if catch_up == "one":
        assert ticks == [last]
    if catch_up == "all":
        assert is_without_gaps(ticks)
        assert (ticks[0], ticks[-1]) == (stood_at + 500, last)
    assert any("missed ticks" in line for line in said()) == (catch_up != "all")


def test_not_before_its_time(dsn: str, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database's clock stands still, the worker's goes on: it tries, and is told what time it is."""
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
        async with tended(dsn, every_second(), times=2):
            await until(lambda: stands_at(conn) > 0, "the schedule to be there")
            await until(lambda: len(tries) >= 4, "a few tries")
            assert set(tries) == {"early"}
            assert ticks_made(conn) == []
            clock.advance(100)
            await until(lambda: ticks_made(conn) == [clock.at], "the tick")

    begun = time.monotonic()
    asyncio.run(both())
    assert len(tries) <= 2 * (time.monotonic() - begun) / 0.1 + 2, (
        "one a tenth of a second, which is what was left"
    )


def test_the_databases_clock_counts(dsn: str, conn: psycopg.Connection) -> None:
    """It is three days ahead of this machine's, or the other way round."""
    conn.execute(
        "CREATE OR REPLACE FUNCTION clock_ms () RETURNS BIGINT LANGUAGE sql VOLATILE AS "
        "$$SELECT FLOOR(EXTRACT(EPOCH FROM clock_timestamp() + INTERVAL '3 days') * 1000)::BIGINT$$"
    )

    async def two() -> None:
        async with tended(dsn, every_second(), times=2):
            await until(lambda: len(ticks_made(conn)) >= 2, "two ticks")

    asyncio.run(two())
    ticks = ticks_made(conn)
    assert is_without_gaps(ticks)
    assert ticks[0] > (time.time() + 2.9 * 86_400) * 1000


def test_a_clock_that_was_set_back(dsn: str, conn: psycopg.Connection, said: Callable[[], list[str]]) -> None:
    """What has fired does not fire again, and somebody is told."""
    set_back(conn, -MINUTE)
    stood_at = stands_at(conn)

    async def one() -> None:
        async with tended(dsn, every_second()):
            await until(lambda: any("ahead of the database's clock" in line for line in said()), "a warning")
            await asyncio.sleep(1.1)  # a tick comes by, and nothing is to be seen

    asyncio.run(one())
    assert (ticks_made(conn), stands_at(conn)) == ([], stood_at)


def test_stops_at_once(dsn: str, conn: psycopg.Connection) -> None:
    async def one() -> float:
        async with tended(dsn, cron("s", IN_JANUARY, CronMessage("reports", b"{}"))):
            await until(lambda: stands_at(conn) > 0, "the schedule to be there")
            begun = time.monotonic()
        return time.monotonic() - begun

    assert asyncio.run(one()) < 2


def test_idle_it_writes_nothing(dsn: str, conn: psycopg.Connection, looks_often: None) -> None:
    def written() -> list[Any]:
        """Each version of a row has its own."""
        return conn.execute("SELECT name, xmin::TEXT, ctid::TEXT FROM schedule").fetchall()

    def looks() -> int:
        row = conn.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        return int(row.fetchall()[0][0])

    async def one() -> None:
        async with tended(dsn, cron("s", IN_JANUARY, CronMessage("reports", b"{}")), times=2):
            await until(lambda: stands_at(conn) > 0, "the schedule to be there")
            before, looked = written(), looks()
            await until(lambda: looks() > looked + 20, "twenty looks")
            assert written() == before
            assert ticks_made(conn) == []

    asyncio.run(one())


def test_a_schedule_that_was_deleted_begins_anew(dsn: str, conn: psycopg.Connection) -> None:
    """At its next tick: who would fire it finds that it is gone."""

    async def one() -> None:
        async with tended(dsn, every_second(), times=2):
            await until(lambda: len(ticks_made(conn)) >= 1, "a tick")
            conn.execute("SELECT schedule_delete('s')")
            seen = len(ticks_made(conn))
            await until(lambda: len(ticks_made(conn)) > seen, "another tick")

    asyncio.run(one())
    assert ticks_made(conn) == sorted(set(ticks_made(conn)))


def test_a_full_channel_is_said_loudly(
    dsn: str, conn: psycopg.Connection, said: Callable[[], list[str]]
) -> None:
    conn.execute("SELECT channel_set('reports', p_max_size => 1)")

    async def one() -> None:
        async with tended(dsn, every_second()):
            await until(lambda: any("channel 'reports' is full" in line for line in said()), "a warning")
            conn.execute("SELECT channel_set('reports', p_max_size => 0)")
            await until(lambda: len(ticks_made(conn)) >= 2, "another tick")

    asyncio.run(one())
    assert not is_without_gaps(ticks_made(conn))


def test_one_that_cannot_fire_keeps_no_other_from_it(
    dsn: str, conn: psycopg.Connection, said: Callable[[], list[str]]
) -> None:
    async def one() -> None:
        async with tended(dsn, every_second(name="a", channel=""), every_second(name="b")):
            await until(lambda: len(ticks_made(conn)) >= 3, "three ticks of the other")

    asyncio.run(one())
    assert is_without_gaps(ticks_made(conn))
    failures = [line for line in said() if "'a' could not fire" in line]
    assert 1 <= len(failures) <= 3, "it is said, and not at every tick"


def cut_off(conn: psycopg.Connection) -> None:
    conn.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def test_connections_that_break(dsn: str, conn: psycopg.Connection) -> None:
    """Again and again, at any moment: each tick is made up for, once."""

    async def three() -> None:
        async with tended(dsn, every_second(), times=3):
            while len(ticks_made(conn)) < 3:
                cut_off(conn)
                await asyncio.sleep(random.uniform(0, 0.2))
            seen = len(ticks_made(conn))
            await until(lambda: len(ticks_made(conn)) >= seen + 2, "two more")

    asyncio.run(three())
    assert is_without_gaps(ticks_made(conn))


@pytest.mark.slow
def test_a_database_that_is_away_for_a_while(
    dsn: str, server: AnyServer, conn: psycopg.Connection, said: Callable[[], list[str]]
) -> None:
    name = sql.Identifier(conn.info.dbname)

    async def two() -> None:
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as admin:
            async with tended(dsn, every_second(), times=2):
                await until(lambda: len(ticks_made(conn)) >= 1, "a tick")
                admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS FALSE").format(name))
                try:
                    cut_off(conn)
                    await until(lambda: sum("is away" in line for line in said()) >= 2, "both to notice")
                    await asyncio.sleep(2)  # ticks are missed
                finally:
                    admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS TRUE").format(name))
                await until(lambda: sum("is back" in line for line in said()) >= 2, "both to be back")
                seen = len(ticks_made(conn))
                await until(lambda: len(ticks_made(conn)) > seen, "another tick")

    asyncio.run(two())
    assert is_without_gaps(ticks_made(conn))
    assert len(ticks_made(conn)) >= 3
    assert sum("is away" in line for line in said()) == 2, "each says it once"


def test_a_start_while_the_database_is_away(
    dsn: str, server: AnyServer, conn: psycopg.Connection, said: Callable[[], list[str]]
) -> None:
    name = sql.Identifier(conn.info.dbname)

    async def one() -> None:
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as admin:
            admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS FALSE").format(name))
            async with tended(dsn, every_second()):
                await until(lambda: any("is away" in line for line in said()), "it to notice")
                admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS TRUE").format(name))
                await until(lambda: bool(ticks_made(conn)), "a tick")

    asyncio.run(one())


def test_what_is_refused_from_the_beginning_is_raised(dsn: str, conn: psycopg.Connection) -> None:
    name = unique_name("consumer")
    role = sql.Identifier(name)
    conn.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(PASSWORD)))
    login = make_conninfo(dsn, user=name, password=PASSWORD)

    async def one(address: str, *crons: Cron, **options: Any) -> None:
        async with AsyncQueue(address, **options) as queue:
            await asyncio.wait_for(tend(queue, crons, asyncio.Event()), PATIENCE)

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


def test_a_queue_that_is_closed_ends_it(dsn: str, conn: psycopg.Connection) -> None:
    async def one() -> None:
        queue = AsyncQueue(dsn)
        task = asyncio.create_task(tend(queue, [every_second()], asyncio.Event()))
        await until(lambda: stands_at(conn) > 0, "the schedule to be there")
        await queue.close()
        with pytest.raises(QueueClosed):
            await asyncio.wait_for(task, PATIENCE)

    asyncio.run(one())


def test_what_is_wrong_later_on_is_said_and_tried_again(
    dsn: str, conn: psycopg.Connection, looks_often: None, said: Callable[[], list[str]]
) -> None:
    """Somebody takes the functions away, and puts them back: an upgrade that went wrong."""

    async def one() -> None:
        async with tended(dsn, every_second()):
            await until(lambda: bool(ticks_made(conn)), "a tick")
            conn.execute("ALTER TABLE schedule RENAME TO gone")
            await until(lambda: any("looked up" in line for line in said()), "a complaint")
            conn.execute("ALTER TABLE gone RENAME TO schedule")
            seen = len(ticks_made(conn))
            await until(lambda: len(ticks_made(conn)) > seen, "another tick")

    asyncio.run(one())
    assert is_without_gaps(ticks_made(conn))
