"""Worker processes on a database that is restarted, or behind a PgBouncer."""

import statistics
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from lonnymq import Queue
from lonnymq.adapters.listener import POOLED
from lonnymq.embedded import Server, account, binaries
from lonnymq.embedded import data_folder as folders
from lonnymq.install import install
from tests.database import create_database
from tests.faults.clusters import DURABLE, cluster, connect
from tests.faults.pgbouncer import SESSIONS, PgBouncer, pgbouncer
from tests.invariants import check
from tests.worker import shop
from tests.worker.ledger import now
from tests.worker.processes import Processes, until

ORDERS = 1500
WORK: tuple[shop.AnyTask, ...] = (shop.ship, shop.pack)
SHORT_TIMEOUT = {"SHOP_IS_ASYNC": "1", "SHOP_TIMEOUT": "0.3"}  # its calls fail, while the other worker's wait
PLENTY = 100
PICKUPS = 5
OUTCOMES = "SELECT outcome, COUNT(*), COUNT(DISTINCT id) FROM finished GROUP BY outcome"
SLEEPING_S = 0.6  # a worker that polls slows down to one call per second
AT_ONCE_MS = 200


@dataclass(frozen=True)
class Outage:
    mode: str
    lease: float
    seconds: float = 0

    def cause(self, server: Server, version: int) -> None:
        """Stop the server, and start it again at the same address with the same settings."""
        self._do("stop", server, version, f"--mode={self.mode}")
        until_over = time.monotonic() + self.seconds
        until(lambda: time.monotonic() >= until_over, "the outage to be long enough")
        self._do("restart", server, version)

    def _do(self, what: str, server: Server, version: int, *options: str) -> None:
        found = folders.locate(server.data_dir, account.for_server())
        place = [f"--pgdata={found.cluster}", *([f"--log={found.log}"] if what == "restart" else [])]
        done = found.account.run(
            [binaries(version) / "pg_ctl", what, "--silent", "--wait", *place, *options], timeout=60
        )
        assert done.returncode == 0, done.stdout


OUTAGES = {
    "restart": Outage("fast", lease=10, seconds=1),
    "crash": Outage("immediate", lease=10, seconds=1),
    "longer than leases": Outage("fast", lease=2, seconds=3),
}


@pytest.fixture(scope="module")
def durable(pytestconfig: pytest.Config) -> Iterator[Server]:
    with cluster(pytestconfig.getoption("--pg"), DURABLE) as server:
        yield server


