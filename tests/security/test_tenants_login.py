"""What a login that is bound to channels cannot learn, take or hold up, whatever SQL it runs.

tests/sql/test_credentials.py calls every function with such a login, and tests/sql/test_roles.py tries what a
hostile session could do to the queue's functions.
"""

from __future__ import annotations

import json
import re
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lonnymq.install import read, upgrade
from tests.invariants import check, dispatch
from tests.security.conftest import Attacked, Conn

VICTIM = "victim"
SECRET = "victims secret"  # noqa: S105
DAY = 86_400_000
VIEWS = sorted(view.name for view in read().views)


def fill(conn: Conn, channel: str, count: int) -> None:
    """Dead, finished and waiting messages in a lane of the same name, and a policy."""
    conn.execute("SELECT queue_set(p_history => TRUE), channel_set(%s, p_weight => 2)", (channel,))
    create = (
        "SELECT COUNT(*) FROM message_create_many(array_fill(%s::TEXT, ARRAY[%s::INT]),"
        " array_fill(%s::BYTEA, ARRAY[%s::INT]), p_max_attempts => array_fill(1, ARRAY[%s::INT]),"
        " p_dedupe_keys => ARRAY(SELECT 'key ' || i FROM generate_series(1, %s::INT) i),"
        " p_lanes => array_fill(%s::TEXT, ARRAY[%s::INT]))"
    )
    given = (channel, count, SECRET.encode(), count, count, count, channel, count)
    conn.execute(create, given)
    dispatch(conn)
    taken = conn.execute(
        "SELECT id, token FROM message_dequeue(%s, p_lanes => %s)", (count, [channel])
    ).fetchall()
    for n, (message_id, token) in enumerate(taken):
        end = "message_retry(%s, %s, p_error => 'E')" if n % 2 else "message_complete(%s, %s)"
        conn.execute(f"SELECT {end}".encode(), (message_id, token))
    conn.execute(create, given)
    dispatch(conn)


# Every plan and every count that a tenant can see, before and after others have much more.


def explained(tenant: Conn, query: str) -> list[str]:
    """EXPLAIN with all that it can count, except times, pages and WAL, which depend on who read before."""
    options = [
        "ANALYZE",
        "VERBOSE",
        "SETTINGS",
        "BUFFERS off",
        "TIMING off",
        "SUMMARY off",
        "COSTS on",
    ]
    rows = tenant.execute(f"EXPLAIN ({', '.join(options)}) {query}".encode()).fetchall()
    return [re.sub(r"(Memory|Storage|Heap Fetches).*", "", row[0]) for row in rows]


def counted(tenant: Conn, call: str) -> tuple[dict[str, Any], Any]:
    """How many rows of each table a call reads: PostgreSQL tells every session about its own reads."""
    query = (
        "SELECT relname, seq_tup_read + COALESCE(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
        " WHERE schemaname = current_schema()"
    )
    with tenant.transaction():
        before = dict(tenant.execute(query).fetchall())
        try:
            with tenant.transaction():
                found: Any = tenant.execute(f"SELECT * FROM {call}".encode()).fetchall()
        except psycopg.Error as error:
            found = (error.sqlstate, error.diag.message_primary)
        after = dict(tenant.execute(query).fetchall())
    return {name: n - before.get(name, 0) for name, n in after.items() if n != before.get(name, 0)}, found


def plans_of(tenant: Conn) -> dict[str, list[str]]:
    where = (
        "",
        f"WHERE channel = '{VICTIM}'",
        f"WHERE channel > 'n' AND channel < '{VICTIM}x'",
        f"WHERE channel LIKE '{VICTIM[:3]}%'",
    )
    return {
        f"{view} {condition}": explained(tenant, f"SELECT * FROM {view} {condition}")
        for view in VIEWS
        for condition in where
    }


def test_plans_do_not_depend_on_others(queue: Attacked) -> None:
    """Neither in their shape nor in their estimates and counts, with statistics that are new."""
    fill(queue.conn, "mine", 4)
    tenant = queue.tenant("mine")
    tenant.execute("SET plan_cache_mode TO force_custom_plan")
    queue.conn.execute("ANALYZE")
    alone = plans_of(tenant)
    fill(queue.conn, VICTIM, 400)
    queue.conn.execute("ANALYZE")
    together = plans_of(tenant)
    for name, plan in alone.items():
        assert together[name] == plan, name
    for relation in ("message", "dead", "finished", "lease", "policy_log"):
        assert not [
            name for name, plan in together.items() if re.search(rf" on \S*\b{relation}\b", " ".join(plan))
        ]


