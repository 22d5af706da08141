"""A password of the database appears in no output, page, log, representation or traceback.

tests/spark/test_secrets.py looks at the plans, logs and pages of Spark.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool
from sqlalchemy import URL, create_engine
from starlette.testclient import TestClient

from lonnymq import App, AsyncQueue, Queue, Worker
from lonnymq.adapters import drivers
from lonnymq.adapters.address import conninfo, parameters
from lonnymq.cli.bench.protocol import Target
from lonnymq.cli.failure import sentence
from lonnymq.errors import DatabaseUnreachable, InvalidAddress
from lonnymq.kombu.options import read_options
from lonnymq.spark.changes.history_source import HistorySource
from lonnymq.spark.queue_source import QueueSource
from lonnymq.web import Access, Password, create_app
from lonnymq.web import app as web_app
from tests.cli.running import run
from tests.cli.test_failures import WITH_DSN, with_json
from tests.database import unique_name
from tests.web.routes import readable_paths

CANARY = "c4nary"
PARTS = ("user", "password", "host", "port", "dbname")
PASSWORDS = (
    CANARY,
    *(f"{CANARY}{sign}{CANARY}" for sign in "@/:?#%&= '\"\\[]+,;$"),
    f"{CANARY}%zz",
    f"{CANARY}\n1",
)
"""Nothing in an address is encoded here: people forget to."""
ADDRESSES = (
    "postgresql://u:{}@127.0.0.1:1/db",
    "postgresql+asyncpg://u:{}@127.0.0.1:1/db",
    "postgresql://u:{}@127.0.0.1:port/db",
    "postgresql://u:{}@127.0.0.1:1,127.0.0.1:1/db?sslmode=nonsense",
    "postgresql://u:{}@[127.0.0.1:1/db",
    "postgresql://127.0.0.1:1/db?user=u&password={}",
    "postgresql://127.0.0.1:1/db?user=u&pasword={}",
    "mysql://u:{}@127.0.0.1:1/db",
    "u:{}@127.0.0.1:1/db",
    "//u:{}@127.0.0.1:1/db",
    "{}",
    "host=127.0.0.1 port=1 user=u password={}",
    "host=127.0.0.1 port=1 user=u password='{}",
    "host=127.0.0.1 port=1 user=u pasword={}",
    "host=127.0.0.1;port=1;user=u;password={}",
)
FAILING = [address.format(password) for address in ADDRESSES for password in PASSWORDS]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.NOTSET)
    return caplog


@pytest.fixture
def secret_dsn(conn: psycopg.Connection, dsn: str) -> Iterator[str]:
    """The test's database, with a login whose password is the canary."""
    role = sql.Identifier(name := unique_name("role"))
    conn.execute(sql.SQL("CREATE ROLE {} SUPERUSER LOGIN PASSWORD {}").format(role, sql.Literal(CANARY)))
    yield make_conninfo(dsn, user=name, password=CANARY)
    conn.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(role))


def printed(error: BaseException) -> str:
    """As Python prints it, with its causes, and as the command line does."""
    short = sentence(error) if isinstance(error, Exception) else ""
    return "".join([*traceback.format_exception(error), repr(error), repr(error.args), short])


def failure(call: Callable[..., object], *arguments: str) -> str:
    """What is printed of an error; empty if there was none."""
    try:
        call(*arguments)
    except Exception as error:  # noqa: BLE001
        return printed(error)
    return ""


def use_async(address: str) -> None:
    async def use() -> None:
        async with AsyncQueue(address, timeout=1) as queue:
            await queue.settings()

    asyncio.run(use())


def use(address: str) -> None:
    with Queue(address, timeout=1) as queue:
        queue.settings()


def listen(address: str) -> None:
    with Queue("host=127.0.0.1 port=1", listen=address) as queue:
        assert queue._connect_listener("x") is None


def listen_with_kombu(address: str) -> None:
    read_options({"listen": address})


LONG = pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(3600)])


