"""Which role may do what, read from the catalog and tried; and what a hostile session cannot do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lonnymq import errors
from lonnymq.install import SqlFiles, install, read, uninstall, upgrade
from lonnymq.install.files import Function, Step, View
from tests.database import AnyServer, Connect, create_database, drop_database, unique_name, until_waiting

Conn = psycopg.Connection[Any]

ROLES = ("producer", "consumer", "observer", "admin")

# Who may call what. Functions that are not listed can be called by their owner only.
FUNCTIONS = """
                        producer  consumer  observer  admin
to_epoch                x         x         x         x
queue_get               x         x         x         x

message_create          x         .         .         x
message_create_many     x         .         .         x
staging_publish         x         .         .         x
staging_publish_once    x         .         .         x
staging_discard         x         .         .         x
batch_open              x         .         .         x
batch_close             x         .         .         x
schedule_open           x         .         .         x
schedule_fire           x         .         .         x
status_get              x         .         x         x
result_load             x         x         x         x

dispatch               .         x         .         x
channels_dispatch       .         x         .         x
sleep_begin              .         x         .         x
sleep_look               .         x         .         x
message_dequeue         .         x         .         x
message_complete        .         x         .         x
message_complete_many   .         x         .         x
message_retry           .         x         .         x
message_retry_many      .         x         .         x
message_discard         .         x         .         x
message_discard_many    .         x         .         x
message_reject_many     .         x         .         x
message_extend          .         x         .         x
message_extend_many     .         x         .         x
message_leased_many     .         x         .         x
claim_open              .         x         .         x
claim_next              .         x         .         x
claim_begin             .         x         .         x
claim_waiting           .         x         .         x
claim_extend            .         x         .         x
claim_read              .         x         .         x
claim_complete          .         x         .         x
progress_write          .         x         .         x
result_save             .         x         .         x
maintain                .         x         .         x
worker_report           .         x         .         x
worker_leave            .         x         .         x

channel_get             .         .         x         x
channel_stats           .         .         x         x
channel_explain         .         .         x         x
channel_list            .         .         x         x
lane_list               .         .         x         x
message_get             .         .         x         x
message_list            .         .         x         x
message_place           .         .         x         x
dead_list               .         .         x         x
dead_groups             .         .         x         x
audit_list              .         .         x         x
queue_stats             .         .         x         x
bound_channels          .         .         x         x
login_is_free           .         .         x         x
channel_visible         .         .         x         x
message_visible         .         .         x         x
dead_visible            .         .         x         x
finished_visible        .         .         x         x
policy_visible          .         .         x         x
history_bounds          .         .         x         x
history_mark            .         .         x         x
policy_mark             .         .         x         x
history_summary         .         .         x         x
history_followers       .         .         x         x
schedule_list           .         .         x         x
schedule_get            .         .         x         x
worker_list             .         .         x         x
unknown_task_list       .         .         x         x
batch_get               .         .         x         x
batch_list              .         .         x         x

channel_set             .         .         .         x
channel_delete          .         .         .         x
queue_set               .         .         .         x
message_cancel          .         .         .         x
message_cancel_many     .         .         .         x
message_reschedule      .         .         .         x
dead_retry              .         .         .         x
dead_retry_all          .         .         .         x
dead_discard            .         .         .         x
dead_discard_all        .         .         .         x
batch_cancel            .         .         .         x
credential_bind         .         .         .         x
credential_list         .         .         .         x
history_follow          .         .         .         x
history_unfollow        .         .         .         x
schedule_run            .         .         .         x
schedule_pause          .         .         .         x
schedule_resume         .         .         .         x
schedule_delete         .         .         .         x
worker_request          .         .         .         x
audit_begin             .         .         .         x
audit_end               .         .         .         x
rebuild                 .         .         .         x
"""

# Rights on tables and views. Nobody has rights on anything else in the schema.
VIEWS_ARE_READ_BY = {"observer", "admin"}
STAGING_IS_APPENDED_TO_BY = {"producer", "admin"}
STAGING_TABLES = {"staging", "staging_chunk"}
STAGING_COLUMNS = {
    "batch",
    "ord",
    "channel",
    "content",
    "dequeue_at",
    "headers",
    "keep_result_ms",
    "max_attempts",
    "dedupe_key",
    "unique_while",
    "unique_for_ms",
    "priority",
    "cost",
    "lane",
    "batch_id",
}
SCHEMA_IS_USED_BY = set(ROLES)

# It reads nothing, and its body was bound to PostgreSQL's functions when it was created.
NEEDS_NO_RIGHTS = {"to_epoch"}


def _callers() -> dict[str, set[str]]:
    head, *lines = [line.split() for line in FUNCTIONS.splitlines() if line.strip()]
    return {
        name: {role for role, mark in zip(head, marks, strict=True) if mark == "x"} for name, *marks in lines
    }


CALLERS = _callers()

PASSWORD = "only for tests"  # noqa: S105

RELATIONS = """
    SELECT c.oid, c.relname, c.relkind::TEXT
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    ORDER BY c.relname"""

ROUTINES = """
    SELECT p.oid, p.proname
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = %s
    ORDER BY p.proname, p.oid"""


def one(conn: Conn, query: str, *params: object) -> Any:
    row = conn.execute(query.encode(), params).fetchone()
    assert row is not None
    return row[0]


def ident(*names: str) -> sql.Identifier:
    return sql.Identifier(*names)


@dataclass
class Queue:
    """A schema with roles, and sessions of logins that are members of one role each."""

    conn: Conn
    schema: str
    connect: Connect

    def login(self, role: str, name: str = "") -> Conn:
        login = self.make_login(role, name)
        return self.connect(user=login, password=PASSWORD, options="")

    def make_login(self, role: str, name: str = "") -> str:
        login = f"{self.schema}_{name or role}_1"
        if not one(self.conn, "SELECT count(*) FROM pg_roles WHERE rolname = %s", login):
            make = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
            self.conn.execute(make.format(ident(login), sql.Literal(PASSWORD)))
            member = sql.SQL("GRANT {} TO {}")
            self.conn.execute(member.format(ident(f"{self.schema}_{role}"), ident(login)))
        return login

    def call(self, conn: Conn, function: str, *params: object) -> list[tuple[Any, ...]]:
        """The rows of a call. Only the function's own name has to be looked up for it."""
        marks = sql.SQL(", ".join(f"${n + 1}" for n in range(len(params))))
        query = sql.SQL("SELECT * FROM {}({})").format(ident(self.schema, function), marks)
        return psycopg.RawCursor(conn).execute(query, params).fetchall()

    def roles(self) -> list[str]:
        query = "SELECT rolname FROM pg_roles WHERE rolname = ANY (%s) ORDER BY 1"
        names = [f"{self.schema}_{role}" for role in ROLES]
        return [row[0].removeprefix(f"{self.schema}_") for row in self.conn.execute(query, [names])]