def test_ids_and_keys_of_others_are_read_like_unknown_ones(queue: Attacked) -> None:
    fill(queue.conn, "mine", 4)
    fill(queue.conn, VICTIM, 40)
    tenant = queue.tenant("mine")
    query = (
        "SELECT MAX(id) FROM message WHERE channel = %s UNION SELECT MAX(id) FROM dead WHERE channel = %s"
        " UNION SELECT MAX(id) FROM finished WHERE channel = %s AND outcome = 'completed'"
    )
    theirs = [row[0] for row in queue.conn.execute(query, (VICTIM,) * 3)]
    assert len(theirs) == 3
    for call in ("message_get({})", "message_place({})", "status_get({}, TRUE)"):
        tenant.execute(f"SELECT * FROM {call.format(1)}".encode()).fetchall()  # its plans are cached
        unknown = counted(tenant, call.format(10**9))
        for message_id in theirs:
            reads, rows = counted(tenant, call.format(message_id))
            assert reads == unknown[0], call
            assert str(rows).replace(str(message_id), str(10**9)) == str(unknown[1])
    for call in (
        "message_create({}, 'x', p_dedupe_key => 'key 1')",
        "channel_get({})",
        "channel_stats({})",
        "channel_explain({})",
        "message_list({})",
        "dead_list({})",
        "dead_groups({})",
        "audit_list({})",
        "history_summary({})",
    ):
        for _ in range(2):
            there, missing = (counted(tenant, call.format(f"'{name}'")) for name in (VICTIM, "nobody"))
        assert str(there).replace(VICTIM, "nobody") == str(missing), call


def test_the_planner_does_not_tell_what_functions_read(queue: Attacked) -> None:
    """A session may have its plans printed, also those inside of functions: no values are in them."""
    fill(queue.conn, VICTIM, 40)
    queue.conn.execute("ANALYZE")
    tenant = queue.tenant("mine")
    shown: list[str] = []
    tenant.add_notice_handler(lambda note: shown.append(f"{note.message_primary} {note.message_detail}"))
    for setting in (
        "debug_print_parse",
        "debug_print_rewritten",
        "debug_print_plan",
        "plpgsql.print_strict_params",
    ):
        tenant.execute(f"SET {setting} TO on".encode())
    tenant.execute("SET client_min_messages TO debug5")
    for call in (
        "message_list('mine')",
        "dead_list('mine')",
        "message_get(1)",
        "message_create('mine', 'x')",
    ):
        tenant.execute(f"SELECT * FROM {call}".encode()).fetchall()
    assert any("PLANNEDSTMT" in text for text in shown)
    codes = " ".join(str(byte) for byte in VICTIM.encode())
    assert not [text for text in shown if VICTIM in text or codes in text]


def test_code_of_a_tenant_sees_only_its_own_rows(queue: Attacked) -> None:
    """As a function, an operator, a condition that fails, a cursor and a function that runs as its owner."""
    fill(queue.conn, "mine", 4)
    fill(queue.conn, VICTIM, 40)
    tenant = queue.tenant("mine")
    evil = queue.schema_of(tenant, f"{queue.schema} evil")
    seen: list[str] = []
    tenant.add_notice_handler(lambda note: seen.append(str(note.message_primary)))
    path = sql.SQL("SET search_path TO {}, {}").format(sql.Identifier(evil), sql.Identifier(queue.schema))
    tenant.execute(path)
    raises = "COST 0.0001 LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE NOTICE '%', $1; RETURN TRUE; END $$"
    for statement in (
        f"CREATE FUNCTION peek(TEXT) RETURNS BOOLEAN {raises}",
        f"CREATE FUNCTION peek(TEXT, TEXT) RETURNS BOOLEAN {raises}",
        "CREATE OPERATOR <<< (FUNCTION = peek, LEFTARG = TEXT, RIGHTARG = TEXT)",
        "CREATE OPERATOR = (FUNCTION = peek, LEFTARG = TEXT, RIGHTARG = TEXT, RESTRICT = eqsel)",
        "CREATE TYPE mark AS (m TEXT)",
        (
            "CREATE FUNCTION to_mark(TEXT) RETURNS mark COST 0.0001 LANGUAGE plpgsql IMMUTABLE AS $$"
            " BEGIN RAISE NOTICE '%', $1; RETURN ROW($1); END $$"
        ),
        (
            "CREATE FUNCTION lent() RETURNS SETOF TEXT LANGUAGE sql SECURITY DEFINER"
            " AS 'SELECT channel FROM messages'"
        ),
    ):
        tenant.execute(statement.encode())
    for view in VIEWS:
        for condition in (
            "peek(channel)",
            "channel <<< 'x'",
            f"channel OPERATOR(\"{evil}\".=) '{VICTIM}'",
            "to_mark(channel) IS NOT NULL",
            f"channel = '{VICTIM}' AND 1 / length(channel) = 0",
        ):
            rows = tenant.execute(f"SELECT channel FROM {view} WHERE {condition}".encode()).fetchall()
            assert {row[0] for row in rows} <= {"mine"}
    assert {row[0] for row in tenant.execute("SELECT lent()")} == {"mine"}
    with tenant.transaction():
        tenant.execute("DECLARE c CURSOR WITH HOLD FOR SELECT channel FROM messages")
    assert {row[0] for row in tenant.execute("FETCH ALL FROM c")} == {"mine"}
    assert seen
    assert set(seen) <= {"mine"}


