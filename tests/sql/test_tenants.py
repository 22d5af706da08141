"""A login that is bound to channels learns nothing of others, from results or from plans.

EXPLAIN is a call like any other. Its row counts, its estimates (as good as counts, on an analysed table)
and the buffers that it names must not depend on what other tenants have.
"""

import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.database import Connect, unique_name

PASSWORD = "no secret"  # noqa: S105 - the servers of tests trust everyone on this machine
NOW = 1_700_000_000_000
FAR = 4_000_000_000_000  # in the future
VICTIM_ID = 40_000_000
VIEWS = ("messages", "leases", "dead_letters", "history")


@pytest.fixture
def tenant(conn: psycopg.Connection, connect: Connect) -> Iterator[psycopg.Connection]:
    """A session of a login that is bound to `mine`. Other channels have rows before, after and among its
    rows."""
    login = make_login(conn)
    conn.execute("SELECT queue_set(p_history => TRUE)")
    fill(conn, "mine", 20)
    for first, other in enumerate(("aa", "neighbour", "zz"), 1):
        fill(conn, other, 2000, first * 10_000_000)
    conn.execute("SELECT credential_bind(%s, '{mine}')", (login,))
    settle(conn)
    yield connect(user=login, password=PASSWORD)
    drop_login(conn, login)


def make_login(conn: psycopg.Connection) -> str:
    name = unique_name("tenant")
    role = sql.Identifier(name)
    conn.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(PASSWORD)))
    conn.execute(sql.SQL("GRANT USAGE ON SCHEMA lonnymq TO {}").format(role))
    conn.execute(sql.SQL("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lonnymq TO {}").format(role))
    views = sql.SQL("GRANT SELECT ON channels, messages, leases, dead_letters, history, policies TO {}")
    conn.execute(views.format(role))
    return name


def drop_login(conn: psycopg.Connection, name: str) -> None:
    conn.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
    conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


PLACES = (
    (
        "message (id, channel, dequeue_at, created_at, content) OVERRIDING SYSTEM VALUE"
        " SELECT %(first)s + i, %(channel)s, CASE WHEN i %% 4 = 0 THEN %(far)s ELSE %(now)s END + i, 1, 'x'"
    ),
    (
        "scheduled (at, id, generation, rank, cost, lane, channel)"
        " SELECT %(far)s + i, %(first)s + i, 0, 0, 1, 'default', %(channel)s"
    ),
    (
        "ready (lane, tag, id, generation, rank, at, cost, is_limited, channel)"
        " SELECT 'default', %(first)s + i, %(first)s + i, 0, 0, %(now)s + i, 1, FALSE, %(channel)s"
    ),
    (
        "line (channel, lane, rank, at, id, generation, cost)"
        " SELECT %(channel)s, 'default', 0, %(now)s + i, %(first)s + i, 0, 1"
    ),
    (
        "dead (id, channel, dequeue_at, created_at, dead_at, generation, attempts, cost, priority, lane,"
        " content)"
        " SELECT %(first)s + 2000000 + i, %(channel)s, 1, 1, %(now)s + i, 0, 1, 1, 0, 'default', 'x'"
    ),
    (
        "finished (id, channel, created_at, dequeue_at, finished_at, attempts, content_bytes, cost, priority,"
        " lane, outcome)"
        " SELECT %(first)s + 3000000 + i, %(channel)s, 1, 1, %(now)s + i, 1, 1, 1, 0, 'default', 'completed'"
    ),
    (
        "result (id, channel, until_at, finished_at, attempts, outcome, content)"
        " SELECT %(first)s + 4000000 + i, %(channel)s, %(far)s, %(now)s + i, 1, 'completed', 'x'"
    ),
)
HELD = (
    (
        "message (id, channel, dequeue_at, created_at, content) OVERRIDING SYSTEM VALUE"
        " SELECT %(first)s + 1000000 + i, %(channel)s, 1, 1, 'x'"
    ),
    (
        "lease (token, last_id, end_at, dequeued_at, is_limited, stubs)"
        " SELECT gen_random_uuid(), %(first)s + 1000000 + MAX(i), %(now)s + MIN(i), 1, FALSE,"
        " array_agg(ROW(%(first)s + 1000000 + i, 0)::stub ORDER BY i)"
    ),
)