@contextmanager
def installed(server: Server, name: str) -> Iterator[str]:
    create_database(server, name)
    with connect(server, name) as conn:
        install(conn, schema="lonnymq")
    yield server.dsn(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.long) if kind == "restart" else kind for kind in OUTAGES]
)
def test_the_database_is_down(
    durable: Server, kind: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """The same workers go on. Only messages that were in flight are served again, and no outcome is lost."""
    with (
        installed(durable, kind) as dsn,
        Queue(dsn) as queue,
        Processes(dsn, tmp_path) as processes,
    ):
        queue.set(history=True)
        queue.enqueue_many(
            WORK[order % 2].using(channel=f"tenant {order % 7}").message(order, 0.03)
            for order in range(ORDERS)
        )
        lease = OUTAGES[kind].lease
        workers = [processes.start(lease=lease), processes.start(lease=lease, environment=SHORT_TIMEOUT)]
        assert all(worker.wait_until_serving() for worker in workers)
        until(lambda: len(processes.ledger.runs("end")) > ORDERS // 8, "some to be done")
        gone = Moment()
        OUTAGES[kind].cause(durable, pytestconfig.getoption("--pg"))
        back = Moment()
        orders = count(ORDERS)
        until(lambda: go_on(processes, queue, orders, back), "both workers to go on")
        with connect(durable, kind) as conn:
            until(lambda: conn.execute("SELECT FROM message LIMIT 1").fetchall() == [], "the rest")
            assert [worker.stop() for worker in workers] == [0, 0]
            total = next(orders)
            assert conn.execute(OUTCOMES).fetchall() == [("completed", total, total)]
            in_flight, again, late = conn.execute(
                """SELECT COUNT(*) FILTER (WHERE first_dequeued_at <= %(back)s AND finished_at >= %(gone)s),
                    COUNT(*) FILTER (WHERE attempts > 1),
                    COUNT(*) FILTER (WHERE attempts > 1 AND first_dequeued_at > %(back)s)
                FROM finished""",
                {"gone": gone.of_the_day, "back": back.of_the_day},
            ).fetchall()[0]
            check(conn)
        runs = Counter(processes.ledger.runs())
        ran_again = {order for order, times in runs.items() if times > 1}
        print(
            f"{kind}, {(back.of_the_ledger - gone.of_the_ledger) / 1e9:.1f} s down: {in_flight} in flight, "
            f"{again} served again, {len(ran_again)} ran again"
        )
        assert set(runs) == set(range(total))
        assert runs.total() - total <= in_flight
        assert late == 0, "what was leased when the database was back was served again"
        assert len(ran_again) <= again
        assert in_flight > 0, "the outage came too late"
        if (resumed(processes, back) - gone.of_the_ledger) / 1e9 < lease * 2 / 3:
            assert ran_again == set(), "finished handlers count, though the database learned of it late"


class Moment:
    """The present moment, on both clocks."""

    def __init__(self) -> None:
        self.of_the_day = time.time() * 1000
        self.of_the_ledger = now()


def resumed(processes: Processes, since: Moment) -> int:
    """When the last of the workers went on, in the ledger's time."""
    entries = [entry for entry in reversed(processes.ledger.read()) if entry.at > since.of_the_ledger]
    return max({entry.worker: entry.at for entry in entries}.values())


def go_on(processes: Processes, queue: Queue, orders: Iterator[int], since: Moment) -> bool:
    """Whether each worker has handled something since then. Enqueues more, so that one cannot do all."""
    at_work = {entry.worker for entry in processes.ledger.read() if entry.at > since.of_the_ledger}
    if at_work and (queue.stats().waiting or 0) < PLENTY:
        queue.enqueue_many(shop.ship.message(order, 0.1) for order in islice(orders, PLENTY))
    return at_work == {worker.name for worker in processes.workers}


@pytest.fixture
def pooler(dsn: str) -> Iterator[PgBouncer]:
    with pgbouncer(dsn) as started:
        yield started


@pytest.mark.slow
@pytest.mark.debian("pgbouncer")
def test_through_pgbouncer(pooler: PgBouncer, conn: psycopg.Connection, tmp_path: Path) -> None:
    conn.execute("CREATE TABLE public.payment (number INT, worker TEXT)")
    kinds: tuple[shop.AnyTask, ...] = (shop.pay, shop.ship, shop.pack)
    with Queue(pooler.direct) as queue, Processes(pooler.dsn, tmp_path) as processes:
        queue.set(history=True)
        queue.enqueue_many(kinds[order % 3].message(order) for order in range(300))
        workers = processes.start_many(2, lease=2)
        until(lambda: conn.execute("SELECT FROM message LIMIT 1").fetchall() == [], "all to be done")
        until(lambda: all(POOLED in worker.log for worker in workers), "the warning that they poll")
        queue.enqueue_many([shop.ship.message(300, 3)])
        until(lambda: processes.ledger.runs("end").count(300), "one that takes longer than its lease")
        until(lambda: conn.execute("SELECT FROM message LIMIT 1").fetchall() == [], "it to be completed")
        assert [worker.stop() for worker in workers] == [0, 0]
        assert sorted(processes.ledger.runs()) == list(range(301))
        outcomes = conn.execute("SELECT outcome, attempts, COUNT(*) FROM finished GROUP BY 1, 2").fetchall()
        assert outcomes == [("completed", 1, 301)]
        paid = [number for (number,) in conn.execute("SELECT number FROM public.payment ORDER BY number")]
        assert paid == list(range(0, 300, 3))
        sessions = pooler.sessions()
        assert [(session.listens_to, session.prepared) for session in sessions] == [([], 0)] * SESSIONS


def has_rows(conn: psycopg.Connection, query: LiteralString, least: int) -> bool:
    return len(conn.execute(query).fetchall()) >= least


def pickup_ms(queue: Queue, conn: psycopg.Connection) -> float:
    """How long a message waits that comes while the worker sleeps."""
    query = """
        SELECT EXTRACT(EPOCH FROM clock_timestamp() - MAX(state_change)) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE '%%sleep_look%%' AND pid <> pg_backend_pid()"""
    finished = "SELECT dequeued_at - created_at FROM finished"
    for number in range(PICKUPS):
        until(lambda: (conn.execute(query).fetchall()[0][0] or 0) > SLEEPING_S, "the worker to sleep")
        queue.enqueue_many([shop.do_nothing.message()])
        until(partial(has_rows, conn, finished, number + 1), "it to be done")
    waits = [float(wait) for (wait,) in conn.execute(finished)]
    print(f"picked up after {waits} ms")
    return statistics.median(waits)


@pytest.mark.slow
@pytest.mark.debian("pgbouncer")
@pytest.mark.parametrize("is_listening", [True, False], ids=["listening around it", "polling"])
def test_picked_up_through_pgbouncer(
    pooler: PgBouncer, conn: psycopg.Connection, tmp_path: Path, is_listening: bool
) -> None:
    """At once if there is a direct address to listen on, else when the worker polls, every second."""
    environment = {"SHOP_LISTEN": pooler.direct} if is_listening else None
    with Queue(pooler.direct) as queue, Processes(pooler.dsn, tmp_path) as processes:
        queue.set(history=True)
        worker = processes.start(environment=environment).wait_until_serving()
        waited = pickup_ms(queue, conn)
        assert (waited < AT_ONCE_MS) is is_listening
        assert (POOLED in worker.log) is not is_listening
        assert worker.stop() == 0
