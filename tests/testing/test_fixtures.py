"""The plugin's fixtures: each test has its own database, queue and async queue."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.testing.project import Project, Role, database_of

pytest_plugins = ["pytester"]

TWO_TESTS = """
import psycopg

left_open = []

def test_one(lonnymq_queue, lonnymq_dsn):
    lonnymq_queue.enqueue({"invoice": 7}, channel="acme")
    [message] = lonnymq_queue.dequeue(10)
    assert message.payload == {"invoice": 7}
    left_open.append(psycopg.connect(lonnymq_dsn))
    left_open[0].execute("CREATE TABLE invoice ()")

def test_other(lonnymq_queue, lonnymq_dsn):
    assert lonnymq_queue.dequeue(10) == []
    assert lonnymq_queue.messages() == []
    with psycopg.connect(lonnymq_dsn) as conn:
        assert conn.execute("SELECT to_regclass('invoice')").fetchone() == (None,)
        names = conn.execute("SELECT datname FROM pg_database").fetchall()
    for name, in names:
        print("there is", name)
"""

PREPARED = """
import psycopg, pytest

@pytest.fixture(scope="session")
def lonnymq_prepare():
    return prepare

def prepare(dsn):
    with open("prepared", "a") as file:
        print(dsn, file=file)
    prepare.left_open = psycopg.connect(dsn, autocommit=True)
    ours = "SELECT count(*) FROM pg_database WHERE datdba = current_user::regrole"
    for count, in prepare.left_open.execute(ours):
        print(count, "databases")
    prepare.left_open.execute("CREATE TABLE invoice ()")
"""

USES_WHAT_IS_PREPARED = """
import psycopg, pytest

@pytest.mark.parametrize("number", range(6))
def test_it(number, lonnymq_dsn, lonnymq_queue):
    with open("used", "a") as file:
        print(lonnymq_dsn, file=file)
    with psycopg.connect(lonnymq_dsn) as conn:
        conn.execute("SELECT FROM invoice")
        lonnymq_queue.enqueue(number, conn=conn)
    assert [message.payload for message in lonnymq_queue.dequeue(10)] == [number]
"""

ASYNC = """
import asyncio
import psycopg
import pytest

async def sent_and_taken(queue):
    await asyncio.gather(*(queue.enqueue(number) for number in range(5)))
    messages = await queue.dequeue(10, wait=5)
    await queue.complete_many(messages)
    return sorted(message.payload for message in messages)

def test_loops_one_after_the_other(lonnymq_async_queue):
    for _ in range(3):
        assert asyncio.run(sent_and_taken(lonnymq_async_queue)) == [0, 1, 2, 3, 4]

def test_a_loop_that_is_closed_later(loop, lonnymq_async_queue):
    assert loop.run_until_complete(sent_and_taken(lonnymq_async_queue)) == [0, 1, 2, 3, 4]

@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    assert not asyncio.all_tasks(loop)
    loop.close()

def test_more_calls_than_connections(lonnymq_async_queue, lonnymq_dsn):
    async def sent():
        await asyncio.gather(*(lonnymq_async_queue.enqueue(number) for number in range(40)))
        await lonnymq_async_queue.enqueue_many(range(10))
    for _ in range(2):
        asyncio.run(sent())
    with psycopg.connect(lonnymq_dsn) as conn:
        others = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        assert 2 <= conn.execute(others).rowcount <= 10
    assert len(asyncio.run(lonnymq_async_queue.dequeue(1000))) == 100

def test_loops_that_end_in_the_middle(lonnymq_async_queue):
    async def begin():
        sending = [asyncio.create_task(lonnymq_async_queue.enqueue(number)) for number in range(5)]
        await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
    for _ in range(5):
        asyncio.run(begin())
    assert len(asyncio.run(lonnymq_async_queue.dequeue(100))) >= 5

def test_a_loop_that_ends_before_there_is_a_connection(lonnymq_async_queue):
    async def hardly_begin(rounds):
        asking = asyncio.create_task(lonnymq_async_queue.messages())
        for _ in range(rounds):
            await asyncio.sleep(0)
        assert not asking.done()
    for rounds in range(1, 5):
        asyncio.run(hardly_begin(rounds))
    assert asyncio.run(sent_and_taken(lonnymq_async_queue)) == [0, 1, 2, 3, 4]

def test_closed_by_the_test_itself(lonnymq_async_queue):
    async def use():
        async with lonnymq_async_queue as queue:
            return await sent_and_taken(queue)
    assert asyncio.run(use()) == [0, 1, 2, 3, 4]

def test_never_used(lonnymq_async_queue):
    pass

