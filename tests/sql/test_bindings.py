"""Which logins a binding applies to: renamed roles, members of groups, roles dropped and created again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import sql

from lonnymq.errors import SchemaLocked
from lonnymq.install import install
from tests.database import Connect, unique_name, until_waiting

PASSWORD = "no secret"  # noqa: S105 - the servers of tests trust everyone on this machine

Conn = psycopg.Connection


class Roles:
    """Creates roles that may call everything, opens their sessions, and drops the roles at the end."""

    def __init__(self, conn: Conn, connect: Connect) -> None:
        self.conn = conn
        self.connect = connect
        self.prefix = unique_name("bound")

    def name(self, name: str) -> str:
        return f"{self.prefix}_{name}"

    def run(self, statement: str, **names: str) -> None:
        """Run a statement; names are replaced by the names of this test's roles."""
        identifiers = {key: sql.Identifier(self.name(name)) for key, name in names.items()}
        self.conn.execute(sql.SQL(statement).format(**identifiers))

    def make(self, name: str, attributes: str = "") -> None:
        login = sql.SQL(f"CREATE ROLE {{}} LOGIN PASSWORD {{}} {attributes}")
        self.conn.execute(login.format(sql.Identifier(self.name(name)), sql.Literal(PASSWORD)))
        for grant in (
            "USAGE ON SCHEMA lonnymq",
            "EXECUTE ON ALL FUNCTIONS IN SCHEMA lonnymq",
            "SELECT ON messages",
            "INSERT (batch, ord, channel, content) ON staging",
        ):
            self.run(f"GRANT {grant} TO {{role}}", role=name)

    def drop(self, name: str) -> None:
        self.run("DROP OWNED BY {role}", role=name)
        self.run("DROP ROLE {role}", role=name)

    def rename(self, old: str, new: str) -> None:
        self.run("ALTER ROLE {old} RENAME TO {new}", old=old, new=new)
        self.run(f"ALTER ROLE {{new}} PASSWORD '{PASSWORD}'", new=new)  # a rename drops an MD5 password

    def bind(self, name: str, channels: list[str] | None) -> None:
        self.conn.execute("SELECT credential_bind(%s, %s)", (self.name(name), channels))

    def session(self, name: str) -> Conn:
        return self.connect(user=self.name(name), password=PASSWORD)

    def bound(self, name: str) -> list[str] | None:
        row = self.session(name).execute("SELECT bound_channels()").fetchone()
        assert row is not None
        return row[0]  # type: ignore[no-any-return]

    def listed(self) -> dict[str, list[str]]:
        rows = self.conn.execute("SELECT role, channels FROM credential_list()").fetchall()
        return {role.removeprefix(f"{self.prefix}_"): channels for role, channels in rows}


@pytest.fixture
def roles(conn: Conn, connect: Connect) -> Iterator[Roles]:
    made = Roles(conn, connect)
    yield made
    conn.execute("RESET SESSION AUTHORIZATION")
    left = conn.execute("SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s)", (made.prefix,))
    names = [name for (name,) in left.fetchall()]
    for drop in ("DROP OWNED BY {} CASCADE", "DROP ROLE {}"):
        for name in names:
            conn.execute(sql.SQL(drop).format(sql.Identifier(name)))


def test_a_renamed_role_is_bound(roles: Roles) -> None:
    roles.make("acme")
    roles.bind("acme", ["acme"])
    session = roles.session("acme")
    roles.conn.execute("SELECT message_create('victim', 'secret')")
    roles.rename("acme", "other")
    for renamed in (session, roles.session("other")):
        assert renamed.execute("SELECT bound_channels()").fetchone() == (["acme"],)
        assert renamed.execute("SELECT content FROM messages").fetchall() == []
        with pytest.raises(psycopg.Error) as caught:
            renamed.execute("SELECT message_create('victim', '')")
        assert caught.value.sqlstate == "LM012"
    assert roles.listed() == {"other": ["acme"]}
    roles.bind("other", None)
    assert roles.bound("other") is None
    assert roles.listed() == {}


def test_a_new_role_with_the_old_name_of_a_renamed_one_is_not_bound(roles: Roles) -> None:
    roles.make("acme")
    roles.bind("acme", ["acme"])
    roles.rename("acme", "former")
    roles.make("acme")
    assert roles.bound("acme") is None
    roles.bind("acme", ["new"])
    assert roles.bound("acme") == ["new"]
    assert roles.bound("former") == ["acme"]
    roles.bind("acme", None)
    assert roles.listed() == {"former": ["acme"]}