REFUSED = {
    "SET SESSION AUTHORIZATION {owner}": "42501",
    "SET ROLE {owner}": "42501",
    "SET ROLE {admin}": "42501",
    "SET session_replication_role TO replica": "42501",
    "SET log_min_messages TO debug5": "42501",
    "SET track_functions TO 'all'": "42501",
    "CREATE PUBLICATION evil FOR TABLE message": "42501",
    "CREATE PUBLICATION evil FOR ALL TABLES": "42501",
    "CREATE SUBSCRIPTION evil CONNECTION '' PUBLICATION p": "42501",
    "SELECT pg_create_logical_replication_slot('evil', 'pgoutput')": "42501",
    "CREATE EVENT TRIGGER evil ON sql_drop EXECUTE FUNCTION suppress_redundant_updates_trigger()": "42501",
    "CREATE TRIGGER evil BEFORE INSERT ON message FOR EACH ROW"
    " EXECUTE FUNCTION suppress_redundant_updates_trigger()": "42501",
    "CREATE TRIGGER evil INSTEAD OF INSERT ON messages FOR EACH ROW"
    " EXECUTE FUNCTION suppress_redundant_updates_trigger()": "42501",
    "CREATE RULE evil AS ON SELECT TO messages DO INSTEAD SELECT 1": "42501",
    "CREATE POLICY evil ON message USING (TRUE)": "42501",
    "CREATE INDEX evil ON message (channel)": "42501",
    "CREATE STATISTICS evil ON channel, lane FROM message": "42501",
    "CREATE TABLE public.evil (id BIGINT REFERENCES message)": "42501",
    "CREATE TEMP TABLE evil () INHERITS (message)": "42501",
    "CREATE TABLE evil (id BIGINT)": "42501",
    "CREATE FUNCTION dispatch(p TEXT) RETURNS INT LANGUAGE sql AS 'SELECT 1'": "42501",
    "ALTER FUNCTION login_is_free() VOLATILE": "42501",
    "ALTER VIEW messages SET (security_barrier = off)": "42501",
    "ALTER SCHEMA {schema} RENAME TO evil": "42501",
    "COMMENT ON TABLE message IS 'evil'": "42501",
    "BEGIN; LOCK TABLE message IN ACCESS SHARE MODE": "42501",
    "BEGIN; LOCK TABLE messages IN ROW SHARE MODE": "42501",
    "BEGIN; LOCK TABLE staging IN ROW EXCLUSIVE MODE": "42501",
    "COPY message TO STDOUT": "42501",
    "COPY (SELECT 1) TO PROGRAM 'true'": "42501",
    "COPY (SELECT 1) TO '/tmp/evil'": "42501",
    "SELECT lo_export(1, '/tmp/evil')": "42501",
    "SELECT lo_import('/etc/passwd')": "42501",
    "SELECT pg_read_file('/etc/passwd')": "42501",
    "SELECT nextval('turn')": "42501",
    "SELECT currval('message_id_seq')": "42501",
    "SELECT last_value FROM message_id_seq": "42501",
    "SELECT lower(content::TEXT) FROM message": "42501",
    "SELECT pg_terminate_backend({pid})": "42501",
    "SELECT pg_cancel_backend({pid})": "42501",
    "SELECT * FROM pg_statistic": "42501",
    "SELECT credential_renew()": "42501",
    "DO LANGUAGE plpgsql 'BEGIN DELETE FROM message; END'": "42501",
    "CREATE TEMP TABLE evil (m message)": "42501",
    "CREATE TEMP TABLE evil (m messages)": "42501",
    "CREATE TEMP TABLE evil (s stub[])": "42501",
    "CREATE TEMP TABLE evil (f finished_other)": "42501",
    "CREATE DOMAIN pg_temp.evil AS new_message": "42501",
    "CREATE FUNCTION pg_temp.evil(dead) RETURNS INT LANGUAGE sql AS 'SELECT 1'": "42501",
    "CREATE TYPE pg_temp.evil AS (m lane_state)": "42501",
}