@pytest.fixture
def bare(conn: Conn, connect: Connect) -> Iterator[Queue]:
    """A queue that is not installed yet."""
    yield from _queue(conn, connect, unique_name("q"))


@pytest.fixture
def queue(bare: Queue) -> Queue:
    install(bare.conn, bare.schema, roles=True)
    return bare


def _queue(conn: Conn, connect: Connect, schema: str) -> Iterator[Queue]:
    yield Queue(conn, schema, connect)
    conn.execute("RESET SESSION AUTHORIZATION")
    conn.execute("SET search_path TO DEFAULT")
    roles = conn.execute("SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s)", [schema]).fetchall()
    for (role,) in roles:
        conn.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(ident(role)))
    for (role,) in roles:
        conn.execute(sql.SQL("DROP ROLE {}").format(ident(role)))


# What the catalog says.


def holders(conn: Conn, schema: str, check: str, *params: object) -> set[str]:
    """The roles that have a right. `check` is called with a role's name first."""
    query = f"SELECT {check}(%s, {', '.join(['%s'] * len(params))})"
    names = {role: f"{schema}_{role}" for role in ROLES} | {"public": "public"}
    return {role for role, name in names.items() if one(conn, query, name, *params)}


def test_every_function_is_called_by_those_who_may_and_no_one_else(queue: Queue) -> None:
    conn = queue.conn
    found = conn.execute(ROUTINES, [queue.schema]).fetchall()
    assert {name for _, name in found} == {function.name for function in read().functions}
    actual = {
        (name, oid): holders(conn, queue.schema, "has_function_privilege", oid, "EXECUTE")
        for oid, name in found
    }
    assert actual == {(name, oid): CALLERS.get(name, set()) for oid, name in found}


def test_every_public_function_exists() -> None:
    assert set(CALLERS) <= {function.name for function in read().functions}


TABLE_RIGHTS = ["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"]
COLUMN_RIGHTS = ["SELECT", "INSERT", "UPDATE", "REFERENCES"]
SEQUENCE_RIGHTS = ["USAGE", "SELECT", "UPDATE"]


def test_no_one_has_rights_on_tables_views_and_sequences_but_to_read_views(queue: Queue) -> None:
    conn = queue.conn
    rights = [*TABLE_RIGHTS, *(["MAINTAIN"] if conn.info.server_version >= 170000 else [])]
    found = conn.execute(RELATIONS, [queue.schema]).fetchall()
    assert {"message", "installation", "migration", "turn"} <= {name for _, name, _ in found}
    for oid, name, kind in found:
        check, asked = ("sequence", SEQUENCE_RIGHTS) if kind == "S" else ("table", rights)
        actual = {right: holders(conn, queue.schema, f"has_{check}_privilege", oid, right) for right in asked}
        readers = VIEWS_ARE_READ_BY if kind == "v" else set()
        assert actual == {right: readers if right == "SELECT" else set() for right in asked}, name


def test_no_one_has_rights_on_columns_but_to_append_to_staging(queue: Queue) -> None:
    conn = queue.conn
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped"
    for oid, name, kind in conn.execute(RELATIONS, [queue.schema]).fetchall():
        if kind == "S":
            continue
        for (column,) in conn.execute(columns, [oid]).fetchall():
            actual = {
                right: holders(conn, queue.schema, "has_column_privilege", oid, column, right)
                for right in COLUMN_RIGHTS
            }
            expected: dict[str, set[str]] = {right: set() for right in COLUMN_RIGHTS}
            if kind == "v":
                expected["SELECT"] = VIEWS_ARE_READ_BY
            elif name in STAGING_TABLES and column in STAGING_COLUMNS:
                expected["INSERT"] = STAGING_IS_APPENDED_TO_BY
            assert actual == expected, (name, column)


def test_the_schema_is_used_by_its_roles_and_changed_by_none(queue: Queue) -> None:
    found = {
        right: holders(queue.conn, queue.schema, "has_schema_privilege", queue.schema, right)
        for right in ("USAGE", "CREATE")
    }
    assert found == {"USAGE": SCHEMA_IS_USED_BY, "CREATE": set()}


def test_rights_are_not_passed_on(queue: Queue) -> None:
    grantable = """
        SELECT count(*) FROM (
            SELECT relacl AS acl FROM pg_class UNION ALL SELECT proacl FROM pg_proc
            UNION ALL SELECT nspacl FROM pg_namespace UNION ALL SELECT attacl FROM pg_attribute
        ) rights, aclexplode(acl) a JOIN pg_roles r ON r.oid = a.grantee
        WHERE a.is_grantable AND starts_with(r.rolname, %s)"""
    assert one(queue.conn, grantable, queue.schema) == 0
    admins = "SELECT count(*) FROM pg_auth_members m, pg_roles r WHERE r.oid = m.member AND m.admin_option"
    assert one(queue.conn, f"{admins} AND starts_with(r.rolname, %s)", queue.schema) == 0


