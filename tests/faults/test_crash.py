"""The server is killed (SIGKILL) while clients work, on a cluster that syncs to disk.

Invariants 1, 2, 3, 5 and 6: created messages stay, completed ones stay completed, and no (id, token) is given
out twice, even when dequeues commit asynchronously. LONNYMQ_FAULT_CRASHES sets the number of crashes,
LONNYMQ_FAULT_SEED repeats the clients' choices.
"""

import os
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from lonnymq.embedded import NotRunning, Server
from lonnymq.install import install
from tests.database import create_database
from tests.faults.clients import CONNECTION_ERRORS, DEQUEUE, Client
from tests.faults.clusters import DURABLE, cluster, connect
from tests.faults.history import Create, Delivery, Finish, History, HistoryChecker, Outcome
from tests.invariants import check, dequeue, dispatch, drain

# Keeps asynchronous commits in memory as long as PostgreSQL allows.
SETTINGS = DURABLE | {"wal_writer_delay": "10s", "wal_writer_flush_after": "2GB", "bgwriter_delay": "10s"}
CRASHES = int(os.environ.get("LONNYMQ_FAULT_CRASHES", "2"))
CONTROL_ROUNDS = 10
# A crash may lose a dequeue with its lease, its time and its attempt, so those are not checked.
CHECKED_RULES = ("1:", "2:", "3:", "6:", "5: message", "5: a zombie", "4: message")


@pytest.fixture(scope="module")
def server(pytestconfig: pytest.Config) -> Iterator[Server]:
    with cluster(pytestconfig.getoption("--pg"), SETTINGS) as running:
        create_database(running, "template")
        with connect(running, "template") as conn:
            install(conn, schema="lonnymq")
        yield running


@pytest.fixture
def database(server: Server) -> str:
    name = f"queue_{secrets.token_hex(4)}"
    create_database(server, name, "template")
    return name


def now_ms() -> int:
    """Read this machine's clock, which is also the server's."""
    return time.time_ns() // 1_000_000


def crash(server: Server) -> None:
    server.kill()
    server.stop()
    server.start()