def test_statements_that_are_refused(queue: Attacked) -> None:
    fill(queue.conn, VICTIM, 4)
    tenant = queue.tenant("mine")
    names = {"owner": queue.conn.info.user, "admin": f"{queue.schema}_admin", "schema": queue.schema}
    for statement, sqlstate in REFUSED.items():
        given = {key: sql.Identifier(name) for key, name in names.items()} | {
            "pid": sql.Literal(queue.conn.info.backend_pid)
        }
        with pytest.raises(psycopg.Error) as caught:
            tenant.execute(sql.SQL(statement).format(**given))
        assert caught.value.sqlstate == sqlstate, (statement, caught.value)
        assert SECRET not in str(caught.value)
        tenant.execute("ROLLBACK")


def test_nothing_in_the_catalogs_has_values_of_others(queue: Attacked) -> None:
    """All system views that a tenant may read, with new statistics and with sessions that use the queue."""
    fill(queue.conn, VICTIM, 40)
    queue.conn.execute("ANALYZE")
    tenant = queue.tenant("mine")
    busy = queue.connect(autocommit=False, options=f"-c search_path={queue.schema}")
    busy.execute(f"SELECT message_create('{VICTIM}', '{SECRET}')".encode())
    views = tenant.execute(
        "SELECT c.oid::REGCLASS::TEXT FROM pg_class c WHERE c.relnamespace = 'pg_catalog'::REGNAMESPACE"
        " AND c.relkind = 'v' AND has_table_privilege(c.oid, 'SELECT')"
    ).fetchall()
    assert len(views) > 50
    found, read_some = [], 0
    for (view,) in views:
        try:
            rows = tenant.execute(f"SELECT v::TEXT FROM {view} v".encode()).fetchall()
        except psycopg.errors.InsufficientPrivilege:
            continue
        read_some += bool(rows)
        found += [
            view
            for (row,) in rows
            if VICTIM in row and "INSERT" not in row and view != "pg_prepared_statements"
        ]
    assert read_some > 20
    assert found == []


# What a tenant's login holds up.


def test_row_types_are_not_a_way_to_stop_upgrades_and_maintenance(queue: Attacked) -> None:
    """A column of the type of a table keeps that table from being changed or dropped."""
    tenant = queue.tenant("mine")
    queue.conn.execute("SELECT queue_set(p_history => TRUE)")
    queue.conn.execute("SELECT history_prepare(to_epoch(now()) + 30::BIGINT * %s)", (DAY,))
    types = queue.conn.execute(
        "SELECT t.oid::REGTYPE::TEXT FROM pg_type t WHERE t.typnamespace = current_schema()::REGNAMESPACE"
        " AND t.typtype = 'c'"
    ).fetchall()
    assert len(types) > 60
    for (name,) in types:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            tenant.execute(f"CREATE TEMP TABLE evil (value {name})".encode())
    for table in ("message", "dead", "finished", "staging", "tick"):
        queue.conn.execute(
            f"ALTER TABLE {table} ADD COLUMN added TEXT DEFAULT clock_timestamp()::TEXT".encode()
        )
    upgrade(queue.conn, queue.schema)


def test_lanes_are_not_a_way_to_stop_the_dispatcher(queue: Attacked) -> None:
    """Lanes stay, and each makes every dispatch take longer."""
    tenant = queue.tenant("mine")
    calls = (
        "message_create('mine', 'x', p_lane => 'new')",
        "message_create_many('{mine,mine}', '{x,y}', p_lanes => '{default,new}')",
    )
    for call in calls:
        with pytest.raises(psycopg.Error, match="may not add lane 'new'") as caught:
            tenant.execute(f"SELECT {call}".encode())
        assert caught.value.sqlstate == "LM012"
        assert "that a worker serves" in str(caught.value.diag.message_hint)
    batch = "00000000-0000-4000-8000-000000000000"
    stage = "INSERT INTO staging (batch, ord, channel, content, lane) VALUES (%s, 1, 'mine', 'x', 'new')"
    tenant.execute(stage, (batch,))
    with pytest.raises(psycopg.Error, match="may not add lane"):
        tenant.execute("SELECT staging_publish(%s)", (batch,))
    tenant.execute("SELECT message_create('mine', 'x', p_lane => 'default')")
    queue.conn.execute(
        "SELECT worker_report("
        "gen_random_uuid(), 'w', 'h', 1, '0', 0, '{}', 1, 0, 'serving', p_lanes => '{new}')"
    )
    for call in calls:
        tenant.execute(f"SELECT {call}".encode())
    dispatch(queue.conn)
    queue.conn.execute("DELETE FROM worker")
    tenant.execute(f"SELECT {calls[0]}".encode())
    check(queue.conn)