def test_the_roles_have_no_powers_of_their_own(queue: Queue) -> None:
    query = """
        SELECT count(*), bool_or(rolcanlogin OR rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication
            OR rolbypassrls)
        FROM pg_roles WHERE rolname = ANY (%s)"""
    names = [f"{queue.schema}_{role}" for role in ROLES]
    assert queue.conn.execute(query, [names]).fetchone() == (4, False)


def test_public_functions_run_as_their_owner_with_a_search_path_of_their_own(queue: Queue) -> None:
    """And so does every other function that runs as its owner."""
    conn = queue.conn
    conn.execute(sql.SQL("SET search_path TO {}, pg_temp").format(ident(queue.schema)))
    path = f"search_path={one(conn, 'SHOW search_path')}"
    query = """
        SELECT p.proname, p.prosecdef, COALESCE(p.proconfig, '{}'), p.proowner = current_user::REGROLE,
            p.prosqlbody IS NOT NULL
        FROM pg_proc p WHERE p.pronamespace = current_schema()::REGNAMESPACE"""
    for name, is_definer, settings, is_ours, is_bound in conn.execute(query.encode()).fetchall():
        assert is_ours, name
        if name in NEEDS_NO_RIGHTS:
            assert is_bound, name
        elif name in CALLERS or is_definer:
            assert is_definer, name
            assert [setting for setting in settings if setting.startswith("search_path=")] == [path], name


def test_views_hide_what_they_filter_from_the_functions_of_their_readers(queue: Queue) -> None:
    query = """
        SELECT c.relname, COALESCE(c.reloptions, '{}') FROM pg_class c
        WHERE c.relnamespace = quote_ident(%s)::REGNAMESPACE AND c.relkind = 'v'"""
    found = dict(queue.conn.execute(query, [queue.schema]).fetchall())
    assert set(found) == {view.name for view in read().views}
    for name, options in found.items():
        assert {"security_barrier=true", "security_barrier=on"} & set(options), name
        assert not any(option.startswith("security_invoker") for option in options), name


# The same, tried.


SIGNATURES = """
    SELECT p.proname, ARRAY(
        SELECT CASE WHEN p.provariadic <> 0 AND a.n = p.pronargs THEN 'VARIADIC ' ELSE '' END
            || 'NULL::' || format_type(a.type, NULL)
        FROM unnest(p.proargtypes) WITH ORDINALITY a (type, n)
        WHERE a.n <= p.pronargs - p.pronargdefaults ORDER BY a.n
    ) FROM pg_proc p
    WHERE p.pronamespace = quote_ident(%s)::REGNAMESPACE AND p.prorettype <> 'trigger'::REGTYPE
    ORDER BY p.proname"""


def call_each(queue: Queue, member: Conn) -> tuple[set[str], set[str]]:
    """Call each function, with NULL for required arguments; say which ran and which were refused.

    A function that runs may complain about its arguments, and nothing else.
    """
    refused, called = set(), set()
    for name, arguments in queue.conn.execute(SIGNATURES, [queue.schema]).fetchall():
        nulls = sql.SQL(", ".join(arguments))
        try:
            member.execute(sql.SQL("SELECT * FROM {}({})").format(ident(queue.schema, name), nulls))
            called.add(name)
        except psycopg.errors.InsufficientPrivilege as error:
            assert error.diag.message_primary == f"permission denied for function {name}"  # noqa: PT017
            refused.add(name)
        except psycopg.Error as error:
            assert (error.sqlstate or "").startswith("LM0"), (name, error)  # noqa: PT017
            called.add(name)
    return called, refused


@pytest.mark.parametrize("role", ROLES)
def test_calls_work_or_are_refused(queue: Queue, role: str) -> None:
    called, refused = call_each(queue, queue.login(role))
    names = {name for _, name in queue.conn.execute(ROUTINES, [queue.schema])}
    allowed = {name for name, roles in CALLERS.items() if role in roles}
    assert (called, refused) == (names & allowed, names - allowed)


def table_statements(relation: sql.Identifier, column: sql.Identifier) -> Iterator[sql.Composed]:
    for template in (
        "SELECT * FROM {0}",
        "SELECT count(*) FROM {0}",
        "SELECT {1} FROM {0}",
        "INSERT INTO {0} DEFAULT VALUES",
        "UPDATE {0} SET {1} = DEFAULT",
        "DELETE FROM {0}",
        "TRUNCATE {0}",
        "LOCK TABLE {0} IN ACCESS SHARE MODE",
        "COPY {0} TO STDOUT",
        "COPY {0} FROM STDIN",
        "ALTER TABLE {0} DISABLE TRIGGER ALL",
        "CREATE TABLE pg_temp.copied (LIKE {0})",
        "DROP TABLE {0}",
    ):
        yield sql.SQL(template).format(relation, column)


@pytest.mark.parametrize("role", ROLES)
def test_tables_and_sequences_are_out_of_reach(queue: Queue, role: str) -> None:
    member = queue.login(role)
    first = "SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnum = 1"
    for oid, name, kind in queue.conn.execute(RELATIONS, [queue.schema]).fetchall():
        relation = ident(queue.schema, name)
        if kind in "rp":
            statements = list(table_statements(relation, ident(one(queue.conn, first, oid))))
            if name in STAGING_TABLES:
                statements = [statement for statement in statements if "INSERT" not in statement.as_string()]
        elif kind == "S":
            uses = ("nextval({0})", "setval({0}, 1)", "currval({0})", "last_value FROM {1}")
            texts = [sql.SQL("SELECT " + use) for use in uses]
            statements = [text.format(sql.Literal(relation.as_string(member)), relation) for text in texts]
        else:
            continue
        for statement in statements:
            with pytest.raises(psycopg.errors.InsufficientPrivilege), member.transaction():
                member.execute(statement)