@pytest.mark.anyio
async def test_by_a_plugin(lonnymq_async_queue):
    assert await sent_and_taken(lonnymq_async_queue) == [0, 1, 2, 3, 4]

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""

WRITES_ITS_ADDRESS = """
import pathlib

def test_it(lonnymq_dsn):
    pathlib.Path("used").write_text(lonnymq_dsn)
"""

BILLING = """
import psycopg, pytest

@pytest.fixture(scope="session")
def lonnymq_schema():
    return "{schema}"

def test_it(lonnymq_queue, lonnymq_dsn):
    assert lonnymq_queue.schema == "{schema}"
    lonnymq_queue.enqueue(1)
    with psycopg.connect(lonnymq_dsn) as conn:
        query = "SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = 'message'"
        assert conn.execute(query).fetchall() == [('{quoted}',)]
"""

OWN_SERVER = """
import pytest

@pytest.fixture(scope="session")
def lonnymq_server_dsn():
    return {dsn!r}
"""


def test_each_test_has_its_own_database_which_is_dropped_afterwards(project: Project, role: Role) -> None:
    project.runs_on(role.dsn)
    project.write(test_two=TWO_TESTS)
    result = project.run("-rP")
    result.assert_outcomes(passed=2)
    seen = [line for line in result.outlines if line.startswith("there is lonnymq_test_")]
    assert len(seen) >= 1
    assert role.databases() == []


def test_the_template_is_prepared_once_and_copied(project: Project, role: Role) -> None:
    project.runs_on(role.dsn)
    project.write(conftest=PREPARED, test_it=USES_WHAT_IS_PREPARED)
    project.run().assert_outcomes(passed=6)
    assert len(project.lines_of("prepared")) == 1
    assert len(set(project.lines_of("used"))) == 6
    assert role.databases() == []


@pytest.mark.long  # the test before prepares one that works
def test_a_template_that_could_not_be_prepared_is_dropped_and_the_error_shown(
    project: Project, role: Role
) -> None:
    project.runs_on(role.dsn)
    project.write(conftest=PREPARED.replace("CREATE TABLE invoice", "CREATE TABEL invoice"))
    project.write(test_it=USES_WHAT_IS_PREPARED.replace("range(6)", "range(2)"))
    result = project.run()
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*CREATE TABEL*", "*SyntaxError*"])
    assert {line for line in result.outlines if line.endswith(" databases")} == {"1 databases"}
    assert role.databases() == []


@pytest.mark.long  # tests/testing/test_draining.py uses one in a loop
def test_an_async_queue_in_all_kinds_of_event_loops(project: Project, role: Role) -> None:
    project.runs_on(role.dsn)
    project.write(test_async=ASYNC)
    project.run("--timeout=60").assert_outcomes(passed=8)
    assert role.databases() == []


@pytest.mark.long  # a fixture of pytest, overridden
def test_a_module_can_use_another_schema(project: Project, role: Role) -> None:
    project.runs_on(role.dsn)
    project.write(
        test_billing=BILLING.format(schema="billing", quoted="billing"),
        test_odd=BILLING.format(schema="a b", quoted='"a b"'),
        test_usual="def test_it(lonnymq_queue):\n    assert lonnymq_queue.schema == 'lonnymq'",
    )
    project.run().assert_outcomes(passed=3)
    assert role.databases() == []


@pytest.mark.long  # a fixture of pytest, overridden
def test_a_server_that_the_project_starts_itself(project: Project, role: Role) -> None:
    project.runs_on("postgresql://127.0.0.1:1/nowhere")
    project.write(conftest=OWN_SERVER.format(dsn=role.keywords), test_two=TWO_TESTS)
    project.run().assert_outcomes(passed=2)


@pytest.mark.parametrize(
    "spelling",
    ["keywords", *(pytest.param(other, marks=pytest.mark.long) for other in ("sqlalchemy", "url"))],
)
def test_the_address_is_a_url_whatever_the_form_of_the_servers_address(
    project: Project, role: Role, spelling: str
) -> None:
    url = role.dsn
    written = {
        "url": url,
        "keywords": role.keywords,
        "sqlalchemy": url.replace("postgresql://", "postgresql+psycopg://"),
    }
    project.runs_on(written[spelling])
    project.write(test_it=WRITES_ITS_ADDRESS)
    project.run().assert_outcomes(passed=1)
    [used] = project.lines_of("used")
    assert used.startswith("postgresql://")
    name = database_of(used)
    assert name.startswith("lonnymq_test_")
    assert conninfo_to_dict(used) == conninfo_to_dict(url) | {"dbname": name}