@pytest.mark.parametrize("left_open", ["read", "create", "staged", "prepared", "advisory"])
def test_an_open_transaction_of_a_tenant_holds_up_nobody(queue: Attacked, left_open: str) -> None:
    fill(queue.conn, "mine", 4)
    fill(queue.conn, VICTIM, 4)
    queue.conn.execute("SET lock_timeout TO '2s'; SET statement_timeout TO '20s'")
    tenant = queue.tenant("mine")
    tenant.execute("BEGIN")
    statements = {
        "read": [f"SELECT * FROM {view}" for view in VIEWS],
        "create": ["SELECT message_create('mine', 'x', p_dedupe_key => 'new')"],
        "staged": [
            "INSERT INTO staging (batch, ord, channel, content) VALUES (gen_random_uuid(), 1, 'mine', 'x')"
        ],
        "prepared": ["SELECT message_create('mine', 'x')", f"PREPARE TRANSACTION '{queue.schema}'"],
        "advisory": ["SELECT pg_advisory_lock(n) FROM generate_series(-99, 99) n"],
    }[left_open]
    for statement in statements:
        tenant.execute(statement.encode())
    try:
        conn = queue.conn
        conn.execute("SELECT message_create(%s, 'y', p_dedupe_key => 'new')", (VICTIM,))
        dispatch(conn)
        [taken] = conn.execute("SELECT id, token FROM message_dequeue(1)").fetchall()
        assert conn.execute("SELECT message_complete(%s, %s)", taken).fetchone() == ("completed",)
        for call in (
            "maintain()",
            "channel_set('mine', p_weight => 3)",
            "queue_set(p_max_attempts => 9)",
            "credential_list()",
            "dead_retry_all('mine')",
            f"history_trim(to_epoch(now()) + 40::BIGINT * {DAY}, 1000)",
        ):
            conn.execute(f"SELECT {call}".encode())
    finally:
        if left_open == "prepared":
            tenant.execute(f"ROLLBACK PREPARED '{queue.schema}'".encode())
        else:
            tenant.execute("ROLLBACK")


# Notifications.


@pytest.fixture
def listening(queue: Attacked) -> tuple[Attacked, Conn]:
    tenant = queue.tenant("mine")
    names = queue.conn.execute("SELECT notify_channel(), result_channel()").fetchone()
    assert names is not None
    for name in names:
        tenant.execute(sql.SQL("LISTEN {}").format(sql.Identifier(name)))
    return queue, tenant


def test_notifications_say_nothing_about_others(listening: tuple[Attacked, Conn]) -> None:
    queue, tenant = listening
    conn = queue.conn
    conn.execute("SELECT sleep_begin()")
    [(message_id, _)] = conn.execute(
        "SELECT * FROM message_create(%s, %s, p_keep_result_ms => 60000)", (VICTIM, SECRET.encode())
    ).fetchall()
    dispatch(conn)
    [(taken, token)] = conn.execute("SELECT id, token FROM message_dequeue(1)").fetchall()
    assert taken == message_id
    conn.execute("SELECT message_complete(%s, %s, p_result => 'done')", (taken, token))
    notes = list(tenant.notifies(timeout=1, stop_after=2))
    assert len(notes) == 2
    assert [
        note.payload for note in notes if note.payload and not re.fullmatch(r"[0-9a-f]{8}", note.payload)
    ] == []


@pytest.mark.parametrize("payload", ["", "nonsense", "\u202e,,,;--", "x" * 7_999, json.dumps({"id": 1})])
def test_made_up_notifications_change_nothing(listening: tuple[Attacked, Conn], payload: str) -> None:
    """Anybody may notify on the queue's channels. A result is read from the queue, whatever they say."""
    queue, tenant = listening
    rows = queue.conn.execute("SELECT notify_channel(), result_channel()").fetchone() or ()
    for name in rows:
        tenant.execute("SELECT pg_notify(%s, %s)", (name, payload))
    assert queue.conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,)