def test_observers_read_every_view(queue: Queue) -> None:
    """A view's tables are read as its owner; its functions are called as its reader."""
    queue.call(queue.conn, "message_create", "acme", b"seen")
    for role in ROLES:
        member = queue.login(role)
        for view in read().views:
            query = sql.SQL("SELECT * FROM {}").format(ident(queue.schema, view.name))
            if role in VIEWS_ARE_READ_BY:
                member.execute(query)
            else:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    member.execute(query)


STAGED = "INSERT INTO {} (batch, ord, channel, content) VALUES (gen_random_uuid(), 1, 'acme', 'x')"
STAGED_CHUNK = STAGED.replace("'acme', 'x'", "'{{acme}}', '{{x}}'")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("table", "row"), [("staging", STAGED), ("staging_chunk", STAGED_CHUNK)])
def test_staging_is_appended_to_and_not_read(queue: Queue, role: str, table: str, row: str) -> None:
    member = queue.login(role)
    staging = ident(queue.schema, table)
    columns = sql.SQL(", ").join(ident(name) for name in sorted(STAGING_COLUMNS))
    copy = sql.SQL("COPY {} ({}) FROM STDIN").format(staging, columns)
    if role in STAGING_IS_APPENDED_TO_BY:
        member.execute(sql.SQL(row).format(staging))
        with member.cursor().copy(copy):
            pass
    else:
        for statement in (sql.SQL(row).format(staging), copy):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                member.execute(statement)
    for refused in (
        row + " RETURNING ord",
        row + " ON CONFLICT DO NOTHING RETURNING batch",
        "INSERT INTO {} (staged_by) VALUES ('pg_monitor')",
        "INSERT INTO {} (staged_at) VALUES (1)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            member.execute(sql.SQL(refused).format(staging))


# Typical use of a queue, with one session per role.

CHANNELS = [
    "acme",
    "'; DROP TABLE message; --",
    '"',
    "''",
    "$$",
    "$lonnymq$",
    "%s",
    "%I%L%%",
    'a"b',
    "line\nbreak\r\ttab",
    "\U0001f600 ünï",
    "back\\slash \\' \\x41",
    "{a,NULL}",
    "NULL",
    " ",
    "x" * 255,
]


def live(queue: Queue, sessions: dict[str, Conn], channels: Sequence[str]) -> None:
    """Every kind of call once, with known results."""
    producer, consumer, admin = (sessions[role] for role in ("producer", "consumer", "admin"))
    for channel in channels:
        set_to = queue.call(admin, "channel_set", channel, len(channels) + 7)
        assert set_to[0][:2] == (channel, len(channels) + 7)
        assert queue.call(sessions["observer"], "channel_get", channel)[0][:2] == set_to[0][:2]
    made = [queue.call(producer, "message_create", channel, channel.encode(), -2)[0] for channel in channels]
    assert [result for _, result in made] == ["created"] * len(channels)
    contents = [channel.encode() + b" 2" for channel in channels]
    more = queue.call(producer, "message_create_many", list(channels), contents, [-1] * len(channels))
    assert [result for _, result in more] == ["created"] * len(channels)
    first = _dequeue(queue, consumer, len(channels))
    assert {row[1]: bytes(row[2]) for row in first} == {channel: channel.encode() for channel in channels}
    assert {row[0] for row in first} == {id_ for id_, _ in made}
    for id_, token in ((row[0], row[6]) for row in first):
        assert queue.call(consumer, "message_extend", id_, token, 60000)[0][0] == "extended"
        assert queue.call(consumer, "message_retry", id_, token, -2, b"state", "'; --") == [("retried",)]
    again = _dequeue(queue, consumer, 2 * len(channels))
    assert {bytes(row[4] or b"") for row in again} == {b"state", b""}
    assert {row[0] for row in again} == {id_ for id_, _ in [*made, *more]}
    _observe(queue, sessions["observer"], again, channels)
    id_, token = again[0][0], again[0][6]
    assert queue.call(consumer, "message_complete", id_, token) == [("completed",)]
    rest = [row[0] for row in again[1:]], [row[6] for row in again[1:]]
    done = queue.call(consumer, "message_complete_many", *rest)
    assert done == [(id_, "completed") for id_ in rest[0]]
    queue.call(consumer, "maintain")
    assert (
        queue.conn.execute(sql.SQL("SELECT * FROM {}").format(ident(queue.schema, "message"))).fetchall()
        == []
    )


def _observe(queue: Queue, observer: Conn, leased: list[tuple[Any, ...]], channels: Sequence[str]) -> None:
    for channel in channels:
        listed = queue.call(observer, "message_list", channel, "leased")
        assert {row[0] for row in listed} == {row[0] for row in leased if row[1] == channel}
    assert {row[0] for row in queue.call(observer, "channel_list")} == set(channels)
    seen = observer.execute(sql.SQL("SELECT id, channel FROM {}").format(ident(queue.schema, "leases")))
    assert set(seen.fetchall()) == {(row[0], row[1]) for row in leased}


def _dequeue(queue: Queue, consumer: Conn, count: int) -> list[tuple[Any, ...]]:
    while queue.call(consumer, "dispatch") != [(False,)]:
        pass
    rows = queue.call(consumer, "message_dequeue", count)
    assert len(rows) == count
    assert all(row[0] is not None for row in rows)
    return rows


def sessions_of(queue: Queue) -> dict[str, Conn]:
    return {role: queue.login(role) for role in ROLES}


def test_each_role_does_its_part(queue: Queue) -> None:
    live(queue, sessions_of(queue), ["acme", "bluebird"])


def test_hostile_channel_names(queue: Queue) -> None:
    live(queue, sessions_of(queue), CHANNELS)


@pytest.mark.parametrize(
    "name",
    [
        """we"ird $s; --o'q\\ $lonnymq$ %I %s ü\U0001f600""",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ('we"ird $schema; --', "o'quote\\", "$lonnymq$", "%I %s", "ünï \U0001f600")
        ),
    ],
)
def test_hostile_schema_names(conn: Conn, connect: Connect, name: str) -> None:
    for queue in _queue(conn, connect, unique_name(name)):
        install(conn, queue.schema, roles=True)
        assert queue.roles() == sorted(ROLES)
        live(queue, sessions_of(queue), ["acme"])
        upgrade(conn, queue.schema)
        live(queue, sessions_of(queue), ["acme"])
        uninstall(conn, queue.schema)
        assert queue.roles() == []
        assert one(conn, "SELECT count(*) FROM pg_namespace WHERE nspname = %s", queue.schema) == 0