def fill(conn: psycopg.Connection, channel: str, count: int, first: int = 1, *, leases: bool = True) -> None:
    """Messages that wait (in each place), are leased, are dead and are finished, this many of each."""
    given = {"channel": channel, "count": count, "first": first, "now": NOW, "far": FAR}
    for insert in (*PLACES, *HELD) if leases else PLACES:
        table = insert.split()[0]
        kept = {"scheduled": "WHERE i % 4 = 0", "ready": "WHERE i % 4 = 1", "line": "WHERE i % 4 > 1"}
        where = kept.get(table, "").replace("%", "%%")
        where += " GROUP BY i / 100" if table == "lease" else ""
        conn.execute(
            f"INSERT INTO {insert} FROM generate_series(0, %(count)s::INT - 1) i {where}".encode(), given
        )
    conn.execute(
        """
        INSERT INTO backlog (channel, lane, turn, tag, is_open, n, ranges)
        SELECT channel, lane, nextval('turn'), 1, TRUE, COUNT(*),
            ARRAY[ROW(0, MIN(at), MIN(id), 0, MAX(at), MAX(id))::line_range]
        FROM line WHERE channel = %s GROUP BY channel, lane""",
        (channel,),
    )


SETTLED = "message, scheduled, ready, line, backlog, lease, dead, finished, result"


def settle(conn: psycopg.Connection) -> None:
    """Vacuum now, and never later: what a scan reads depends on what was vacuumed."""
    for table in SETTLED.split(", "):
        if table != "finished":  # which is partitioned
            conn.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = FALSE)".encode())
    conn.execute(f"VACUUM (ANALYZE) {SETTLED}".encode())


QUERIES = [
    *(f"SELECT * FROM {view} WHERE channel = 'victim'" for view in VIEWS),
    *(f"SELECT COUNT(*) FROM {view}" for view in VIEWS),
    *(f"SELECT * FROM {view} WHERE id = {VICTIM_ID + 5}" for view in VIEWS),
    *(f"SELECT * FROM {view} WHERE id BETWEEN {VICTIM_ID} AND {VICTIM_ID + 5}" for view in VIEWS),
    f"SELECT id FROM history WHERE channel = 'victim' AND finished_at BETWEEN {NOW} AND {NOW + 41}",
    f"SELECT id FROM dead_letters WHERE channel = 'victim' AND dead_at BETWEEN {NOW} AND {NOW + 41}",
    f"SELECT id FROM leases WHERE lease_end_at < {NOW + 41}",
    f"SELECT id FROM messages WHERE dequeue_at < {NOW + 41} ORDER BY dequeue_at, id LIMIT 3",
    "SELECT id FROM history WHERE xid >= '1'::XID8",
    "SELECT id FROM dead_letters WHERE xid >= '1'::XID8",
    "SELECT channel, COUNT(*) FROM history GROUP BY channel",
    "SELECT * FROM messages m JOIN history h USING (channel) WHERE channel = 'victim'",
    "SELECT * FROM (VALUES ('victim')) v (channel) JOIN messages USING (channel)",
    "SELECT * FROM (VALUES ('victim')) v (name), LATERAL (SELECT FROM leases WHERE channel = v.name) x",
    "SELECT EXISTS (SELECT FROM messages WHERE channel = 'victim')",
    "SELECT channel FROM messages UNION SELECT channel FROM dead_letters",
    "SELECT * FROM channels WHERE channel = 'victim'",
    "SELECT * FROM channels",
    "SELECT * FROM channel_list()",
    "SELECT * FROM channel_stats('mine')",
    "SELECT * FROM channel_explain('mine')",
    "SELECT * FROM channel_get('mine')",
    "SELECT * FROM queue_get()",
    "SELECT * FROM history_bounds()",
    *(f"SELECT * FROM message_list('mine', '{s}')" for s in ("waiting", "due", "scheduled", "leased")),
    "SELECT * FROM message_list('mine', 'leased', p_limit => 1)",
    f"SELECT * FROM message_list('mine', 'leased', p_after => '[\"victim\", 0, {NOW + 10}, 5]')",
    "SELECT * FROM dead_list('mine')",
    "SELECT * FROM dead_list('mine', p_limit => 1)",
    *(f"SELECT * FROM message_get({id_})" for id_ in (5, 1_000_005, 2_000_005, VICTIM_ID + 5, 77)),
    f"SELECT * FROM message_get({VICTIM_ID + 1_000_005})",
    f"SELECT * FROM message_get({VICTIM_ID + 2_000_005})",
    *(
        f"SELECT * FROM status_get({first + place * 1_000_000 + 5}, TRUE)"
        for first in (0, VICTIM_ID)
        for place in range(5)
    ),
    "SELECT * FROM message_visible()",
    "SELECT * FROM dead_visible()",
    f"SELECT * FROM finished_visible({NOW}, {NOW + 5})",
]
EXPLAINS = ("VERBOSE", "ANALYZE, VERBOSE, BUFFERS, TIMING OFF, SUMMARY OFF")