def test_a_role_that_is_dropped_and_made_again_is_bound(roles: Roles) -> None:
    roles.make("acme")
    roles.bind("acme", ["acme"])
    roles.drop("acme")
    assert roles.listed() == {"acme": ["acme"]}
    roles.make("acme")
    assert roles.bound("acme") == ["acme"]
    roles.bind("acme", ["else"])
    assert roles.listed() == {"acme": ["else"]}


def test_the_binding_of_a_dropped_role_can_be_removed(roles: Roles) -> None:
    roles.make("acme")
    roles.bind("acme", ["acme"])
    roles.drop("acme")
    roles.bind("acme", None)
    assert roles.listed() == {}
    with pytest.raises(psycopg.Error, match="there is no role"):
        roles.bind("acme", None)


def test_a_dump_does_not_hold_the_number_of_a_dropped_role(roles: Roles) -> None:
    """Where the dump is restored, that number may belong to another role."""
    for name in ("acme", "shop"):
        roles.make(name)
        roles.bind(name, [name])
        roles.drop(name)
    roles.conn.execute("SELECT maintain()")
    written = roles.conn.execute("SELECT role::TEXT, channels FROM credential ORDER BY name").fetchall()
    assert written == [("-", ["acme"]), ("-", ["shop"])]
    roles.make("acme")
    assert roles.bound("acme") == ["acme"]
    roles.conn.execute("SELECT maintain()")
    assert roles.bound("acme") == ["acme"]
    assert roles.listed() == {"acme": ["acme"], "shop": ["shop"]}


def rename_drop_and_make(roles: Roles) -> None:
    roles.rename("acme", "other")
    roles.conn.execute("SELECT maintain()")
    roles.drop("other")
    roles.make("other")


def drop_make_and_rename(roles: Roles) -> None:
    roles.drop("acme")
    roles.make("acme")
    roles.conn.execute("SELECT maintain()")
    roles.rename("acme", "other")


@pytest.mark.parametrize("change", [rename_drop_and_make, drop_make_and_rename])
def test_bindings_follow_renames_and_drops_with_maintain_in_between(
    roles: Roles, change: Callable[[Roles], None]
) -> None:
    roles.make("acme")
    roles.bind("acme", ["acme"])
    change(roles)
    assert roles.bound("other") == ["acme"]
    assert roles.listed() == {"other": ["acme"]}


def test_maintain_does_not_wait_for_credential_bind(roles: Roles) -> None:
    roles.make("acme")
    roles.bind("acme", ["acme"])
    roles.rename("acme", "other")
    binder = roles.connect()
    with binder.transaction():
        binder.execute("SELECT credential_bind(%s, '{other}')", (roles.name("other"),))
        roles.conn.execute("SET lock_timeout TO '2s'")
        roles.conn.execute("SELECT maintain()")
    assert roles.bound("other") == ["other"]


def test_a_member_of_a_bound_role_is_bound_to_all_it_has(roles: Roles) -> None:
    for name in ("login", "group", "above"):
        roles.make(name)
    roles.run("GRANT {group} TO {login}", group="group", login="login")
    roles.run("GRANT {above} TO {group}", above="above", group="group")
    roles.bind("group", ["of the group"])
    assert roles.bound("login") == ["of the group"]
    roles.bind("above", ["of above"])
    assert roles.bound("login") == ["of above", "of the group"]
    roles.bind("login", ["its own"])
    assert roles.bound("login") == ["its own", "of above", "of the group"]
    assert roles.bound("above") == ["of above"]
    roles.bind("group", None)
    roles.bind("above", [])
    roles.bind("login", None)
    assert roles.bound("login") == []
    roles.run("REVOKE {above} FROM {group}", above="above", group="group")
    assert roles.bound("login") is None


@pytest.mark.parametrize("option", ["INHERIT", "SET"])
def test_one_way_to_use_a_bound_role_is_enough(roles: Roles, option: str) -> None:
    roles.make("login", "NOINHERIT")
    roles.make("group")
    roles.bind("group", ["mine"])
    if roles.conn.info.server_version >= 160000:
        options = f"INHERIT {option == 'INHERIT'}, SET {option == 'SET'}"
        roles.run(f"GRANT {{group}} TO {{login}} WITH {options}", group="group", login="login")
    else:
        roles.run("GRANT {group} TO {login}", group="group", login="login")
    assert roles.bound("login") == ["mine"]