SETTINGS = [
    ("search_path", ""),
    ("row_security", "off"),
    ("quote_all_identifiers", "on"),
    ("check_function_bodies", "off"),
    ("synchronous_commit", "off"),
    ("array_nulls", "off"),
    ("transform_null_equals", "on"),
    ("bytea_output", "escape"),
    ("DateStyle", "German"),
    ("TimeZone", "Pacific/Apia"),
    ("plan_cache_mode", "force_custom_plan"),
    ("enable_indexscan", "off"),
    ("default_transaction_deferrable", "on"),
]


ODD_SETTINGS = [
    ("search_path", "pg_temp, public, pg_catalog"),
    ("standard_conforming_strings", "off"),
]


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS,
        ODD_SETTINGS,
        *(pytest.param([each], marks=pytest.mark.long) for each in (*SETTINGS, *ODD_SETTINGS)),
    ],
    ids=lambda settings: " ".join(name for name, _ in settings)[:30],
)
def test_settings_of_a_session_change_no_result(queue: Queue, settings: list[tuple[str, str]]) -> None:
    sessions = sessions_of(queue)
    for session in sessions.values():
        for name, value in settings:
            session.execute("SELECT set_config(%s, %s, FALSE)", [name, value])
    live(queue, sessions, ["acme", "back\\slash'"])


def test_isolation_levels_are_taken_or_refused_whoever_sets_them(queue: Queue) -> None:
    producer, consumer = queue.login("producer"), queue.login("consumer")
    for session in (producer, consumer):
        session.execute("SET default_transaction_isolation TO 'serializable'")
    assert queue.call(producer, "message_create", "acme", b"x")[0][1] == "created"
    for function in ("dispatch", "message_dequeue", "maintain"):
        with pytest.raises(psycopg.Error) as caught:
            queue.call(consumer, function)
        assert caught.value.sqlstate == "LM009"
    consumer.execute("SET default_transaction_isolation TO 'read committed'")
    assert [row[1] for row in _dequeue(queue, consumer, 1)] == ["acme"]