def explained(conn: psycopg.Connection, query: str, options: str) -> str:
    return "\n".join(line for (line,) in conn.execute(f"EXPLAIN ({options}) {query}".encode()))


def learned(tenant: psycopg.Connection, explains: tuple[str, ...] = EXPLAINS) -> dict[tuple[str, str], str]:
    """What EXPLAIN shows, once the session has planned and cached everything."""
    for _ in range(2):
        found = {(query, how): explained(tenant, query, how) for query in QUERIES for how in explains}
    return found


def read_by(plan: str) -> set[str]:
    """What a plan reads, by kind of scan."""
    return set(re.findall(r"(\w+(?: Only| Heap)?) Scan", plan)) - {"Subquery", "Values", "CTE"}


@pytest.mark.slow
def test_explain_tells_the_same_whatever_others_have(
    conn: psycopg.Connection, tenant: psycopg.Connection
) -> None:
    before = learned(tenant)
    fill(conn, "victim", 10_000, VICTIM_ID, leases=False)
    settle(conn)
    after = learned(tenant)
    for asked, plan in after.items():
        assert plan == before[asked], (asked, touched(before[asked]), touched(plan))
        assert read_by(plan) <= {"Function"}, (asked, plan)


@pytest.mark.slow
def test_leases_of_others_are_read_but_not_shown(
    conn: psycopg.Connection, tenant: psycopg.Connection
) -> None:
    """There is no index of leases by channel: the buffers tell how many leases there are in all."""
    explains = ("VERBOSE", "ANALYZE, VERBOSE, BUFFERS OFF, TIMING OFF, SUMMARY OFF")
    before = learned(tenant, explains)
    fill(conn, "victim", 10_000, VICTIM_ID)
    settle(conn)
    assert learned(tenant, explains) == before


def test_whose_leases_they_are_makes_no_difference(
    conn: psycopg.Connection, tenant: psycopg.Connection
) -> None:
    """And neither does the id that is asked for."""
    fill(conn, "victim", 10_000, VICTIM_ID)
    settle(conn)
    asked = (VICTIM_ID + 1_000_005, VICTIM_ID + 5, 77, 999_999_999)
    for _ in range(5):  # the first time, it is planned; an autovacuum of the catalog may come between two
        shown = {
            touched(explained(tenant, f"SELECT * FROM message_get({id_})", EXPLAINS[1])) for id_ in asked
        }
        if len(shown) == 1:
            break
    assert len(shown) == 1, shown


def test_the_same_of_prepared_statements_and_cursors(
    conn: psycopg.Connection, tenant: psycopg.Connection
) -> None:
    shown: list[dict[str, str]] = []
    for _ in range(2):
        shown.append({})
        for mode in ("force_custom_plan", "force_generic_plan"):
            tenant.execute(f"SET plan_cache_mode TO {mode}")
            for view in VIEWS:
                tenant.execute(f"PREPARE q (TEXT) AS SELECT id FROM {view} WHERE channel = $1")
                for how in EXPLAINS * 2:
                    shown[-1][f"{view} {mode} {how}"] = explained(tenant, "EXECUTE q ('victim')", how)
                tenant.execute("DEALLOCATE q")
                cursor = f"DECLARE c CURSOR FOR SELECT id FROM {view} WHERE channel = 'victim'"
                shown[-1][f"{view} cursor"] = explained(tenant, cursor, "VERBOSE")
        if len(shown) == 1:
            fill(conn, "victim", 10_000, VICTIM_ID, leases=False)
            settle(conn)
    assert shown[0] == shown[1]
    assert {kind for plan in shown[1].values() for kind in read_by(plan)} == {"Function"}


