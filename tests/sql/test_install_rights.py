"""Installing without the necessary privileges: the error says which one is missing, and how to grant it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lonnymq import AsyncQueue, Queue, errors
from lonnymq.install import inspect, install, read, uninstall, upgrade, verify
from lonnymq.install.files import Step
from tests.database import Connect, unique_name

Conn = psycopg.Connection[Any]
Call = Callable[..., Any]


@pytest.fixture
def role(conn: Conn) -> Iterator[str]:
    """A login without any privileges, whose name has to be quoted."""
    name = unique_name('plain "app')
    make = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(name), sql.Literal(name))
    conn.execute(make)
    yield name
    conn.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))


@pytest.fixture
def login(role: str, connect: Connect) -> Conn:
    return connect(user=role, password=role, options="")


@pytest.fixture
def quoted(role: str, conn: Conn) -> str:
    return sql.Identifier(role).as_string(conn)


def refusal(call: Call, *arguments: Any, **options: Any) -> errors.NotPermitted:
    with pytest.raises(errors.NotPermitted) as raised:
        call(*arguments, **options)
    assert isinstance(raised.value.__cause__, psycopg.errors.InsufficientPrivilege)
    return raised.value


def follow(conn: Conn, error: errors.NotPermitted) -> None:
    """Run what the hint says."""
    assert error.hint is not None
    conn.execute(error.hint[error.hint.index("GRANT") :].encode())


def test_no_right_to_create_the_schema(conn: Conn, login: Conn, quoted: str) -> None:
    error = refusal(install, login, "q")
    assert error.message.endswith(f': role {quoted} may not create the schema "q"')
    assert f'GRANT CREATE ON DATABASE "{conn.info.dbname}" TO {quoted};' in (error.hint or "")
    follow(conn, error)
    install(login, "q")


def test_no_right_to_create_in_the_schema(conn: Conn, login: Conn, quoted: str) -> None:
    conn.execute("CREATE SCHEMA q")
    for given in ("", f"GRANT USAGE ON SCHEMA q TO {quoted}", f"REVOKE USAGE ON SCHEMA q FROM {quoted}"):
        if given:
            conn.execute(given.encode())
        error = refusal(install, login, "q")
        assert f'role {quoted} may not create anything in schema "q"' in error.message
        assert f'have its owner "{conn.info.user}" run: GRANT USAGE, CREATE ON SCHEMA "q"' in str(error)
    follow(conn, error)
    install(login, "q")


CALLS: dict[str, Call] = {
    "install": install,
    "upgrade": upgrade,
    "uninstall": uninstall,
    "verify": verify,
    "inspect": inspect,
}


@pytest.mark.cases(5)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("is_open", [False, True])
def test_a_queue_of_somebody_else(
    conn: Conn, login: Conn, quoted: str, role: str, call: str, is_open: bool
) -> None:
    if is_open:
        conn.execute(f"GRANT USAGE, CREATE ON SCHEMA lonnymq TO {quoted}".encode())
    owner = unique_name("owner")
    conn.execute(f"CREATE ROLE {owner}".encode())
    try:
        conn.execute(f'GRANT CREATE ON DATABASE "{conn.info.dbname}" TO {owner}'.encode())
        conn.execute(f"SET ROLE {owner}".encode())
        install(conn, "theirs")
        if is_open:
            rights = "USAGE" if call == "verify" else "USAGE, CREATE"  # verify refuses CREATE
            conn.execute(f"GRANT {rights} ON SCHEMA theirs TO {quoted}".encode())
        conn.execute("RESET ROLE")
        error = refusal(CALLS[call], login, "theirs")
        assert f'the queue in schema "theirs" belongs to role "{owner}"' in error.message
        assert (error.hint or "").startswith(f"log in as that role, or, if {quoted} is for deployments, ")
        follow(conn, error)
        CALLS[call](login, "theirs")
    finally:
        conn.execute("RESET ROLE")
        conn.execute(f"DROP OWNED BY {owner}; DROP ROLE {owner}".encode())


def test_the_role_of_a_superuser_is_not_to_be_granted(login: Conn, conn: Conn) -> None:
    error = refusal(upgrade, login, "lonnymq")
    assert f'belongs to role "{conn.info.user}"' in error.message
    assert error.hint == "log in as that role"


def test_objects_of_somebody_else(conn: Conn, login: Conn, quoted: str) -> None:
    """After somebody changed their owner, or restored a dump as another role."""
    conn.execute(f'GRANT CREATE ON DATABASE "{conn.info.dbname}" TO {quoted}'.encode())
    install(login, "q")
    for name in ("FUNCTION q.message_complete", "TABLE q.lease"):
        conn.execute(f"ALTER {name} OWNER TO CURRENT_USER".encode())
    files = read()
    step = Step(files.last_step + 1, "more", "ALTER TABLE lease ADD COLUMN note TEXT")
    for given in (files, replace(files, steps=(*files.steps, step))):
        error = refusal(upgrade, login, "q", given)
        owner = sql.Identifier(conn.info.user).as_string(conn).strip('"')
        assert f"q.lease belongs to {owner}, " in error.message
        assert f"and not to role {quoted}" in error.message
    assert error.hint is not None
    conn.execute(error.hint[error.hint.index("ALTER") :].encode())
    upgrade(login, "q")


@pytest.mark.parametrize("call", [install, upgrade])
def test_no_right_to_use_plpgsql(conn: Conn, login: Conn, quoted: str, call: Call) -> None:
    conn.execute(f'GRANT CREATE ON DATABASE "{conn.info.dbname}" TO {quoted}'.encode())
    install(login, "q")
    conn.execute("REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC")
    error = refusal(call, login, "q")
    assert error.message.endswith(f": role {quoted} may not use the language plpgsql")
    follow(conn, error)
    call(login, "q")


def test_a_connection_that_breaks(conn: Conn, connect: Connect) -> None:
    owner = connect()
    with connect(autocommit=False) as holder:
        holder.execute("LOCK TABLE message")
        watch = "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s"

        def end_it() -> None:
            while conn.execute(watch, [owner.info.backend_pid]).fetchone() != ("Lock",):
                pass
            conn.execute("SELECT pg_terminate_backend(%s)", [owner.info.backend_pid])

        thread = threading.Thread(target=end_it)
        thread.start()
        with pytest.raises(errors.ConnectionDropped, match="terminating connection"):
            uninstall(owner)
        thread.join()
        holder.rollback()
    with pytest.raises(errors.ConnectionDropped, match="the connection is lost"):
        inspect(owner)


def test_in_the_callers_transaction_it_can_go_on(conn: Conn, login: Conn, connect: Connect) -> None:
    with login.transaction():
        refusal(install, login, "q")
        assert login.execute("SELECT 1").fetchone() == (1,)


def test_a_session_that_is_read_only(connect: Connect) -> None:
    conn = connect(options="-c default_transaction_read_only=on")
    for call in (install, upgrade, uninstall):
        with pytest.raises(errors.ReadOnlyDatabase, match="target_session_attrs=read-write"):
            call(conn, "lonnymq")
    assert verify(conn).schema == "lonnymq"


def test_a_queue_that_may_not_install(dsn: str, role: str, quoted: str) -> None:
    address = make_conninfo(dsn, user=role, password=role)
    with Queue(address, "q") as queue:
        assert f"TO {quoted};" in (refusal(queue.install).hint or "")

    async def asynchronously() -> None:
        async with AsyncQueue(address, "q") as queue:
            await queue.install()

    assert f"TO {quoted};" in (refusal(asyncio.run, asynchronously()).hint or "")


def test_a_login_that_may_not_connect(conn: Conn, dsn: str, role: str, quoted: str) -> None:
    conn.execute(f'REVOKE CONNECT ON DATABASE "{conn.info.dbname}" FROM PUBLIC'.encode())
    address = make_conninfo(dsn, user=role, password=role)
    for kind in (Queue, AsyncQueue):
        queue: Any = kind(address, "q")
        with pytest.raises(errors.DatabaseUnreachable) as raised:
            asyncio.run(queue.install()) if kind is AsyncQueue else queue.install()
        grant = f'GRANT CONNECT ON DATABASE "{conn.info.dbname}" TO this login;'
        assert raised.value.hint == f"have its owner run: {grant}"
    conn.execute(grant.replace("this login", quoted).encode())
    with Queue(address, "q") as allowed, pytest.raises(errors.NotPermitted):
        allowed.install()
    with pytest.raises(errors.DatabaseUnreachable, match="check the user and the password in the address"):
        Queue(make_conninfo(address, password=role + "?")).install()


def test_a_queue_that_cannot_connect() -> None:
    async def asynchronously() -> None:
        async with AsyncQueue("host=127.0.0.1 port=1 dbname=nothing", timeout=1) as queue:
            await queue.install()

    with pytest.raises(errors.DatabaseUnreachable, match="could not connect"):
        asyncio.run(asynchronously())
    with pytest.raises(errors.DatabaseUnreachable, match="could not connect"):
        Queue("host=127.0.0.1 port=1 dbname=nothing", timeout=1).install()