@pytest.mark.parametrize("role", ROLES)
def test_triggers_cannot_be_switched_off(queue: Queue, role: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        queue.login(role).execute("SET session_replication_role TO 'replica'")


# Sessions with objects that shadow those of the queue.

RAISES = "LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'evil ran as %', current_user; END $$"

BUILT_IN = [
    "clock_timestamp()",
    "now()",
    "gen_random_uuid()",
    "pg_current_snapshot()",
    "pg_current_xact_id()",
    "pg_postmaster_start_time()",
    "octet_length(TEXT)",
    "octet_length(BYTEA)",
    "format(TEXT, VARIADIC TEXT[])",
    "cardinality(ANYARRAY)",
    "unnest(ANYARRAY)",
    "array_length(ANYARRAY, INT)",
    "current_setting(TEXT)",
    "set_config(TEXT, TEXT, BOOLEAN)",
    "pg_notify(TEXT, TEXT)",
    "nextval(REGCLASS)",
    "quote_ident(TEXT)",
    "starts_with(TEXT, TEXT)",
]

OPERATORS = {
    "TEXT": ["=", "<>", "<", "<=", ">", ">=", "||"],
    "BIGINT": ["=", "<>", "<", "<=", ">", ">=", "+", "-"],
    "INT": ["=", "<>", "<", "<=", ">", ">=", "+", "-"],
    "BOOLEAN": ["=", "<>"],
    "UUID": ["=", "<>"],
    "XID8": ["=", "<>", "<", ">="],
    "TEXT[]": ["=", "@>", "||"],
    "BIGINT[]": ["=", "||"],
}


def make_evil(queue: Queue, attacker: Conn, evil: str) -> None:
    """A schema with the queue's tables and functions and PostgreSQL's functions and operators, all of
    which raise, and temporary tables of the same names. The attacker creates them, with rights on that
    schema alone."""
    login = attacker.info.user
    queue.conn.execute(sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(ident(evil), ident(login)))
    make = attacker.execute
    make(sql.SQL("SET search_path TO {}, pg_catalog").format(ident(evil)))
    signatures = """
        SELECT p.proname, ARRAY(
            SELECT format_type(a.type, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY a (type, n) ORDER BY n
        ) FROM pg_proc p WHERE p.pronamespace = quote_ident(%s)::REGNAMESPACE"""
    for name, types in queue.conn.execute(signatures, [queue.schema]).fetchall():
        if any(queue.schema in type_name for type_name in types):
            continue  # only the owner may use the queue's own types
        arguments = sql.SQL(", ").join(sql.SQL(type_name) for type_name in types)
        function = sql.SQL("CREATE FUNCTION {}({}) RETURNS BIGINT " + RAISES)
        make(function.format(ident(evil, name), arguments))
    for built_in in BUILT_IN:
        make(f"CREATE FUNCTION {built_in} RETURNS BIGINT {RAISES}".encode())
    for type_name, names in OPERATORS.items():
        helper = "op_" + re.sub(r"\W", "_", type_name)
        make(f"CREATE FUNCTION {helper}({type_name}, {type_name}) RETURNS BOOLEAN {RAISES}".encode())
        for name in names:
            sides = f"LEFTARG = {type_name}, RIGHTARG = {type_name}"
            make(f"CREATE OPERATOR {name} (FUNCTION = {helper}, {sides})".encode())
    make("CREATE FUNCTION changed() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil ran'; END $$")
    for _, name, kind in queue.conn.execute(RELATIONS, [queue.schema]).fetchall():
        for place, what in ((ident(evil, name), sql.SQL("")), (ident(name), sql.SQL("TEMP"))):
            if kind == "S":
                make(sql.SQL("CREATE {} SEQUENCE {} START 666").format(what, place))
            else:
                make(sql.SQL("CREATE {} TABLE {} (evil INT)").format(what, place))
                trigger = "CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON {} EXECUTE FUNCTION {}()"
                make(sql.SQL(trigger).format(place, ident(evil, "changed")))
    temporary = one(
        attacker, "SELECT nspname FROM pg_namespace WHERE oid OPERATOR(pg_catalog.=) pg_my_temp_schema()"
    )
    path = sql.SQL("SET search_path TO {}, {}, pg_catalog, {}")
    make(path.format(ident(temporary), ident(evil), ident(queue.schema)))


def test_objects_that_shadow_the_queues_are_not_used(queue: Queue) -> None:
    sessions = sessions_of(queue)
    for role in ROLES:
        make_evil(queue, sessions[role], f"evil {role}")
        with pytest.raises(psycopg.errors.RaiseException, match="evil ran as"):
            sessions[role].execute("SELECT now()")
        with pytest.raises(psycopg.errors.RaiseException, match="evil ran as"):
            sessions[role].execute("SELECT 'a'::TEXT <> 'b'::TEXT")
        with pytest.raises(psycopg.errors.UndefinedColumn):
            sessions[role].execute("SELECT id FROM message")
    live(queue, sessions, ["acme", "bluebird"])
    for role in ROLES:
        called, _ = call_each(queue, sessions[role])
        assert called == {name for name, roles in CALLERS.items() if role in roles}


def test_errors_are_right_although_objects_are_shadowed(queue: Queue) -> None:
    producer, consumer = queue.login("producer"), queue.login("consumer")
    make_evil(queue, producer, "evil p")
    make_evil(queue, consumer, "evil c")
    calls: list[tuple[Conn, str, tuple[object, ...], str]] = [
        (producer, "message_create", ("", b"x"), "LM001"),
        (producer, "message_create", ("a", None), "LM002"),
        (producer, "message_create_many", (["a"], [b"x", b"y"]), "LM006"),
        (consumer, "message_dequeue", (0,), "LM005"),
        (consumer, "message_dequeue", (1, 0), "LM004"),
    ]
    for session, function, params, sqlstate in calls:
        with pytest.raises(psycopg.Error) as caught:
            queue.call(session, function, *params)
        assert caught.value.sqlstate == sqlstate


def test_casts_of_a_caller_run_as_the_caller(queue: Queue) -> None:
    """Arguments are cast before the call, so the caller's code never gets the rights of the owner."""
    producer = queue.login("producer")
    login = producer.info.user
    queue.conn.execute(sql.SQL("CREATE SCHEMA evil AUTHORIZATION {}").format(ident(login)))
    producer.execute("CREATE TYPE evil.name AS (n INT)")
    producer.execute(
        "CREATE FUNCTION evil.as_text(evil.name) RETURNS TEXT VOLATILE"
        " LANGUAGE sql AS 'SELECT current_user::TEXT'"
    )
    producer.execute("CREATE CAST (evil.name AS TEXT) WITH FUNCTION evil.as_text(evil.name) AS IMPLICIT")
    create = sql.SQL("SELECT * FROM {}(ROW(1)::evil.name, 'x')").format(ident(queue.schema, "message_create"))
    producer.execute(create)
    stored = sql.SQL("SELECT channel FROM {}").format(ident(queue.schema, "message"))
    assert queue.conn.execute(stored).fetchall() == [(login,)]


def populate(queue: Queue, channels: Sequence[str]) -> None:
    """A dead, a finished, a leased and a waiting message per channel, and a policy."""
    conn, schema = queue.conn, ident(queue.schema)
    conn.execute(sql.SQL("SELECT * FROM {}.queue_set(p_history => TRUE)").format(schema))
    for channel in channels:
        for _ in range(3):
            queue.call(conn, "message_create", channel, b"x", -1, None, 1)
    _dequeue(queue, conn, 2 * len(channels))
    leased = sql.SQL(
        "SELECT array_agg(m.id), array_agg(l.token) FROM {0}.lease l CROSS JOIN unnest(l.stubs) s"
        " JOIN {0}.message m ON m.id = s.id AND m.generation = s.generation GROUP BY m.channel"
    )
    for ids, tokens in conn.execute(leased.format(schema)).fetchall():
        assert queue.call(conn, "message_retry", ids[0], tokens[0], None, None, "broken") == [("dead",)]
        assert queue.call(conn, "message_complete", ids[1], tokens[1]) == [("completed",)]
    _dequeue(queue, conn, len(channels))
    for channel in channels:
        queue.call(conn, "message_create", channel, b"x", -1)
        queue.call(conn, "channel_set", channel)


def test_a_bound_reader_cannot_look_behind_a_view(queue: Queue) -> None:
    """A cheap function in a condition would see what the view hides if it were called before the filter."""
    populate(queue, ["mine", "theirs"])
    observer = queue.login("observer")
    login = observer.info.user
    queue.conn.execute(sql.SQL("CREATE SCHEMA evil AUTHORIZATION {}").format(ident(login)))
    observer.execute(
        "CREATE FUNCTION evil.peek(TEXT) RETURNS BOOLEAN COST 0.0001 LANGUAGE plpgsql"
        " AS $$ BEGIN IF $1 = 'theirs' THEN RAISE EXCEPTION 'seen'; END IF; RETURN TRUE; END $$"
    )
    names = [view.name for view in read().views]
    peeks = [
        sql.SQL("SELECT channel FROM {} WHERE evil.peek(channel)").format(ident(queue.schema, name))
        for name in names
    ]
    for peek in peeks:
        with pytest.raises(psycopg.errors.RaiseException, match="seen"):
            observer.execute(peek)
    queue.call(queue.conn, "credential_bind", login, ["mine"])
    for peek in peeks:
        assert set(observer.execute(peek).fetchall()) == {("mine",)}


# How roles are created, changed and dropped.

THING = Step(1, "thing", "CREATE TABLE thing (id BIGINT); CREATE SEQUENCE turn;")


def function(name: str, arguments: str = "") -> Function:
    body = "LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$ BEGIN RETURN 1; END $$"
    return Function(name, f"CREATE OR REPLACE FUNCTION {name}({arguments}) RETURNS INT {body}")


SEEN = View("seen", "CREATE OR REPLACE VIEW seen WITH (security_barrier) AS SELECT id FROM thing")
SMALL = SqlFiles((THING,), (function("maintain"), function("rebuild"), function("inner")), (SEEN,))
SMALLER = SqlFiles((THING,), (function("rebuild"), function("inner")))


def rights(queue: Queue) -> dict[str, set[str]]:
    """Who may call or read what, in a schema of SMALL."""
    conn, schema = queue.conn, queue.schema
    names = conn.execute(ROUTINES, [schema]).fetchall()
    found = {name: holders(conn, schema, "has_function_privilege", oid, "EXECUTE") for oid, name in names}
    for oid, name, kind in conn.execute(RELATIONS, [schema]).fetchall():
        if kind != "S":
            found[name] = holders(conn, schema, "has_any_column_privilege", oid, "SELECT")
    return found


TABLES_WITHOUT_RIGHTS: dict[str, set[str]] = {"installation": set(), "migration": set(), "thing": set()}
SMALL_RIGHTS = TABLES_WITHOUT_RIGHTS | {
    "maintain": {"consumer", "admin"},
    "rebuild": {"admin"},
    "inner": set(),
    "seen": {"observer", "admin"},
}


def test_without_the_flag_there_are_no_roles(bare: Queue) -> None:
    install(bare.conn, bare.schema, SMALL)
    assert bare.roles() == []
    upgrade(bare.conn, bare.schema, SMALL)
    assert bare.roles() == []
    install(bare.conn, bare.schema, SMALL, roles=True)
    assert bare.roles() == sorted(ROLES)
    assert rights(bare) == SMALL_RIGHTS


@pytest.mark.parametrize("run", [install, upgrade])
def test_every_later_installation_grants_anew_and_takes_the_rest(
    bare: Queue, run: Callable[[Conn, str, SqlFiles], object]
) -> None:
    install(bare.conn, bare.schema, SMALL, roles=True)
    bare.conn.execute(sql.SQL("SET search_path TO {}").format(ident(bare.schema)))
    producer, observer = ident(f"{bare.schema}_producer"), ident(f"{bare.schema}_observer")
    for statement in (
        "GRANT SELECT (id) ON thing TO {0}",
        "GRANT ALL ON thing, seen, installation TO {0}",
        "GRANT ALL ON SEQUENCE turn TO {0}",
        "GRANT ALL ON FUNCTION inner(), rebuild() TO {0}, PUBLIC",
        "REVOKE ALL ON seen FROM {1}",
    ):
        bare.conn.execute(sql.SQL(statement).format(producer, observer))
    assert rights(bare) != SMALL_RIGHTS
    run(bare.conn, bare.schema, SMALL)
    assert rights(bare) == SMALL_RIGHTS
    turn = f'"{bare.schema}".turn'
    assert holders(bare.conn, bare.schema, "has_sequence_privilege", turn, "USAGE") == set()


def test_what_a_later_release_no_longer_has_is_taken_back(bare: Queue) -> None:
    install(bare.conn, bare.schema, SMALL, roles=True)
    upgrade(bare.conn, bare.schema, SMALLER)
    assert rights(bare) == SMALL_RIGHTS | {"maintain": set(), "seen": set()}
    wider = (*SMALLER.functions, function("maintain", "p_limit INT"))
    upgrade(bare.conn, bare.schema, SqlFiles((THING,), wider))
    overloads = bare.conn.execute(ROUTINES, [bare.schema]).fetchall()
    for oid in [oid for oid, name in overloads if name == "maintain"]:
        assert holders(bare.conn, bare.schema, "has_function_privilege", oid, "EXECUTE") == {
            "consumer",
            "admin",
        }


@pytest.mark.parametrize("power", ["LOGIN", "SUPERUSER"])
def test_a_role_that_is_someones_own_is_refused(bare: Queue, power: str) -> None:
    taken = f"{bare.schema}_observer"
    bare.conn.execute(sql.SQL(f"CREATE ROLE {{}} {power}").format(ident(taken)))
    with pytest.raises(errors.RoleUnsuitable, match=f"{taken}.*another schema"):
        install(bare.conn, bare.schema, SMALL, roles=True)
    assert bare.roles() == ["observer"]
    bare.conn.execute(sql.SQL("ALTER ROLE {} NOLOGIN NOSUPERUSER").format(ident(taken)))
    install(bare.conn, bare.schema, SMALL, roles=True)
    assert rights(bare) == SMALL_RIGHTS


def become(queue: Queue, attributes: str) -> None:
    """Continue as a role with these attributes that may create schemas."""
    name = f"{queue.schema} installer"
    queue.conn.execute(sql.SQL(f"CREATE ROLE {{}} NOSUPERUSER {attributes}").format(ident(name)))
    database = ident(queue.conn.info.dbname)
    queue.conn.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, ident(name)))
    queue.conn.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(ident(name)))


