"""Only the owner has rights on the queue's objects, whatever default privileges say; verify checks it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lonnymq.errors import RightsTooWide
from lonnymq.install import install, read, upgrade, verify
from lonnymq.install.rights import StrayRight, stray_rights
from tests.database import Connect, unique_name

PASSWORD = "no secret"  # noqa: S105 - the servers of tests trust everyone on this machine
DAY = 86_400_000

Conn = psycopg.Connection[Any]


@pytest.fixture
def other(conn: Conn) -> Iterator[str]:
    """A role that has nothing to do with the queue."""
    name = unique_name("other")
    conn.execute(
        sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(name), sql.Literal(PASSWORD))
    )
    yield name
    conn.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(name)))
    conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.fixture
def with_roles(conn: Conn) -> Iterator[str]:
    schema = unique_name("q")
    install(conn, schema, roles=True)
    conn.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
    yield schema
    for role in ("admin", "observer", "consumer", "producer"):
        conn.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(f"{schema}_{role}")))
        conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(f"{schema}_{role}")))


def unexpected_rights(conn: Conn, schema: str = "lonnymq") -> list[str]:
    return [str(StrayRight(*row)) for row in conn.execute(stray_rights(schema).encode())]


DEFAULTS = [
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA lonnymq GRANT SELECT ON TABLES TO PUBLIC",
    "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {}",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA lonnymq GRANT ALL ON TABLES TO {} WITH GRANT OPTION",
]


@pytest.mark.parametrize("default", DEFAULTS)
def test_partitions_of_the_history_are_the_owners(
    conn: Conn, connect: Connect, other: str, default: str
) -> None:
    """The partitions that queue_set creates, and those that maintain creates later."""
    conn.execute(sql.SQL("GRANT USAGE ON SCHEMA lonnymq TO {}").format(sql.Identifier(other)))
    conn.execute(sql.SQL(default).format(sql.Identifier(other)))
    conn.execute("SELECT queue_set(p_history => TRUE)")
    conn.execute("SELECT history_prepare(to_epoch(now()) + 30::BIGINT * %s)", (DAY,))
    made = conn.execute(
        "SELECT inhrelid::REGCLASS::TEXT FROM pg_inherits WHERE inhparent = 'finished'::REGCLASS"
    )
    names = [name for (name,) in made]
    assert len(names) == 17
    session = connect(user=other, password=PASSWORD)
    for name in names:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute(f"SELECT FROM {name}".encode())
    assert unexpected_rights(conn) == [f"{other} has USAGE on lonnymq"]
    verify(conn)


def test_an_installation_takes_what_default_privileges_give(conn: Conn, other: str) -> None:
    for kind in ("TABLES", "SEQUENCES", "FUNCTIONS", "SCHEMAS"):
        conn.execute(
            sql.SQL(f"ALTER DEFAULT PRIVILEGES GRANT ALL ON {kind} TO {{}} WITH GRANT OPTION").format(
                sql.Identifier(other)
            )
        )
    install(conn, "q")
    assert unexpected_rights(conn, "q") == []
    held = """
        SELECT c.relname FROM pg_class c, aclexplode(c.relacl) a
        WHERE a.grantee = %(other)s::REGROLE AND c.relnamespace = 'q'::REGNAMESPACE
        UNION ALL
        SELECT p.proname FROM pg_proc p, aclexplode(p.proacl) a
        WHERE a.grantee = %(other)s::REGROLE AND p.pronamespace = 'q'::REGNAMESPACE
        UNION ALL
        SELECT 'schema' FROM pg_namespace n, aclexplode(n.nspacl) a
        WHERE a.grantee = %(other)s::REGROLE AND n.nspname = 'q'"""
    assert conn.execute(held.encode(), {"other": other}).fetchall() == []


def test_an_upgrade_leaves_what_was_granted_on_what_is_public(conn: Conn, other: str) -> None:
    for grant in (
        "USAGE ON SCHEMA lonnymq",
        "EXECUTE ON FUNCTION message_create",
        "SELECT ON history",
        "SELECT ON message",
        "EXECUTE ON FUNCTION clock_ms",
        "UPDATE ON SEQUENCE turn",
    ):
        conn.execute(sql.SQL(f"GRANT {grant} TO {{}}").format(sql.Identifier(other)))
    upgrade(conn, "lonnymq", read())
    assert [text.removeprefix(f"{other} has ").split("(")[0] for text in unexpected_rights(conn)] == [
        "USAGE on lonnymq",
        "SELECT on lonnymq.history",
        "EXECUTE on lonnymq.message_create",
    ]
    verify(conn)


WIDE = [
    "GRANT SELECT ON finished_other TO PUBLIC",
    "GRANT SELECT ON message TO {other}",
    "GRANT SELECT ON message TO {other} WITH GRANT OPTION",
    "GRANT SELECT (content), UPDATE (channel) ON dead TO {other}",
    "GRANT INSERT (staged_by) ON staging TO {producer}",
    "GRANT SELECT ON staging TO {producer}",
    "GRANT USAGE ON SEQUENCE turn TO PUBLIC",
    "GRANT SELECT ON SEQUENCE message_id_seq TO {other}",
    "GRANT SELECT ON messages TO PUBLIC",
    "GRANT UPDATE ON messages TO {other}",
    "GRANT SELECT ON migration TO {observer}",
    "GRANT EXECUTE ON FUNCTION message_create TO PUBLIC",
    "GRANT EXECUTE ON FUNCTION clock_ms TO {other}",
    "GRANT EXECUTE ON FUNCTION credential_bind TO {observer}",
    "GRANT CREATE ON SCHEMA {schema} TO {other}",
    "GRANT USAGE ON SCHEMA {schema} TO PUBLIC",
    "ALTER TABLE finished_other OWNER TO {other}",
    "ALTER FUNCTION clock_ms OWNER TO {other}",
]


def test_verify_refuses_and_says_what_to_run(conn: Conn, with_roles: str, other: str) -> None:
    """What it says undoes each change, so that the next one finds the queue as it was."""
    verify(conn, with_roles)
    roles = {role: sql.Identifier(f"{with_roles}_{role}") for role in ("producer", "observer")}
    given = {"other": sql.Identifier(other), "schema": sql.Identifier(with_roles), **roles}
    for change in WIDE:
        conn.execute(sql.SQL(change).format(**given))
        with pytest.raises(RightsTooWide, match="privileges bypass the queue") as caught:
            verify(conn, with_roles)
        assert caught.value.hint is not None, change
        conn.execute(caught.value.hint.removeprefix("run as its owner: ").encode())
        verify(conn, with_roles)


def test_rights_that_were_passed_on_are_revoked_too(conn: Conn, connect: Connect, other: str) -> None:
    third = unique_name("third")
    conn.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(third)))
    conn.execute(sql.SQL("GRANT USAGE ON SCHEMA lonnymq TO {}").format(sql.Identifier(other)))
    conn.execute(sql.SQL("GRANT SELECT ON message TO {} WITH GRANT OPTION").format(sql.Identifier(other)))
    session = connect(user=other, password=PASSWORD)
    session.execute(sql.SQL("GRANT SELECT ON message TO {}").format(sql.Identifier(third)))
    assert len(unexpected_rights(conn)) == 3
    upgrade(conn)
    assert unexpected_rights(conn) == [f"{other} has USAGE on lonnymq"]
    conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(third)))


def test_verify_accepts_rights_that_may_be_granted(conn: Conn, with_roles: str, other: str) -> None:
    for grant in (
        "GRANT EXECUTE ON FUNCTION message_create TO {other}",
        "GRANT SELECT ON history TO {other}",
        "GRANT USAGE ON SCHEMA {schema} TO {other}",
        "GRANT {admin} TO {other}",
    ):
        names = {"other": other, "schema": with_roles, "admin": f"{with_roles}_admin"}
        conn.execute(sql.SQL(grant).format(**{key: sql.Identifier(name) for key, name in names.items()}))
    verify(conn, with_roles)


def test_of_another_release_only_everybodys_rights_are_known(conn: Conn, with_roles: str) -> None:
    """This release does not know what the roles of another one may do."""
    producer = sql.Identifier(f"{with_roles}_producer")
    conn.execute(sql.SQL("GRANT EXECUTE ON FUNCTION rebuild TO {}").format(producer))
    conn.execute("UPDATE installation SET release = '99'")
    verify(conn, with_roles)
    conn.execute("GRANT EXECUTE ON FUNCTION rebuild TO PUBLIC")
    with pytest.raises(RightsTooWide):
        verify(conn, with_roles)
