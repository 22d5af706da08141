"""Somebody who may create schemas in the same database does not get the rights of those who install or check
the queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lonnymq.doctor.checks import Database
from lonnymq.doctor.run_checks import run_checks
from lonnymq.errors import NotPermitted, RightsTooWide
from lonnymq.install import inspect, install, plan, uninstall, upgrade, verify
from lonnymq.install.kombu_tables import create_kombu_tables, kombu_schema
from lonnymq.kombu.broker import Broker, Key
from tests.clock import FakeClock
from tests.security.conftest import PASSWORD, Attacked, Conn
from tests.sql.test_history import DAY, NOON, ends, finish_one, maintain, switch_on

RUNS = "LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'eve ran as %', current_user; END $$"


@pytest.fixture
def eve(bare: Attacked) -> Conn:
    login = bare.make_login("eve")
    bare.run("GRANT CREATE ON DATABASE {database} TO {eve}", database=bare.conn.info.dbname, eve=login)
    return bare.open(login)


def test_a_schema_that_somebody_else_made_first(bare: Attacked, eve: Conn) -> None:
    """Its owner can add functions that fit better than PostgreSQL's, and the queue's would call them."""
    eve.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(bare.schema)))
    refused = rf"{eve.info.user} owns schema {bare.schema}: that role could act with the rights of"
    for roles in (False, True):
        with pytest.raises(RightsTooWide, match=refused) as caught:
            install(bare.conn, bare.schema, roles=roles)
        assert "make postgres the owner" in str(caught.value.hint)
    bare.run("ALTER SCHEMA {schema} OWNER TO CURRENT_USER")
    install(bare.conn, bare.schema)
    bare.run("ALTER SCHEMA {schema} OWNER TO {eve}", eve=eve.info.user)
    with pytest.raises(RightsTooWide, match=f"{bare.schema} belongs to {eve.info.user}") as caught:
        verify(bare.conn, bare.schema)
    with pytest.raises(RightsTooWide):
        upgrade(bare.conn, bare.schema)
    bare.conn.execute(str(caught.value.hint).removeprefix("run as its owner: ").encode())
    verify(bare.conn, bare.schema)
    install(eve, f"{bare.schema} of eve")


@pytest.mark.parametrize("must_exist", [False, True])
def test_a_schema_that_somebody_makes_during_an_installation(
    bare: Attacked, eve: Conn, must_exist: bool
) -> None:
    """Eve sees the advisory lock of the installation, and makes the schema before the installation does."""
    statements = iter(plan(bare.schema, must_exist=must_exist))

    def run(*, until: str | None = None) -> None:
        for statement in statements:
            bare.conn.execute(statement.encode())
            if until is not None and until in statement:
                return

    with bare.conn.transaction(force_rollback=True):
        run(until="LM106")
        eve.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(bare.schema)))
        if must_exist:
            eve.execute(
                TRAPS["tables of the installer"].replace("{{}}", "{}").replace("{runs}", RUNS).encode()
            )
        with pytest.raises(psycopg.DatabaseError, match=f"{eve.info.user} owns ") as refused:
            run()
    assert refused.value.sqlstate == "LM106"


def test_policies_on_the_tables_of_somebody_elses_queue(bare: Attacked, eve: Conn) -> None:
    """PostgreSQL runs their functions with the rights of whoever reads the table, superusers excepted."""
    app = bare.login("app")
    bare.run("GRANT CREATE ON DATABASE {database} TO {app}", database=app.info.dbname, app=app.info.user)
    install(eve, bare.schema)
    eve.execute(f"SET search_path TO {bare.schema}; CREATE FUNCTION evil () RETURNS BOOLEAN {RUNS}".encode())
    for table in ("installation", "migration"):
        eve.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY".encode())
        eve.execute(
            f"CREATE POLICY evil ON {table} USING (evil()); GRANT SELECT ON {table} TO PUBLIC".encode()
        )
    bare.run("GRANT USAGE ON SCHEMA {schema} TO PUBLIC")
    for call in (inspect, verify, upgrade, install, uninstall):
        with pytest.raises(NotPermitted):
            call(app, bare.schema)
    with app.transaction():
        install(app, "own")
        assert app.execute("SHOW row_security").fetchone() == ("on",)


TRAPS = {
    "tables of the installer": """
        CREATE TABLE migration (step INT PRIMARY KEY, name TEXT NOT NULL, relations TEXT[] NOT NULL,
            release TEXT NOT NULL, applied_at BIGINT NOT NULL);
        CREATE TABLE installation (one BOOLEAN PRIMARY KEY DEFAULT TRUE, contract INT NOT NULL,
            oldest_contract INT NOT NULL, release TEXT NOT NULL, functions TEXT[] NOT NULL,
            schema_created BOOLEAN NOT NULL, applied_at BIGINT NOT NULL);
        INSERT INTO installation VALUES (TRUE, 0, 0, '0', '{{}}', FALSE, 0);
        CREATE FUNCTION evil () RETURNS TRIGGER {runs};
        CREATE TRIGGER evil BEFORE UPDATE ON installation EXECUTE FUNCTION evil()""",
    "a function": "CREATE FUNCTION octet_length (JSONB) RETURNS INT {runs}",
    "an operator": "CREATE FUNCTION public.evil (TEXT, NAME) RETURNS BOOLEAN {runs};"
    " CREATE OPERATOR = (FUNCTION = public.evil, LEFTARG = TEXT, RIGHTARG = NAME)",
    "a type": "CREATE TYPE evil AS (id BIGINT)",
}


@pytest.mark.parametrize("trap", TRAPS)
def test_what_somebody_left_in_a_schema(bare: Attacked, eve: Conn, trap: str) -> None:
    """Also if they cannot create anything in it any more."""
    name = sql.Identifier(bare.schema)
    bare.run("GRANT CREATE ON SCHEMA public TO {eve}", eve=eve.info.user)
    eve.execute(sql.SQL("CREATE SCHEMA {}").format(name))
    eve.execute(TRAPS[trap].replace("{{}}", "{}").replace("{runs}", RUNS).encode())
    bare.run("ALTER SCHEMA {schema} OWNER TO CURRENT_USER")
    for call in (install, upgrade):
        with pytest.raises(RightsTooWide, match=f"{eve.info.user} owns objects in schema"):
            call(bare.conn, bare.schema)


@pytest.mark.parametrize("grantee", ["PUBLIC", "eve"])
def test_a_schema_in_which_others_may_create(bare: Attacked, eve: Conn, grantee: str) -> None:
    bare.run("CREATE SCHEMA {schema}")
    to = "PUBLIC" if grantee == "PUBLIC" else sql.Identifier(eve.info.user).as_string(bare.conn)
    bare.run(f"GRANT CREATE ON SCHEMA {{schema}} TO {to}")
    with pytest.raises(RightsTooWide, match="may create objects in schema"):
        install(bare.conn, bare.schema)
    bare.run(f"REVOKE CREATE ON SCHEMA {{schema}} FROM {to}")
    install(bare.conn, bare.schema)


def test_a_login_that_was_made_a_member_installs_for_the_owner(bare: Attacked, eve: Conn) -> None:
    bare.run("CREATE ROLE {owner}", owner=f"{bare.schema}_owner")
    bare.run("GRANT {owner} TO {eve}", owner=f"{bare.schema}_owner", eve=eve.info.user)
    bare.run("CREATE SCHEMA {schema} AUTHORIZATION {owner}", owner=f"{bare.schema}_owner")
    install(eve, bare.schema)
    for conn in (eve, bare.conn):
        verify(conn, bare.schema)
    bare.run("REVOKE {owner} FROM {eve}", owner=f"{bare.schema}_owner", eve=eve.info.user)
    with pytest.raises(RightsTooWide, match=f"{bare.schema} belongs to {bare.schema}_owner"):
        verify(bare.conn, bare.schema)


def test_the_owner_of_the_database_installs_into_public(bare: Attacked, eve: Conn) -> None:
    """Since PostgreSQL 15 the schema public belongs to pg_database_owner."""
    bare.run("ALTER DATABASE {database} OWNER TO {eve}", database=bare.conn.info.dbname, eve=eve.info.user)
    try:
        install(eve, "public")
        verify(eve, "public")
        with pytest.raises(RightsTooWide):
            upgrade(bare.conn, "public")
    finally:
        bare.run("ALTER DATABASE {database} OWNER TO CURRENT_USER", database=bare.conn.info.dbname)


def test_days_of_the_history_that_cannot_be_dropped(queue: Attacked, eve: Conn) -> None:
    """PostgreSQL lets everybody make a view that depends on any table, by its OID. The rows of these days are
    deleted all the same, and the days after them.
    """
    clock = FakeClock(queue.conn, NOON, queue.schema)
    switch_on(queue.conn, history_keep_ms=2 * DAY)
    for week in range(6):
        queue.conn.execute("SELECT history_prepare(%s)", (clock.at + 7 * week * DAY,))
    oids = queue.conn.execute(
        "SELECT c.oid::BIGINT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'finished'::REGCLASS AND c.relname < 'finished_o' ORDER BY c.relname LIMIT 33"
    ).fetchall()
    constants = ", ".join(f"'{oid}'::REGCLASS AS c{oid}" for (oid,) in oids)
    eve.execute(f"CREATE TEMP VIEW mine AS SELECT {constants}".encode())
    for _ in range(35):
        finish_one(queue.conn)
        clock.advance(DAY)
    clock.advance(5 * DAY)
    for _ in range(100):
        maintain(queue.conn)
        if not ends(queue.conn):
            break
    assert ends(queue.conn) == []


def connect_with_kombu(address: str, schema: str) -> None:
    broker = Broker(Key(address, schema, listen=False, pool_size=1))
    try:
        broker.prepare(install=True)
        broker.topology.declare("orders", is_temporary=False, expires_ms=None)
    finally:
        broker.queue.close()


def test_tables_of_kombu_that_somebody_else_made_first(bare: Attacked, eve: Conn, dsn: str) -> None:
    """Triggers of their owner would run with the rights of the login that Celery has."""
    install(bare.conn, bare.schema, roles=True)
    user = bare.make_login("app", "producer", "consumer", "observer", "admin")
    app = make_conninfo(dsn, user=user, password=PASSWORD)
    theirs = kombu_schema(bare.schema)
    eve.execute(create_kombu_tables(bare.schema).encode())
    eve.execute(
        f"CREATE FUNCTION {theirs}.evil () RETURNS TRIGGER {RUNS};"
        f" CREATE TRIGGER evil BEFORE INSERT ON {theirs}.queue FOR EACH ROW EXECUTE FUNCTION {theirs}.evil();"
        f" GRANT ALL ON SCHEMA {theirs} TO PUBLIC;"
        f" GRANT ALL ON ALL TABLES IN SCHEMA {theirs} TO PUBLIC".encode()
    )
    refused = (
        rf"{eve.info.user} owns schema {theirs}, or a table in it, and could act with the rights of {user}"
    )
    for drop in ("SELECT", f"DROP TABLE {theirs}.message, {theirs}.binding, {theirs}.queue"):
        eve.execute(drop.encode())
        with pytest.raises(RightsTooWide, match=refused):
            connect_with_kombu(app, bare.schema)
    for name in ("queue", "binding", "message"):
        eve.execute(f"CREATE VIEW {theirs}.{name} AS SELECT 1".encode())
    uninstall(bare.conn, bare.schema)
    install(bare.conn, bare.schema, roles=True)
    for role in ("producer", "consumer", "observer", "admin"):
        bare.run("GRANT {role} TO {app}", role=f"{bare.schema}_{role}", app=user)
    eve.execute(f"DROP SCHEMA {theirs} CASCADE".encode())
    bare.run("GRANT CREATE ON DATABASE {database} TO {app}", database=bare.conn.info.dbname, app=user)
    connect_with_kombu(app, bare.schema)
    with pytest.raises(RightsTooWide, match=f"{user} owns schema"):
        connect_with_kombu(dsn, bare.schema)  # as a superuser


def test_kombu_uses_tables_of_the_queues_owner(bare: Attacked, dsn: str) -> None:
    bare.run("CREATE ROLE {owner} CREATEROLE", owner=f"{bare.schema}_owner")
    bare.run(
        "GRANT CREATE ON DATABASE {database} TO {owner}",
        database=bare.conn.info.dbname,
        owner=f"{bare.schema}_owner",
    )
    user = bare.make_login("app")
    connect_with_kombu(make_conninfo(dsn, options=f"-c role={bare.schema}_owner"), bare.schema)
    install(bare.connect(options=f"-c role={bare.schema}_owner"), bare.schema, roles=True)
    for role in ("producer", "consumer", "observer", "admin"):
        bare.run("GRANT {role} TO {app}", role=f"{bare.schema}_{role}", app=user)
    theirs = kombu_schema(bare.schema)
    bare.run("GRANT USAGE ON SCHEMA {theirs} TO {app}", theirs=theirs, app=user)
    bare.run("GRANT ALL ON ALL TABLES IN SCHEMA {theirs} TO {app}", theirs=theirs, app=user)
    for address in (make_conninfo(dsn, user=user, password=PASSWORD), dsn):
        connect_with_kombu(address, bare.schema)


# A schema that is named after a login is the first in which PostgreSQL looks for functions and operators of
# that login, after its own. One that fits the types of the arguments better is preferred.

SHADOWS = (
    *("format(TEXT, TEXT)", "format(TEXT, TEXT, TEXT)", "format(TEXT, NAME)", "format(TEXT, TEXT, NAME)"),
    *("pg_has_role(OID, NAME, TEXT)", "current_setting(NAME)", "count(TEXT)", "left(NAME, INT)"),
    *("unnest(BIGINT[])", "cardinality(TEXT[])", "string_agg(TEXT, NAME)", "to_regclass(NAME)"),
    *("set_config(TEXT, TEXT, TEXT)", "has_function_privilege(TEXT, OID, TEXT)", "max(BIGINT)"),
)
COMPARED = (("NAME", "TEXT"), ("TEXT", "NAME"), ("NAME", "TEXT[]"), ("OID", "REGCLASS"), ("REGCLASS", "OID"))


def trap(bare: Attacked, eve: Conn, victim: str) -> None:
    name = sql.Identifier(victim).as_string(bare.conn)
    eve.execute(f"CREATE SCHEMA {name}".encode())
    bare.run("GRANT USAGE ON SCHEMA {name} TO PUBLIC", name=victim)
    for signature in SHADOWS:
        eve.execute(f"CREATE FUNCTION {name}.{signature} RETURNS TEXT {RUNS}".encode())
    for left, right in COMPARED:
        sides = f"{left}, {right}"
        function = f'{name}."{left} {right}"'
        eve.execute(f"CREATE FUNCTION {function} ({sides}) RETURNS BOOLEAN {RUNS}".encode())
        for operator in ("=", "<>"):
            eve.execute(
                f"CREATE OPERATOR {name}.{operator}"
                f" (FUNCTION = {function}, LEFTARG = {left}, RIGHTARG = {right})".encode()
            )


def examine(conn: Conn, schema: str) -> None:
    for finding in run_checks(Database(conn, schema)):
        assert "eve ran" not in finding.message, finding
        assert not finding.message.startswith("not checked"), finding


CALLS: dict[str, Callable[..., Any]] = {
    "upgrade": upgrade,
    "verify": verify,
    "inspect": inspect,
    "doctor": examine,
    "uninstall": uninstall,
}


def test_functions_in_a_schema_that_is_named_after_the_administrator(bare: Attacked, eve: Conn) -> None:
    admin = bare.make_login("root")
    bare.run("ALTER ROLE {admin} SUPERUSER", admin=admin)
    trap(bare, eve, admin)
    victim = bare.open(admin, options="")
    with pytest.raises(psycopg.errors.RaiseException, match=f"eve ran as {admin}"):
        victim.execute("SELECT format('%s %s', 'a'::TEXT, 'b'::NAME)")
    install(victim, bare.schema, roles=True)
    for call in CALLS.values():
        call(victim, bare.schema)