def test_a_role_with_createrole_installs_upgrades_and_removes(bare: Queue) -> None:
    become(bare, "CREATEROLE")
    install(bare.conn, bare.schema, SMALL, roles=True)
    assert rights(bare) == SMALL_RIGHTS
    upgrade(bare.conn, bare.schema, SMALL)
    assert rights(bare) == SMALL_RIGHTS
    uninstall(bare.conn, bare.schema)
    assert bare.roles() == []


def test_a_role_without_createrole_is_told_what_an_administrator_should_run(bare: Queue) -> None:
    become(bare, "NOCREATEROLE")
    with pytest.raises(errors.RoleUnsuitable) as caught:
        install(bare.conn, bare.schema, SMALL, roles=True)
    assert caught.value.hint is not None
    statements = caught.value.hint.removeprefix("have an administrator run: ")
    assert statements.startswith(f"CREATE ROLE {bare.schema}_producer NOLOGIN; ")
    bare.conn.execute("RESET SESSION AUTHORIZATION")
    bare.conn.execute(statements.encode())
    bare.conn.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(ident(f"{bare.schema} installer")))
    install(bare.conn, bare.schema, SMALL, roles=True)
    assert rights(bare) == SMALL_RIGHTS
    upgrade(bare.conn, bare.schema, SMALL)
    uninstall(bare.conn, bare.schema)
    assert bare.roles() == sorted(ROLES)