def test_a_bound_role_behind_another_one(roles: Roles) -> None:
    """The login gets the rights of the role in between by SET ROLE, and that role inherits those of the
    group."""
    for name in ("login", "between", "group"):
        roles.make(name, "NOINHERIT" if name == "login" else "")
    roles.bind("group", ["mine"])
    has_options = roles.conn.info.server_version >= 160000
    for role, member, options in (
        ("group", "between", "INHERIT TRUE, SET FALSE"),
        ("between", "login", "INHERIT FALSE, SET TRUE"),
    ):
        suffix = f" WITH {options}" if has_options else ""
        roles.run(f"GRANT {{role}} TO {{member}}{suffix}", role=role, member=member)
    assert roles.bound("login") == ["mine"]


def test_a_login_that_only_administers_a_bound_role_is_not_bound(roles: Roles) -> None:
    """Before PostgreSQL 16 this does not exist: whoever administers a role may also SET ROLE to it."""
    has_options = roles.conn.info.server_version >= 160000
    roles.make("login")
    roles.make("group")
    roles.bind("group", ["mine"])
    options = "ADMIN TRUE, INHERIT FALSE, SET FALSE" if has_options else "ADMIN OPTION"
    roles.run(f"GRANT {{group}} TO {{login}} WITH {options}", group="group", login="login")
    assert roles.bound("login") == (None if has_options else ["mine"])


def test_a_superuser_is_bound_by_its_own_binding_alone(roles: Roles) -> None:
    roles.make("root", "SUPERUSER")
    roles.make("group")
    roles.run("GRANT {group} TO {root}", group="group", root="root")
    roles.bind("group", ["mine"])
    assert roles.bound("root") is None
    assert roles.conn.execute("SELECT bound_channels()").fetchone() == (None,)
    roles.bind("root", ["mine"])
    assert roles.bound("root") == ["mine"]


def test_the_owner_is_not_bound_by_the_roles_that_it_makes(roles: Roles) -> None:
    """Since PostgreSQL 16 the creator of a role is a member of it, and can inherit its rights."""
    roles.make("owner", "CREATEROLE")
    database = sql.Identifier(roles.conn.info.dbname)
    grant = sql.SQL("GRANT CREATE ON DATABASE {} TO {}")
    roles.conn.execute(grant.format(database, sql.Identifier(roles.name("owner"))))
    owner = roles.connect(user=roles.name("owner"), password=PASSWORD, options="")
    if owner.info.server_version >= 160000:
        owner.execute("SET createrole_self_grant TO 'set, inherit'")
    schema = f"{roles.prefix}_queue"
    install(owner, schema, roles=True)
    group, member = sql.Identifier(roles.name("tenants")), sql.Identifier(roles.name("member"))
    for statement in (
        sql.SQL("CREATE ROLE {group}"),
        sql.SQL("CREATE ROLE {member} LOGIN PASSWORD {password} IN ROLE {group}, {observer}"),
    ):
        observer = sql.Identifier(f"{schema}_observer")
        owner.execute(
            statement.format(group=group, member=member, password=sql.Literal(PASSWORD), observer=observer)
        )
    if owner.info.server_version < 160000:
        roles.run("GRANT {tenants} TO {owner}", tenants="tenants", owner="owner")
    owner.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
    owner.execute("SELECT credential_bind(%s, '{mine}')", (roles.name("tenants"),))
    assert owner.execute("SELECT bound_channels()").fetchone() == (None,)
    tenant = roles.connect(user=roles.name("member"), password=PASSWORD, options=f"-c search_path={schema}")
    assert tenant.execute("SELECT bound_channels()").fetchone() == (["mine"],)


