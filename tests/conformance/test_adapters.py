"""Every adapter runs every command, and raises the same errors."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import create_async_engine

from lonnymq import commands, errors
from lonnymq.adapters.drivers import run, run_async
from lonnymq.commands import HistoryList
from lonnymq.install import install, uninstall
from tests.conformance import calls, drivers
from tests.conformance.drivers import DRIVERS, Run
from tests.conformance.saved_queue import SavedQueue
from tests.conformance.test_commands import COMMANDS
from tests.database import AnyServer, copy_database, delete_database, unique_name


def test_every_command_has_a_check() -> None:
    assert not [name for name in COMMANDS if not hasattr(calls, name)]


@pytest.fixture(scope="module")
def saved_queue(server: AnyServer, admin: psycopg.Connection, template: str) -> Iterator[SavedQueue]:
    name = unique_name("lonnymq_conformance")
    copy_database(admin, name, template)
    with psycopg.connect(server.dsn(name), autocommit=True) as conn:
        yield SavedQueue(conn, server.dsn(name))
    delete_database(admin, name)


@pytest.fixture(scope="module")
def driver(request: pytest.FixtureRequest, saved_queue: SavedQueue) -> Iterator[Run]:
    with DRIVERS[request.param](saved_queue.dsn) as run_on_driver:
        yield run_on_driver


@pytest.mark.parametrize("call", sorted(COMMANDS))
@pytest.mark.parametrize("driver", DRIVERS, indirect=True, scope="module")
def test_call(saved_queue: SavedQueue, driver: Run, call: str) -> None:
    saved_queue.restore()
    getattr(calls, call)(driver)


@pytest.mark.parametrize("driver", DRIVERS)
def test_errors_are_translated(dsn: str, driver: str) -> None:
    with DRIVERS[driver](dsn) as call_on:
        with pytest.raises(errors.InvalidChannel) as caught:
            call_on(commands.MessageCreate("", b""))
        assert caught.value.hint
        with pytest.raises(errors.InvalidLimit):
            call_on(commands.MessageDequeue(0))
        assert call_on(commands.QueueGet()), "the connection still works"


MISSING_ROLES = {
    "message_create": (commands.MessageCreate("a", b"x"), "producer"),
    "message_dequeue": (commands.MessageDequeue(1), "consumer"),
    "channel_stats": (commands.ChannelStats("a"), "observer"),
    "history": (HistoryList(None, None, 1), "observer"),
    "channel_set": (commands.ChannelSet("a", max_concurrency=1), "admin"),
}


@pytest.mark.cases(5)
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_missing_role_is_named(
    dsn: str, conn: psycopg.Connection, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, name = unique_name("my q"), unique_name("app")
    install(conn, schema, roles=True)
    monkeypatch.setattr(drivers, "SCHEMA", schema)
    conn.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'".encode())
    user = conninfo_to_dict(dsn)["user"]
    secret = f":{conninfo_to_dict(dsn)['password']}@"
    address = dsn.replace(f"{user}{secret}", f"{name}:{name}@")
    assert address != dsn
    try:
        with DRIVERS[driver](address) as call_on:
            for function, (command, role) in MISSING_ROLES.items():
                with pytest.raises(errors.NotPermitted) as refused:
                    call_on(command)
                assert f'role "{name}" may not use {function}' in refused.value.message
                assert f'GRANT "{schema}_{role}" TO "{name}";' in (refused.value.hint or "")
            with pytest.raises(errors.NotPermitted, match="one of the roles"):
                call_on(commands.QueueGet())
            for _, role in MISSING_ROLES.values():
                conn.execute(f'GRANT "{schema}_{role}" TO {name}'.encode())
            for command, _ in MISSING_ROLES.values():
                call_on(command)
    finally:
        uninstall(conn, schema)
        conn.execute(f"DROP ROLE {name}".encode())


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_psycopg_leaves_the_transaction_to_its_owner(dsn: str, ending: str) -> None:
    with psycopg.connect(dsn) as conn:
        run(conn, "lonnymq", commands.MessageCreate("a", b"x"))
        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        getattr(conn, ending)()
        row = conn.execute("SELECT COUNT(*) FROM lonnymq.message").fetchone()
    assert row == (1 if ending == "commit" else 0,)


class NotAConnection:
    pass


def test_objects_that_are_not_connections() -> None:
    with pytest.raises(errors.UnsuitableConnection, match=r"NotAConnection.*psycopg or psycopg2"):
        run(NotAConnection(), "lonnymq", commands.QueueGet())
    with pytest.raises(errors.UnsuitableConnection, match="is not a connection"):
        run(psycopg.rows.tuple_row, "lonnymq", commands.QueueGet())


def test_sync_and_async_are_not_mixed(dsn: str) -> None:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    with pytest.raises(errors.UnsuitableConnection, match=r"AsyncEngine is asynchronous.*AsyncQueue"):
        run(engine, "lonnymq", commands.QueueGet())
    with psycopg.connect(dsn) as conn:
        call = run_async(conn, "lonnymq", commands.QueueGet())
        with pytest.raises(errors.UnsuitableConnection, match="not asynchronous"):
            asyncio.run(call)


@pytest.mark.cases(5)
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_schema_with_any_name(dsn: str, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers do not mistake any part of the schema's name for a placeholder."""
    schema = 'a "$7" :p7 %s %(x)s'
    with psycopg.connect(dsn, autocommit=True) as conn:
        install(conn, schema=schema)
    monkeypatch.setattr(drivers, "SCHEMA", schema)
    with DRIVERS[driver](dsn) as call_on:
        calls.message_dequeue(call_on)
