"""The memory of a busy worker process, and the calls of an idle one."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psycopg
import pytest

from lonnymq import Queue
from lonnymq.embedded import Server, account
from lonnymq.embedded import data_folder as folders
from lonnymq.install import install
from lonnymq.worker import registry
from tests.database import SETTINGS, create_database
from tests.faults.clusters import cluster, connect
from tests.worker import shop
from tests.worker.processes import Processes, until

GROWTH_MAX = 3 << 20  # bytes that memory may differ between the halves
IDLE_SECONDS = 5.0
IDLE_AFTER = 15.0
# All statements are logged, and nothing but them writes.
LOG_ALL = SETTINGS | {
    "autovacuum": "off",
    "log_statement": "all",
    "max_wal_senders": "0",
    "wal_level": "minimal",
}


@pytest.mark.slow
@pytest.mark.parametrize("count", [20_000, pytest.param(200_000, marks=pytest.mark.long)])
def test_memory_stays_flat(dsn: str, conn: psycopg.Connection, tmp_path: Path, count: int) -> None:
    """The peak memory in the second half of many messages is that of the first. A quarter run in threads."""
    with Queue(dsn) as queue, Processes(dsn, tmp_path) as processes:
        queue.enqueue_many(
            ((shop.do_nothing_in_thread if n % 4 == 0 else shop.do_nothing).message() for n in range(count)),
            commit_each_chunk=True,
        )
        worker = processes.start(concurrency=20).wait_until_serving()
        begun = time.monotonic()
        halves: tuple[list[int], list[int]] = ([], [])
        left = count
        while left:
            time.sleep(0.02)  # a quick machine is done within a second
            [(left,)] = conn.execute("SELECT COUNT(*) FROM message").fetchall()
            if left < count * 0.9:
                halves[left < count / 2].append(worker.resident_bytes)
            assert time.monotonic() - begun < 240, f"{left} are left"
        first, second = (max(half) / (1 << 20) for half in halves)
        print(
            f"{count / (time.monotonic() - begun):,.0f} messages per second; "
            f"{first:.1f} MiB in the first half, {second:.1f} MiB in the second"
        )
        assert min(map(len, halves)) > 5
        assert (second - first) * (1 << 20) < GROWTH_MAX
        assert worker.stop() == 0


@pytest.fixture
def logging_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    with cluster(pytestconfig.getoption("--pg"), LOG_ALL) as server:
        create_database(server, "queue")
        with connect(server, "queue") as conn:
            install(conn, schema="lonnymq")
        yield server


class Observer:
    """Sees the server's statements and what it writes, from another database."""

    def __init__(self, server: Server) -> None:
        self._log = folders.locate(server.data_dir, account.for_server()).log
        self._conn = psycopg.connect(server.dsn("postgres"), autocommit=True)

    def statements(self) -> list[str]:
        """All statements but its own."""
        log = self._log.read_text(encoding="utf-8", errors="replace")
        found = re.findall(r"LOG:  (?:statement|execute [^:]*): (.*)", log)
        return [statement for statement in found if "pg_current_wal_insert_lsn" not in statement]

    def written(self) -> tuple[str, str]:
        """The position in the WAL, and the next transaction id. Both advance with each write."""
        [row] = self._conn.execute(
            "SELECT pg_current_wal_insert_lsn()::TEXT, pg_snapshot_xmax(pg_current_snapshot())::TEXT"
        ).fetchall()
        return row

    def quiet(self, seconds: float, most: float) -> list[str]:
        """The statements of the first period of `seconds` in which nothing was written and at most `most`
        statements ran.
        """
        begun = time.monotonic()
        since, before, asked = begun, self.written(), len(self.statements())
        while time.monotonic() - since < seconds:
            time.sleep(0.05)
            if self.written() != before or len(self.statements()) - asked > most:
                since, before, asked = time.monotonic(), self.written(), len(self.statements())
            assert since - begun < IDLE_AFTER, f"it is not idle: {self.statements()[-10:]}"
        return self.statements()[asked:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._conn.close()


@pytest.mark.slow
@pytest.mark.parametrize("has_worked", [False, True], ids=["from the start", "after some work"])
def test_an_idle_worker_asks_once_a_second_and_writes_nothing_but_its_report(
    logging_server: Server, tmp_path: Path, has_worked: bool
) -> None:
    dsn = logging_server.dsn("queue")
    with Observer(logging_server) as observer, Processes(dsn, tmp_path) as processes:
        # With a short lease: while leases can still run out, the worker calls more often.
        worker = processes.start(lease=1, environment={"SHOP_REPORTS_ONCE": "1"}).wait_until_serving()
        if has_worked:
            with Queue(dsn) as queue:
                queue.enqueue_many(shop.do_nothing.message() for _ in range(100))
                until(lambda: (queue.stats().waiting, queue.stats().leased) == (0, 0), "it to be done")
        asked = observer.quiet(IDLE_SECONDS, IDLE_SECONDS + 1)
        print(f"{len(asked)} statements in {IDLE_SECONDS:g} s: {set(asked)}")
        assert len(asked) >= IDLE_SECONDS - 2, "it does not even poll"
        assert worker.stop() == 0


@pytest.mark.slow
def test_a_worker_reports_every_few_seconds(logging_server: Server, tmp_path: Path) -> None:
    with (
        Observer(logging_server) as observer,
        Processes(logging_server.dsn("queue"), tmp_path) as processes,
    ):
        worker = processes.start().wait_until_serving()

        def reports() -> int:
            return sum("worker_report" in statement for statement in observer.statements())

        until(lambda: reports() >= 1, "the first report")
        begun = time.monotonic()
        until(lambda: reports() >= 4, "three more")
        assert time.monotonic() - begun > 3 * registry.PERIOD_S * 0.75
        assert worker.stop() == 0
        assert any("worker_leave" in statement for statement in observer.statements())
