"""Credentials bound to channels: they produce to and observe these, and see no others (invariant 18).

The login of these tests may execute every function and read every view: only the binding restricts it.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.database import Connect, unique_name
from tests.invariants import dequeue, dispatch, drain

PASSWORD = "no secret"  # noqa: S105 - the servers of tests trust everyone on this machine


@pytest.fixture
def login(conn: psycopg.Connection) -> Iterator[str]:
    name = unique_name("tenant")
    role = sql.Identifier(name)
    conn.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(PASSWORD)))
    for grant in (
        "USAGE ON SCHEMA lonnymq",
        "EXECUTE ON ALL FUNCTIONS IN SCHEMA lonnymq",
        "SELECT ON channels, messages, leases, dead_letters, history, policies",
        "INSERT (batch, ord, channel, content) ON staging",
        "INSERT (batch, ord, channel, content, priority, dedupe_key) ON staging_chunk",
    ):
        conn.execute(sql.SQL("GRANT {} TO {}").format(sql.SQL(grant), role))
    yield name
    conn.execute(sql.SQL("DROP OWNED BY {}").format(role))
    conn.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.fixture
def tenant(conn: psycopg.Connection, connect: Connect, login: str) -> psycopg.Connection:
    """A session bound to `mine` and `also mine`. Another tenant has a channel too; each channel has
    messages of every kind."""
    conn.execute("SELECT queue_set(p_history => TRUE)")
    for channel in ("mine", "theirs"):
        conn.execute(
            "SELECT message_create_many(array_fill(%s::TEXT, '{4}'), array_fill('secret'::BYTEA, '{4}'),"
            " p_max_attempts => '{1,1,1,1}')",
            (channel,),
        )
    dispatch(conn)
    messages, _ = dequeue(conn, 6, 3_600_000)
    for message in messages[:2]:
        conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
    for message in messages[2:4]:
        conn.execute("SELECT message_retry(%s, %s, p_error => 'secret')", (message.id, message.token))
    dispatch(conn)
    conn.execute("SELECT credential_bind(%s, %s)", (login, ["mine", "also mine"]))
    return connect(user=login, password=PASSWORD)


def ids_of(conn: psycopg.Connection, channel: str) -> list[int]:
    query = "SELECT id FROM message WHERE channel = %s UNION ALL SELECT id FROM dead WHERE channel = %s"
    return [row[0] for row in conn.execute(query, (channel, channel))]


def refused(conn: psycopg.Connection, call: str, *parameters: Any) -> bool:
    try:
        conn.execute("SELECT * FROM " + call, parameters)
    except psycopg.Error as error:
        if error.sqlstate != "LM012" or not error.diag.message_hint:
            raise
        return True
    return False


PRODUCES = (
    "message_create({channel}, '')",
    "message_create({channel}, '', p_dedupe_key => 'k')",
    "message_create_many(ARRAY['mine', {channel}], ARRAY['', '']::BYTEA[])",
)
OBSERVES = (
    "channel_get({channel})",
    "channel_stats({channel})",
    "channel_explain({channel})",
    "message_list({channel})",
    "message_list({channel}, 'leased')",
    "dead_list({channel})",
    "dead_groups({channel})",
    "audit_list({channel})",
    "history_summary({channel})",
)
NEITHER = (
    "message_list()",
    "dead_list()",
    "dead_groups()",
    "audit_list()",
    "history_summary()",
    "audit_begin('me', 'pause', 'theirs')",
    "audit_begin('me', 'pause', 'mine')",
    "audit_end(1, 'done')",
    "queue_stats()",
    "lane_list()",
    "message_dequeue()",
    "sleep_begin()",
    "sleep_look()",
    "dispatch()",
    "maintain()",
    "channel_set('mine', 1)",
    "channel_delete('mine', TRUE)",
    "queue_set(1)",
    "message_cancel(1)",
    "message_cancel_many('{1}')",
    "message_reschedule(1)",
    "dead_retry('{1}')",
    "dead_retry_all()",
    "dead_discard('{1}')",
    "dead_discard_all('mine')",
    "credential_bind(session_user, NULL)",
    "credential_list()",
    "rebuild()",
    "claim_open('mine')",
    "claim_begin('mine', 1, 0)",
    "claim_waiting()",
    "channels_dispatch('{mine}')",
    "claim_next('mine', 1, 0, 1)",
    "claim_extend('mine', 1)",
    "claim_read('mine', 1, 0, 1)",
    "claim_complete('mine', 1, 0)",
    "history_follow('mine', '1:1:')",
    "history_unfollow('mine')",
    "history_followers()",
    "schedule_open('{mine}')",
    "schedule_fire('mine', 0, 1, '{1}', 'mine', '')",
    "schedule_list()",
    "schedule_get('mine')",
    "schedule_run('mine')",
    "schedule_pause('mine')",
    "schedule_resume('mine')",
    "schedule_delete('mine')",
    "worker_report(gen_random_uuid(), 'w', 'h', 1, '0', 0, '{}', 1, 0, 'serving')",
    "worker_leave(gen_random_uuid())",
    "worker_list()",
    "worker_request('*', 'paused')",
    "unknown_task_list()",
    "batch_open('mine')",
    "batch_close(1)",
    "batch_cancel(1)",
    "batch_get(1)",
    "batch_list()",
    "result_save('mine', '')",
    "result_load('mine')",
)
HARMLESS = (
    "queue_get()",
    "to_epoch(now())",
    "bound_channels()",
    "login_is_free()",
    "history_bounds()",
    "history_mark('1:1:')",
    "policy_mark('1:1:')",
)


def test_calls_are_for_its_own_channels(tenant: psycopg.Connection) -> None:
    for call in (*PRODUCES, *OBSERVES):
        assert not refused(tenant, call.format(channel="'also mine'")), call
        assert refused(tenant, call.format(channel="'theirs'")), call


def test_it_does_nothing_else(conn: psycopg.Connection, tenant: psycopg.Connection) -> None:
    before = ids_of(conn, "mine") + ids_of(conn, "theirs")
    for call in NEITHER:
        assert refused(tenant, call), call
        assert ids_of(conn, "mine") + ids_of(conn, "theirs") == before, call


def test_every_call_was_tried(conn: psycopg.Connection) -> None:
    """All except the calls that take a token, which nobody can guess: see the next test."""
    public = "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'lonnymq'::REGNAMESPACE AND prosecdef"
    tried = {call.split("(")[0] for call in (*PRODUCES, *OBSERVES, *NEITHER, *HARMLESS)}
    by_token = {
        f"message_{verb}{many}"
        for verb in ("complete", "retry", "discard", "extend")
        for many in ("", "_many")
    } | {"message_reject_many", "message_leased_many", "progress_write"}
    elsewhere = {
        "message_get",
        "message_place",
        "status_get",
        "channel_list",
        "staging_publish",
        "staging_publish_once",
        "staging_discard",
    }
    of_views = {"channel_visible", "message_visible", "dead_visible", "finished_visible", "policy_visible"}
    assert {row[0] for row in conn.execute(public)} == (
        tried - {"to_epoch"}
    ) | by_token | elsewhere | of_views


def test_ids_of_others_look_like_unknown_ids(conn: psycopg.Connection, tenant: psycopg.Connection) -> None:
    for message_id in (*ids_of(conn, "theirs"), 10**9):
        assert tenant.execute("SELECT * FROM message_get(%s)", (message_id,)).fetchall() == []
        assert tenant.execute("SELECT * FROM message_place(%s)", (message_id,)).fetchall() == []
        for call in (
            "message_complete(%s, gen_random_uuid())",
            "message_retry(%s, gen_random_uuid())",
            "message_discard(%s, gen_random_uuid())",
            "result FROM message_extend(%s, gen_random_uuid(), 1)",
        ):
            assert tenant.execute("SELECT " + call, (message_id,)).fetchone() == ("not_found",)
    for message_id in ids_of(conn, "mine"):
        assert len(tenant.execute("SELECT * FROM message_get(%s)", (message_id,)).fetchall()) == 1


def test_views_show_its_own_and_no_count_of_others(
    conn: psycopg.Connection, tenant: psycopg.Connection
) -> None:
    for channel in ("mine", "theirs"):
        conn.execute("SELECT channel_set(%s, p_weight => 2)", (channel,))
    for view in (
        *("messages", "leases", "dead_letters", "history", "policies"),
        *("message_visible()", "message_visible(TRUE)", "dead_visible()", "finished_visible()"),
        "policy_visible()",
    ):
        shown = tenant.execute(f"SELECT DISTINCT channel FROM {view}".encode()).fetchall()
        assert shown == [("mine",)], view
        theirs = tenant.execute(f"SELECT COUNT(*) FROM {view} WHERE channel = 'theirs'".encode())
        assert theirs.fetchone() == (0,), view


def test_the_view_of_channels_has_its_own_whether_or_not_anything_is_in_them(
    tenant: psycopg.Connection,
) -> None:
    rows = tenant.execute("SELECT channel, waiting, leased, dead FROM channels ORDER BY 1").fetchall()
    assert rows == [("also mine", 0, 0, 0), ("mine", 1, 1, 1)]


def test_a_login_that_is_not_bound_sees_everything(
    conn: psycopg.Connection, tenant: psycopg.Connection
) -> None:
    for channel in ("mine", "theirs"):
        conn.execute("SELECT channel_set(%s, p_weight => 2)", (channel,))
    for view, visible in (
        ("messages", "message_visible()"),
        ("leases", "message_visible(TRUE)"),
        ("dead_letters", "dead_visible()"),
        ("history", "finished_visible()"),
        ("channels", "channel_visible()"),
        ("policies", "policy_visible()"),
    ):
        shown = conn.execute(f"SELECT COUNT(*), COUNT(DISTINCT channel) FROM {view}").fetchone()
        assert shown is not None
        assert shown[1] == 2
        assert conn.execute(f"SELECT COUNT(*) FROM {visible}").fetchone() == (shown[0],)


@pytest.mark.parametrize("order", ["name", "next", "waiting"])
def test_its_channels_are_listed_whether_or_not_anything_is_in_them(
    tenant: psycopg.Connection, order: str
) -> None:
    rows = tenant.execute("SELECT channel, waiting FROM channel_list(%s)", (order,)).fetchall()
    assert rows == [("also mine", 0), ("mine", 1)]
    prefixes = (
        "SELECT p, array_agg(c.channel) FROM unnest('{m,th}'::TEXT[]) p"
        " CROSS JOIN channel_list(p_prefix => p) c GROUP BY p"
    )
    assert tenant.execute(prefixes).fetchall() == [("m", ["mine"])]


def test_what_it_stages_is_its_own_and_goes_to_its_own_channels(
    conn: psycopg.Connection, tenant: psycopg.Connection
) -> None:
    batch = "00000000-0000-4000-8000-000000000000"
    insert = "INSERT INTO staging (batch, ord, channel, content) VALUES (%s, %s, %s, 'x')"
    conn.execute(insert, (batch, 1, "theirs"))
    tenant.execute(insert, (batch, 2, "mine"))
    assert tenant.execute("SELECT * FROM staging_publish(%s)", (batch,)).fetchone() == (1, 0, 0)
    assert conn.execute("SELECT channel FROM staging").fetchall() == [("theirs",)]
    tenant.execute(insert, (batch, 3, "theirs"))
    assert refused(tenant, "staging_publish(%s)", batch)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        tenant.execute("INSERT INTO staging (batch, ord, staged_by) VALUES (%s, 4, 'postgres')", (batch,))


CHUNKS = {
    "without options": ("", ""),
    "with an option": (", priority", ", ARRAY[[1], [2]]"),
    "with a key": (", dedupe_key", ", '{k,NULL}'"),
}


@pytest.mark.parametrize("has_sizes", [False, True])
@pytest.mark.parametrize("kind", CHUNKS)
def test_its_chunks_go_to_its_own_channels(
    conn: psycopg.Connection, tenant: psycopg.Connection, kind: str, has_sizes: bool
) -> None:
    if has_sizes:
        conn.execute("SELECT channel_set('theirs', p_max_size => 100)")
    before = ids_of(conn, "theirs")
    names, values = CHUNKS[kind]
    for channels, named in (
        ("'{mine,theirs}'", "'theirs'"),
        ("'{{theirs},{mine}}'", "'theirs'"),
        ("'{mine,NULL}'", "NULL"),
    ):
        [(batch,)] = conn.execute("SELECT gen_random_uuid()")
        insert = "INSERT INTO staging_chunk (batch, ord, channel, content{}) VALUES (%s, 0, {}, '{{x,y}}'{})"
        tenant.execute(insert.format(names, channels, values).encode(), (batch,))
        with pytest.raises(psycopg.Error, match=f"may not produce to channel {named}") as error:
            tenant.execute("SELECT staging_publish(%s)", (batch,))
        assert error.value.sqlstate == "LM012"
    assert ids_of(conn, "theirs") == before
    [(batch,)] = conn.execute("SELECT gen_random_uuid()")
    tenant.execute(insert.format(names, "'{mine,also mine}'", values).encode(), (batch,))
    assert tenant.execute("SELECT * FROM staging_publish(%s)", (batch,)).fetchone() == (2, 0, 0)


def test_bound_to_nothing_unbound_and_bound_again(
    conn: psycopg.Connection, tenant: psycopg.Connection, login: str
) -> None:
    conn.execute("SELECT credential_bind(%s, '{}')", (login,))
    assert refused(tenant, "message_create('mine', '')")
    assert tenant.execute("SELECT * FROM channel_list()").fetchall() == []
    assert conn.execute("SELECT * FROM credential_list()").fetchall() == [(login, [])]
    conn.execute("SELECT credential_bind(%s, NULL)", (login,))
    assert not refused(tenant, "message_create('theirs', '')")
    assert conn.execute("SELECT has_bound FROM queue").fetchone() == (False,)
    conn.execute("SELECT credential_bind(%s, '{theirs}')", (login,))
    assert refused(tenant, "message_create('mine', '')")
    assert not refused(tenant, "message_create('theirs', '')")


def test_others_are_not_bound_by_it(conn: psycopg.Connection, tenant: psycopg.Connection) -> None:
    assert tenant.execute("SELECT bound_channels()").fetchone() == (["also mine", "mine"],)
    assert conn.execute("SELECT bound_channels()").fetchone() == (None,)
    assert len(drain(conn)) == 2


def test_set_role_does_not_lift_the_binding(
    conn: psycopg.Connection, tenant: psycopg.Connection, login: str
) -> None:
    other = unique_name("other")
    conn.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(other)))
    try:
        conn.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(other), sql.Identifier(login)))
        conn.execute(sql.SQL("GRANT USAGE ON SCHEMA lonnymq TO {}").format(sql.Identifier(other)))
        grant = sql.SQL("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lonnymq TO {}")
        conn.execute(grant.format(sql.Identifier(other)))
        tenant.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(other)))
        assert refused(tenant, "message_create('theirs', '')")
    finally:
        conn.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(other)))
        conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(other)))


@pytest.mark.parametrize(
    ("is_dead", "table", "own"), [(False, "finished", 2), (True, "dead_mark", 1)], ids=["history", "dead"]
)
def test_the_mark_of_a_position_reveals_nothing_about_others(
    conn: psycopg.Connection, tenant: psycopg.Connection, is_dead: bool, table: str, own: int
) -> None:
    [snapshot] = tenant.execute("SELECT snapshot FROM history_bounds()").fetchone() or ()
    xmax = int(snapshot.split(":")[1])
    positions = [f"{xid}:{xid}:" for xid in range(xmax - 30, xmax)]

    def marks() -> list[int]:
        query = "SELECT history_mark(p, %s) FROM unnest(%s::TEXT[]) WITH ORDINALITY u (p, ord) ORDER BY ord"
        return [row[0] for row in tenant.execute(query, (is_dead, positions))]

    found = marks()
    assert len(set(found)) == 1 + own, "none yet, and another one with each row of its own"
    conn.execute(f"DELETE FROM {table} WHERE channel = 'theirs'".encode())
    assert marks() == found
    conn.execute(f"DELETE FROM {table} WHERE channel = 'mine'".encode())
    assert set(marks()) == {0}