class Worker(Client):
    """Connects to the server's present address, which changes when it restarts."""

    def __init__(self, name: str, server: Server, database: str, seed: str) -> None:
        super().__init__(name, "", seed)
        self._server = server
        self._database = database

    @property
    def connection(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self.dsn = self._server.dsn(self._database)
        return super().connection

    def run(self, until: threading.Event) -> History:
        while not until.is_set():
            try:
                self.step()
            except (*CONNECTION_ERRORS, NotRunning):
                self.note_dropped()
                until.wait(0.02)
        self.close()
        return self.history

    def step(self) -> None:
        raise NotImplementedError


class Producer(Worker):
    n = 0

    def step(self) -> None:
        self.n += 1
        content = f"{self.name}/{self.n}".encode()
        channel = f"c{self.random.randrange(5)}"
        id_, outcome = None, Outcome.UNKNOWN
        try:
            id_ = self.value(
                "SELECT id FROM message_create(%s, %s, p_max_attempts => 100)", (channel, content)
            )
            outcome = Outcome.OK
        finally:
            self.history.creates.append(Create(content, channel, outcome, id_, max_attempts=100))


class Consumer(Worker):
    """Dequeues asynchronously, completes durably, at once or much later, and tries old tokens again."""

    calls = 0

    def __init__(self, name: str, server: Server, database: str, seed: str) -> None:
        super().__init__(name, server, database, seed)
        self._unfinished: list[Delivery] = []

    def step(self) -> None:
        self.value("SELECT dispatch()")
        self._take()
        self.random.shuffle(self._unfinished)
        while len(self._unfinished) > self.random.randint(0, 40):
            self._complete(self._unfinished[-1])
            self._unfinished.pop()

    def _take(self) -> None:
        self.calls += 1
        called_at = now_ms()
        rows, outcome = [], Outcome.UNKNOWN
        try:
            with self.connection.transaction():
                self.connection.execute("SET LOCAL synchronous_commit = off")
                rows = self.connection.execute(DEQUEUE, (10, 300, self.name)).fetchall()
            outcome = Outcome.OK
        finally:
            taken = [
                Delivery.from_row(row, self.name, self.calls, place, 300, outcome, (called_at, now_ms()))
                for place, row in enumerate(rows)
                if row[0] is not None
            ]
            self.history.deliveries += taken
            self._unfinished += taken

    def _complete(self, delivery: Delivery) -> None:
        result, outcome = "completed", Outcome.UNKNOWN
        called_at = now_ms()
        try:
            result = self.value("SELECT message_complete(%s, %s)", (delivery.id, delivery.token))
            outcome = Outcome.OK
        finally:
            finish = Finish("complete", delivery.id, delivery.token, result, outcome, called_at, now_ms())
            self.history.finishes.append(finish)
            self.history.notes[f"{result} {outcome.value}"] += 1


@pytest.mark.timeout(1800)
def test_kill_9_with_asynchronous_dequeues(server: Server, database: str) -> None:
    seed = os.environ.get("LONNYMQ_FAULT_SEED", secrets.token_hex(4))
    print(f"LONNYMQ_FAULT_SEED={seed}")
    producers = [Producer(f"producer-{i}", server, database, seed) for i in range(2)]
    consumers = [Consumer(f"consumer-{i}", server, database, seed) for i in range(3)]
    until = threading.Event()
    history = History()
    with ThreadPoolExecutor(max_workers=5) as pool:
        try:
            clients = [pool.submit(client.run, until) for client in [*producers, *consumers]]
            for _ in range(CRASHES):
                time.sleep(1.5)  # let the clients work
                started = time.monotonic()
                crash(server)
                assert time.monotonic() - started < 30, "the server took too long to restart"
            time.sleep(0.5)
        finally:
            until.set()
        for client in clients:
            history += client.result(timeout=60)
    print(dict(sorted(history.notes.items())))
    with connect(server, database) as conn:
        deadline = time.monotonic() + 30
        while conn.execute("SELECT EXISTS (SELECT FROM message)").fetchone() == (True,):
            assert time.monotonic() < deadline, "messages were not served"
            for d in drain(conn):
                history.deliveries.append(
                    Delivery.from_row(d, "last", 0, 0, 30_000, Outcome.OK, (now_ms(), now_ms()))
                )
                done = Finish("complete", d.id, d.token, "completed", Outcome.OK, now_ms(), now_ms())
                history.finishes.append(done)
            time.sleep(0.05)
        check(conn)
        assert conn.execute("SELECT COUNT(*) FROM dead").fetchone() == (0,)
    found = [
        v
        for v in HistoryChecker(history).violations()
        if v.startswith(CHECKED_RULES) and "leased until" not in v
    ]
    assert not found, f"seed {seed}: {len(found)} violations, the first: {found[:10]}"
    assert history.notes["completed ok"] > 100
    assert len(history.creates) > 100


def test_after_a_lost_asynchronous_dequeue_the_message_is_due_again(server: Server, database: str) -> None:
    """The message is due again, and the old token is not valid."""
    with connect(server, database) as conn:
        conn.execute("SELECT message_create('free', 'x')")
        dispatch(conn)
    lost = _dequeue_asynchronously(server, database)
    crash(server)
    with connect(server, database) as conn:
        assert conn.execute("SELECT COUNT(*) FROM leases").fetchone() == (0,), "the lease was only in memory"
        dispatch(conn)
        [again], _ = dequeue(conn)
        assert again.id == lost[0]
        assert again.token != lost[1]
        assert conn.execute("SELECT message_complete(%s, %s)", lost).fetchone() == ("lost",)
        assert conn.execute("SELECT message_complete(%s, %s)", (again.id, again.token)).fetchone() == (
            "completed",
        )
        check(conn)


def test_no_token_is_given_out_again(server: Server, database: str) -> None:
    """The crash loses more dequeues than a sequence logs ahead; later tokens must still be new."""
    messages = 200
    with connect(server, database) as conn:
        conn.execute(
            "SELECT FROM message_create_many(array_fill('a'::TEXT, %s), array_fill(''::BYTEA, %s))",
            ([messages], [messages]),
        )
        dispatch(conn)
        before = [_take_asynchronously(conn) for _ in range(messages)]
        crash(server)
    with connect(server, database) as conn:
        after = []
        for _ in range(messages):
            conn.execute("SELECT dispatch()")
            after.append(dequeue(conn)[0])
    assert sum(len(taken) for taken in after) > 0, "some dequeues were lost"
    assert not {token for _, token in before} & {taken[0].token for taken in after if taken}


@pytest.mark.parametrize(("limit", "interval"), [(1, 0), (0, 60_000_000), (2, 60_000_000)])
def test_leases_under_a_limit_or_an_interval_survive(
    server: Server, database: str, limit: int, interval: int
) -> None:
    """Invariants 7 and 10: such a dequeue commits synchronously, even if the caller asked otherwise."""
    with connect(server, database) as conn:
        conn.execute("SELECT * FROM channel_set('limited', %s, %s)", (limit, interval))
        conn.execute("SELECT message_create_many(ARRAY['limited', 'limited'], ARRAY['1', '2']::BYTEA[])")
        dispatch(conn)
    lease = _dequeue_asynchronously(server, database)
    crash(server)
    with connect(server, database) as conn:
        rows = conn.execute("SELECT (stubs[1]).id, token FROM lease").fetchall()
        assert rows == [lease]
        dispatch(conn)
        if limit == 1 or interval:
            assert dequeue(conn, 10)[0] == []
        assert conn.execute("SELECT message_complete(%s, %s)", lease).fetchone() == ("completed",)
        check(conn)


def test_a_lease_under_a_limit_over_all_channels_survives(server: Server, database: str) -> None:
    with connect(server, database) as conn:
        conn.execute("SELECT * FROM queue_set(p_max_concurrency => 1)")
        conn.execute("SELECT message_create_many(ARRAY['a', 'b'], ARRAY['1', '2']::BYTEA[])")
        dispatch(conn)
    lease = _dequeue_asynchronously(server, database)
    crash(server)
    with connect(server, database) as conn:
        assert conn.execute("SELECT (stubs[1]).id, token FROM lease").fetchall() == [lease]
        dispatch(conn)
        assert dequeue(conn, 10)[0] == []
        assert conn.execute("SELECT message_complete(%s, %s)", lease).fetchone() == ("completed",)
        dispatch(conn)
        assert len(dequeue(conn, 10)[0]) == 1
        check(conn)


def test_the_history_of_a_delivery_survives(server: Server, database: str) -> None:
    """The time of the first dequeue is kept, although the dequeue asked for an asynchronous commit."""
    with connect(server, database) as conn:
        conn.execute("SELECT * FROM queue_set(p_history => TRUE)")
        conn.execute("SELECT message_create('a', 'x')")
        dispatch(conn)
    lease = _dequeue_asynchronously(server, database)
    with connect(server, database) as conn:
        taken_at = conn.execute("SELECT dequeued_at FROM lease").fetchone()
    crash(server)
    with connect(server, database) as conn:
        assert conn.execute("SELECT message_complete(%s, %s)", lease).fetchone() == ("completed",)
        assert conn.execute("SELECT first_dequeued_at FROM history").fetchone() == taken_at
        check(conn)


@pytest.mark.parametrize(
    ("limit", "interval", "setting"),
    [(0, 0, "off"), (1, 0, "on"), (0, 1_000_000, "on"), (5, 1_000_000, "on")],
)
@pytest.mark.parametrize("requested", ["off", "local", "on"])
def test_how_a_dequeue_commits(
    server: Server, database: str, limit: int, interval: int, setting: str, requested: str
) -> None:
    with connect(server, database) as conn:
        conn.execute("SELECT * FROM channel_set('a', %s, %s)", (limit, interval))
        conn.execute("SELECT message_create('a', 'x')")
        dispatch(conn)
        with conn.transaction():
            conn.execute(f"SET LOCAL synchronous_commit = {requested}")
            assert len(dequeue(conn)[0]) == 1
            commits = conn.execute("SHOW synchronous_commit").fetchone()
        assert commits == (setting if requested == "off" else requested,)
        assert conn.execute("SHOW synchronous_commit").fetchone() == ("on",), (
            "only that transaction is affected"
        )


def test_the_checker_notices_lost_asynchronous_creates(server: Server, database: str) -> None:
    """A control test: the checker must notice that durability is missing."""
    for crashes in range(1, CONTROL_ROUNDS + 1):
        history = History()
        with connect(server, database) as conn:
            conn.execute("SET synchronous_commit = off")
            for _ in range(50):
                content = secrets.token_bytes(8)
                row = conn.execute("SELECT id FROM message_create('a', %s)", (content,)).fetchone()
                assert row is not None
                history.creates.append(Create(content, "a", Outcome.OK, row[0]))
            crash(server)
        with connect(server, database) as conn:
            stored = [row[0] for row in conn.execute("SELECT content FROM message")]
        found = HistoryChecker(history, stored=stored).violations()
        if found:
            print(f"{len(found)} of {len(history.creates)} lost by crash {crashes}")
            assert all(v.startswith("1:") and v.endswith("vanished") for v in found)
            return
    pytest.fail(f"{CONTROL_ROUNDS} crashes lost no asynchronous create: the checker had nothing to find")


def _dequeue_asynchronously(server: Server, database: str) -> tuple[int, object]:
    with connect(server, database) as conn:
        return _take_asynchronously(conn)


def _take_asynchronously(conn: psycopg.Connection) -> tuple[int, object]:
    conn.execute("SELECT dispatch()")
    with conn.transaction():
        conn.execute("SET LOCAL synchronous_commit = off")
        [taken], _ = dequeue(conn, 1)
    return taken.id, taken.token