def test_a_role_that_does_not_own_the_schema_is_told_what_its_owner_should_run(bare: Queue) -> None:
    schema, installer = ident(bare.schema), ident(f"{bare.schema} installer")
    bare.conn.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
    become(bare, "CREATEROLE")
    bare.conn.execute("RESET SESSION AUTHORIZATION")
    bare.conn.execute(sql.SQL("GRANT USAGE, CREATE ON SCHEMA {} TO {}").format(schema, installer))
    bare.conn.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(installer))
    with pytest.raises(errors.RoleUnsuitable, match="have its owner run: GRANT USAGE ON SCHEMA"):
        install(bare.conn, bare.schema, SMALL, roles=True)


def test_uninstall_leaves_roles_that_are_used_in_another_database(bare: Queue, server: AnyServer) -> None:
    install(bare.conn, bare.schema, SMALL, roles=True)
    name = unique_name("lonnymq_other")
    create_database(server, name)
    try:
        with psycopg.connect(server.dsn(name), autocommit=True) as other:
            install(other, bare.schema, SMALL, roles=True)
            uninstall(bare.conn, bare.schema)
            assert bare.roles() == sorted(ROLES)
            assert rights(Queue(other, bare.schema, bare.connect)) == SMALL_RIGHTS
            uninstall(other, bare.schema)
            assert bare.roles() == []
    finally:
        drop_database(server, name)


def test_installations_in_two_databases_make_the_roles_at_once(bare: Queue, server: AnyServer) -> None:
    name = unique_name("lonnymq_other")
    create_database(server, name)
    try:
        with psycopg.connect(server.dsn(name), autocommit=True) as other, ThreadPoolExecutor() as pool:
            with bare.conn.transaction():
                install(bare.conn, bare.schema, SMALL, roles=True)
                second = pool.submit(install, other, bare.schema, SMALL, roles=True)
                until_waiting(bare.connect(), other)
            second.result(60)
            for conn in (bare.conn, other):
                assert rights(Queue(conn, bare.schema, bare.connect)) == SMALL_RIGHTS
    finally:
        drop_database(server, name)


def test_uninstall_leaves_roles_that_own_or_may_something_else(bare: Queue) -> None:
    bare.conn.execute("CREATE TABLE public.mine (id INT)")
    install(bare.conn, bare.schema, SMALL, roles=True)
    bare.conn.execute(sql.SQL("GRANT SELECT ON public.mine TO {}").format(ident(f"{bare.schema}_observer")))
    uninstall(bare.conn, bare.schema)
    assert bare.roles() == ["observer"]


def test_uninstall_takes_the_rights_on_a_schema_that_stays(bare: Queue) -> None:
    bare.conn.execute(sql.SQL("CREATE SCHEMA {}").format(ident(bare.schema)))
    install(bare.conn, bare.schema, SMALL, roles=True)
    uninstall(bare.conn, bare.schema)
    assert bare.roles() == []
    assert one(bare.conn, "SELECT nspacl::TEXT[] FROM pg_namespace WHERE nspname = %s", bare.schema) in (
        None,
        [f"{bare.conn.info.user}=UC/{bare.conn.info.user}"],
    )


def test_an_installation_without_roles_removes_none(bare: Queue) -> None:
    bare.conn.execute(sql.SQL("CREATE ROLE {}").format(ident(f"{bare.schema}_admin")))
    install(bare.conn, bare.schema, SMALL)
    uninstall(bare.conn, bare.schema)
    assert bare.roles() == ["admin"]


def test_a_failed_installation_leaves_no_roles(bare: Queue) -> None:
    with bare.conn.transaction(force_rollback=True):
        install(bare.conn, bare.schema, SMALL, roles=True)
        assert bare.roles() == sorted(ROLES)
    assert bare.roles() == []