def test_it_reads_its_own_rows_and_no_more(conn: psycopg.Connection, tenant: psycopg.Connection) -> None:
    """By an index: the pages of 20 rows, not those of all rows."""
    fill(conn, "victim", 10_000, VICTIM_ID)
    settle(conn)
    for view in VIEWS:
        assert len(tenant.execute(f"SELECT id FROM {view}").fetchall()) == (40 if view == "messages" else 20)
    for rows in ("message_visible(FALSE)", "dead_letters", "history"):
        query = f"SELECT id FROM {rows}"
        for _ in range(2):
            plan = explained(tenant, query, EXPLAINS[1])
        assert len(tenant.execute(query.encode()).fetchall()) == 20
        assert touched(plan) < (150 if "message" in rows else 60), plan


def prepared(conn: psycopg.Connection) -> None:
    """A session whose plans are cached."""
    conn.execute("SET plan_cache_mode TO force_generic_plan")
    for view in VIEWS:
        conn.execute(f"PREPARE {view}_of (TEXT) AS SELECT id FROM {view} WHERE channel = $1")
        conn.execute(f"EXECUTE {view}_of ('mine')")


def seen(conn: psycopg.Connection, channel: str) -> set[int]:
    return {len(conn.execute(f"EXECUTE {view}_of ('{channel}')").fetchall()) for view in VIEWS}


def test_plans_from_before_a_binding_are_replaced(
    conn: psycopg.Connection, tenant: psycopg.Connection
) -> None:
    login = tenant.info.user
    conn.execute("SELECT credential_bind(%s, NULL)", (login,))
    prepared(tenant)
    assert seen(tenant, "aa") == {2000, 4000}
    conn.execute("SELECT credential_bind(%s, '{mine}')", (login,))
    for view in VIEWS:
        assert read_by(explained(tenant, f"EXECUTE {view}_of ('aa')", "VERBOSE")) == {"Function"}
    assert seen(tenant, "aa") == {0}
    assert seen(tenant, "mine") == {20, 40}
    conn.execute("SELECT credential_bind(%s, NULL)", (login,))
    assert "Index" in explained(tenant, "EXECUTE dead_letters_of ('aa')", "VERBOSE")
    assert seen(tenant, "aa") == {2000, 4000}


def test_a_plan_made_for_another_login_shows_nothing_too_much(
    conn: psycopg.Connection, tenant: psycopg.Connection
) -> None:
    prepared(conn)
    assert seen(conn, "aa") == {2000, 4000}
    conn.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(tenant.info.user)))
    assert seen(conn, "aa") == {0}
    plan = explained(conn, "EXECUTE history_of ('aa')", EXPLAINS[1])
    assert not re.search(r"Seq Scan on finished\w*.*rows=[1-9]", plan.replace("never executed", ""))
    prepared_by_tenant = conn
    prepared_by_tenant.execute("DEALLOCATE ALL")
    prepared(prepared_by_tenant)
    prepared_by_tenant.execute("RESET SESSION AUTHORIZATION")
    assert seen(prepared_by_tenant, "aa") == {2000, 4000}


def test_the_indexes_are_those_of_the_channel(conn: psycopg.Connection, tenant: psycopg.Connection) -> None:
    """Also with statistics of one channel only, where a condition on the channel seems to select nothing."""
    for table in ("message", "scheduled", "ready", "line", "backlog", "lease", "dead", "finished_other"):
        conn.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    conn.execute("TRUNCATE message, scheduled, ready, line, backlog, lease, dead, finished, result")
    fill(conn, "mine", 20)
    settle(conn)
    fill(conn, "neighbour", 2000, 10_000_000)
    before = learned(tenant)
    fill(conn, "victim", 10_000, VICTIM_ID, leases=False)
    after = learned(tenant)
    for asked in before:
        if "BUFFERS" in asked[1]:
            assert touched(after[asked]) == touched(before[asked]), (asked, after[asked])


def touched(plan: str) -> int:
    return int((re.findall(r"shared hit=(\d+)", plan) or ["0"])[0])


FREE = {
    f"SELECT * FROM messages WHERE id = {VICTIM_ID}": "message_pkey",
    "SELECT * FROM dead_letters WHERE channel = 'victim'": "dead_channel_ix",
    "SELECT * FROM dead_letters WHERE xid >= '9999999'::XID8": "dead_xid_ix",
    f"SELECT * FROM leases WHERE lease_end_at < {NOW}": "lease_end_ix",
    "SELECT * FROM history WHERE xid >= '9999999'::XID8": "xid_idx",
    "SELECT * FROM history WHERE xid = ANY ('{9999,10000}'::XID8[])": "xid_idx",
    f"SELECT * FROM history WHERE channel = 'aa' AND finished_at > {NOW + 1990}": "channel_finished_at_id",
}