@pytest.mark.parametrize("step", [11, LONG])
def test_addresses_that_do_not_work(logged: pytest.LogCaptureFixture, step: int) -> None:
    """The errors of queues in Python, whichever argument has the address."""
    addresses = [text.format(CANARY) for text in ADDRESSES]
    for address in [*FAILING[::step], *addresses]:
        for call in (parameters, use, use_async, listen, listen_with_kombu):
            assert CANARY not in failure(call, address), (call, address)
    assert CANARY not in logged.text


def test_addresses_that_are_refused() -> None:
    """libpq would take a part of the password for a host, a port or a database, which errors name."""
    for address in (
        "postgresql://u:one@two@host/db",
        "postgresql://u:one@two/three@host/db",
        "postgresql://u:one/two@host/db",
        "postgresql://u:12/two@host/db",
        "postgresql://u:one%c4two@host/db",
        "host=h;port=1;password=one",
        "host=h;port=1;pass=one",
        "host=h user=u;password=one",
        "host=h dbname='d; Password = one'",
        "host=h dbname='d passwd=one'",
        "host=h user=u;sslpassword=one",
        "dbname=postgresql://u:one@host/db",
        "postgresql://h/db?dbname=postgresql://u:one/two@host/db",
        "host=/run/postgresql,u:one@host",
        "host=h password=one\0",
    ):
        with pytest.raises(InvalidAddress, match="percent-encoded"):
            parameters(address)
    for address in (
        "postgresql://u:one%40two%2Fthree@host:1,other/db?sslmode=require",
        "host=/run/postgresql password='a;b=c@d' options='-c my.password=x'",
        "postgresql:///db?host=/run/postgresql&user=a@b",
        "postgresql:///db?host=%2Fsrv%2Fday%3D1%2Fa%40b%3Brun",
        "host=h application_name=https://issuer/path",
        "host=h application_name=https://issuer/path user=ann@shop.example",
        "",
    ):
        parameters(address)


@pytest.mark.parametrize("value", ["a://b/c@d", "a+b://c", "https://issuer+x/path"])
def test_values_that_look_like_addresses(value: str) -> None:
    """As libpq has them, also when the address was written again, as for a pool."""
    given = f"postgresql://ann%2Bci%40shop.example:{quote(value, safe='')}@h/db?application_name=x%3A%2F%2Fy"
    expected = {
        "user": "ann+ci@shop.example",
        "password": value,
        "host": "h",
        "dbname": "db",
        "application_name": "x://y",
    }
    assert parameters(given) == parameters(conninfo(given)) == expected
    shuffled = make_conninfo(**dict(sorted(expected.items())))
    assert parameters(shuffled) == expected


@pytest.mark.parametrize("step", [40, LONG])
def test_every_command(logged: pytest.LogCaptureFixture, step: int) -> None:
    """With an address in the option or in a variable, or a password in a variable."""
    where = {"PGHOST": "127.0.0.1", "PGPORT": "1"}
    secret_web = {"LONNYMQ_WEB_PASSWORD": CANARY}
    ways: list[tuple[list[str], dict[str, str]]] = [
        ([], where | secret_web | {"PGPASSWORD": CANARY, "LONNYMQ_WEB_USER": "u"}),
        ([], where | secret_web),
    ]
    for number, address in enumerate(FAILING[::step]):
        named = [{}, {"LONNYMQ_DSN": address}, {"DATABASE_URL": address}][number % 3]
        ways.append(([] if named else [f"--dsn={address}"], named))
    for number, arguments in enumerate(WITH_DSN):
        # By default, each command in a few of the ways.
        for more, env in ways if step == 1 else ways[number % 5 :: 5]:
            done = run(*with_json(arguments), *more, env=env)
            assert done.code in {2, 3}, (arguments, more, env, done)
            assert CANARY not in done.stdout + done.stderr, (arguments, more, env)
            assert CANARY not in failure(lambda: run(*arguments, *more, "--debug", env=env))  # noqa: B023
    assert CANARY not in logged.text