def test_the_login_decides_and_not_the_role_whose_rights_it_uses(roles: Roles) -> None:
    roles.make("acme")
    roles.make("free")
    roles.bind("acme", ["mine"])
    roles.conn.execute("SELECT message_create('victim', 'secret')")
    roles.run("GRANT {free} TO {acme}", free="free", acme="acme")
    roles.conn.execute(
        "CREATE FUNCTION public.lent () RETURNS BIGINT LANGUAGE sql SECURITY DEFINER"
        " AS 'SELECT COUNT(*) FROM lonnymq.messages'"
    )
    roles.run("ALTER FUNCTION public.lent() OWNER TO {free}", free="free")
    session = roles.session("acme")
    count = "SELECT COUNT(*) FROM messages"
    assert session.execute(count).fetchone() == (0,)
    assert session.execute("SELECT public.lent()").fetchone() == (0,)
    session.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(roles.name("free"))))
    assert session.execute(count).fetchone() == (0,)
    session.execute("RESET ROLE")
    with session.transaction():
        session.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(roles.name("free"))))
        assert session.execute(count).fetchone() == (0,)
    other = roles.session("free")
    assert other.execute(count).fetchone() == (1,)
    assert other.execute("SELECT public.lent()").fetchone() == (1,)


def test_after_bindings_are_lost_everybody_but_the_owner_is_bound_to_nothing(roles: Roles) -> None:
    """As after a restore into a cluster without the roles: only the table of bindings was not loaded."""
    for name in ("acme", "worker"):
        roles.make(name)
    roles.bind("acme", ["mine"])
    roles.conn.execute("DELETE FROM credential")
    for name in ("acme", "worker"):
        assert roles.bound(name) == []
        session = roles.session(name)
        for call in ("message_create('mine', '')", "message_dequeue()", "channel_get('mine')", "dead_list()"):
            with pytest.raises(psycopg.Error, match="may not") as caught:
                session.execute(f"SELECT {call}")
            assert caught.value.sqlstate == "LM012"
            assert "bind all roles again" in str(caught.value.diag.message_hint)
    assert roles.conn.execute("SELECT bound_channels()").fetchone() == (None,)
    roles.bind("acme", ["mine"])
    assert roles.bound("acme") == ["mine"]
    assert roles.bound("worker") is None


BATCH = "00000000-0000-4000-8000-000000000000"
STAGE = "INSERT INTO staging (batch, ord, channel, content) VALUES (%s, 1, 'c', 'x')"
PUBLISH = "SELECT created, is_repeat FROM staging_publish_once('app', %s, %s)"


def test_what_was_staged_and_published_stays_with_a_renamed_role(roles: Roles) -> None:
    roles.make("acme")
    acme = roles.session("acme")
    acme.execute(STAGE, (BATCH,))
    assert acme.execute(PUBLISH, (1, [BATCH])).fetchone() == (1, False)
    acme.execute(STAGE, (BATCH,))
    roles.rename("acme", "former")
    roles.make("acme")
    other = roles.session("acme")
    assert other.execute("SELECT * FROM staging_publish(%s)", (BATCH,)).fetchone() == (0, 0, 0)
    assert other.execute("SELECT staging_discard(%s)", ([BATCH],)).fetchone() == (0,)
    former = roles.session("former")
    assert former.execute(PUBLISH, (1, [BATCH])).fetchone() == (1, True)
    former.execute(STAGE, (BATCH,))
    assert former.execute(PUBLISH, (2, [BATCH])).fetchone() == (1, False)


def test_a_binding_waits_for_an_upgrade(roles: Roles) -> None:
    """Both change login_is_free(): without waiting, PostgreSQL would fail the second one with XX000."""
    roles.make("acme")
    upgrading, binding = roles.connect(autocommit=False), roles.connect()
    upgrading.execute("SELECT")
    install(upgrading)

    def bind() -> None:
        binding.execute("SELECT credential_bind(%s, '{acme}')", (roles.name("acme"),))

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(bind)
        until_waiting(roles.conn, binding)
        upgrading.commit()
        running.result(timeout=20)
    assert roles.bound("acme") == ["acme"]


def test_an_upgrade_waits_for_a_binding(roles: Roles) -> None:
    roles.make("acme")
    upgrading, binding = roles.connect(), roles.connect(autocommit=False)
    binding.execute("SELECT credential_bind(%s, '{acme}')", (roles.name("acme"),))
    with pytest.raises(SchemaLocked, match=str(binding.info.backend_pid)):
        install(upgrading, wait=0)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(install, upgrading)
        until_waiting(roles.conn, upgrading)
        binding.commit()
        running.result(timeout=60)
    assert roles.bound("acme") == ["acme"]