@pytest.mark.parametrize("query", FREE)
def test_a_login_that_is_not_bound_reads_the_tables(
    conn: psycopg.Connection, tenant: psycopg.Connection, query: str
) -> None:
    conn.execute("SET enable_seqscan TO off")  # leases have a few pages
    plan = explained(conn, query, "VERBOSE")
    assert FREE[query] in plan
    assert "_visible" not in plan


def test_a_login_that_is_not_bound_reads_only_the_days_it_asks_for(
    conn: psycopg.Connection, tenant: psycopg.Connection
) -> None:
    row: Any = conn.execute(
        "SELECT to_epoch(now()), to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')"
    ).fetchone()
    plan = explained(conn, f"SELECT id FROM history WHERE finished_at = {row[0]}", "VERBOSE")
    assert re.findall(r"finished_\d+", plan)[0] == f"finished_{row[1]}"
    assert len(set(re.findall(r"on lonnymq\.(finished\w*)", plan))) == 1


def test_tokens_are_not_shown(conn: psycopg.Connection, tenant: psycopg.Connection) -> None:
    for session, count in ((conn, 6020), (tenant, 20)):
        cursor = session.execute("SELECT * FROM message_visible(TRUE)")
        assert "token" not in {column.name for column in cursor.description or ()}
        assert len(cursor.fetchall()) == count


def test_the_limit_over_all_channels_is_not_shown(
    conn: psycopg.Connection, tenant: psycopg.Connection
) -> None:
    """If it is used up, others are at work."""
    conn.execute("SELECT queue_set(p_max_concurrency => 1)")
    asked = "SELECT blocked_by FROM channel_stats('mine')"
    assert conn.execute(asked).fetchone() == ("queue limit",)
    assert tenant.execute(asked).fetchone() == (None,)


def test_a_channel_with_a_size_is_counted_by_itself(
    conn: psycopg.Connection, tenant: psycopg.Connection
) -> None:
    """The first message to it counts the messages it has, leases too. After a rollback, the next one is
    the first."""
    conn.execute("SELECT setval('message_id_seq', 90000000)")
    conn.execute("SELECT channel_set('mine', p_max_size => 1000)")

    def create() -> int:
        with tenant.transaction(force_rollback=True):
            return touched(explained(tenant, "SELECT message_create('mine', '')", EXPLAINS[1]))

    before = [create() for _ in range(4)][-1]
    fill(conn, "victim", 10_000, VICTIM_ID, leases=False)
    settle(conn)
    after = [create() for _ in range(4)][-1]
    assert after <= before + 20, "pages of indexes that are written to"


def test_a_batch_that_another_login_has_staged_looks_like_none(
    conn: psycopg.Connection, tenant: psycopg.Connection
) -> None:
    batch = uuid4()
    asked = f"SELECT staging_discard(ARRAY['{batch}']::UUID[])"

    def buffers() -> int:
        for _ in range(3):
            plan = explained(tenant, asked, "ANALYZE, BUFFERS")
        return touched(plan)

    before = buffers()
    conn.execute(
        "INSERT INTO staging (batch, ord, channel, content)"
        " SELECT %s, n, 'victim', repeat('x', 1000)::BYTEA FROM generate_series(1, 500) n",
        (batch,),
    )
    assert buffers() <= before + 1, "the index has a page by now, and none of its entries is read"


def test_the_status_of_messages_of_others_is_unknown(
    conn: psycopg.Connection, tenant: psycopg.Connection
) -> None:
    fill(conn, "victim", 10, VICTIM_ID)

    def statuses(first: int) -> list[tuple[str, bytes | None]]:
        ids = [first + place * 1_000_000 + 5 for place in range(5)]
        query = "SELECT s.status, s.result_content FROM unnest(%s) i CROSS JOIN LATERAL status_get(i, TRUE) s"
        return tenant.execute(query, (ids,)).fetchall()

    assert [status for status, _ in statuses(1)] == ["due", "leased", "dead", "completed", "completed"]
    assert statuses(1)[4] == ("completed", b"x")
    assert statuses(VICTIM_ID) == [("unknown", None)] * 5