@pytest.mark.parametrize("step", [15, LONG])
def test_spark(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """The drivers are psycopg and, for the rows, ADBC."""
    for address in FAILING[::step]:
        monkeypatch.setenv("SHOP_DSN", address)
        options = {"dsnenv": "SHOP_DSN"}
        waiting, history = QueueSource(options), HistorySource(options)
        rows = waiting.reader(waiting.schema())
        [everything] = rows.partitions()
        assert CANARY not in failure(lambda: list(rows.read(everything))), address  # noqa: B023
        assert CANARY not in failure(history.reader(history.schema()).partitions), address
        assert CANARY not in repr([vars(waiting), vars(rows)])


def test_representations(secret_dsn: str) -> None:
    async def pools() -> list[str]:
        async with AsyncQueue(secret_dsn) as queue:
            await queue.settings()
            return [repr(queue), str(queue), repr(queue.channel("a")), repr(await queue.settings())]

    known: dict[str, Any] = conninfo_to_dict(secret_dsn)
    with Queue(secret_dsn) as queue, ConnectionPool(secret_dsn, open=False) as pool:
        app = App(queue)
        engine = create_engine(URL.create("postgresql+psycopg", *(known[name] for name in PARTS)))
        dashboard = create_app(queue, Password("u", CANARY))
        shown = [
            *(queue, app, Worker(app), Queue(pool), Queue(engine), queue.channel("a"), queue.settings()),
            *(queue.dead, queue.enqueue({}, channel="a"), dashboard, dashboard.state.live),
            *(Target(secret_dsn, "lonnymq", 1, 1), read_options({"listen": secret_dsn})),
            *(drivers._adapter_of(one) for one in (pool, engine)),
        ]
        dashboard.close()
        engine.dispose()
    texts = [*asyncio.run(pools()), *(f"{one!r} {one!s}" for one in shown)]
    assert [text for text in texts if CANARY in text] == []


@pytest.mark.parametrize("is_up", [True, False], ids=["up", "down"])
def test_pages(
    logged: pytest.LogCaptureFixture, secret_dsn: str, monkeypatch: pytest.MonkeyPatch, *, is_up: bool
) -> None:
    """Every page and answer, of a database that answers and of one that does not."""
    monkeypatch.setattr(web_app, "CONNECT_TIMEOUT_S", 1)
    address = secret_dsn if is_up else make_conninfo(secret_dsn, host="127.0.0.1", port=1)
    with_person = lambda _: Access.everything("ann")  # noqa: E731
    with Queue(address, pool_size=2, timeout=1) as queue:
        app = create_app(queue, with_person)
        client = TestClient(app, base_url="http://localhost")
        statuses = {}
        for path in sorted(readable_paths(app) - {"/live"}):
            query = "?name=a&id=1&fingerprint=0123456789ab"
            answer = client.get(path.format(message_id=1, batch_id=1) + query)
            statuses[path] = answer.status_code
            assert CANARY not in answer.text + repr(answer.headers), path
        app.close()
    assert statuses["/healthz"] == statuses["/health"] == (200 if is_up else 503)
    assert statuses["/metrics"] == 200
    assert CANARY not in logged.text


def test_logs_of_a_worker(
    logged: pytest.LogCaptureFixture, secret_dsn: str, conn: psycopg.Connection
) -> None:
    """At the level DEBUG of all loggers. Its connections are closed by the server while it runs."""
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s"
    login = conninfo_to_dict(secret_dsn)["user"]
    attempts = []
    with Queue(secret_dsn) as queue:
        app = App(queue)

        @app.task()
        def break_connections() -> None:
            attempts.append(1)
            conn.execute(query, [login])
            raise ValueError("no")

        break_connections.enqueue()
        queue.enqueue({"not": "a task"}, headers={"task": "unknown"})

        async def serve() -> None:
            async with asyncio.timeout(60):
                await Worker(app).serve(until_empty=True)

        asyncio.run(serve())
    assert attempts
    nowhere = App(Queue(make_conninfo(secret_dsn, port=1), timeout=1))
    nowhere.consume()(print)
    with pytest.raises(DatabaseUnreachable) as raised:
        asyncio.run(Worker(nowhere).serve())
    assert CANARY not in printed(raised.value)
    assert "break_connections" in logged.text
    assert {record.levelno for record in logged.records} >= {logging.DEBUG}
    assert CANARY not in logged.text
