"""The indexes and replica identities that the queue relies on."""

import psycopg


def test_unique_indexes(conn: psycopg.Connection) -> None:
    rows = conn.execute(
        """
        SELECT c.relname, string_agg(a.attname, ', ' ORDER BY a.attnum)
        FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_attribute a ON a.attrelid = i.indexrelid
        WHERE i.indisunique AND i.indisvalid AND c.relnamespace = 'lonnymq'::regnamespace
        GROUP BY c.relname, i.indexrelid ORDER BY 1"""
    ).fetchall()
    assert {
        ("message", "id"),
        ("dead", "id"),
        ("channel", "name"),
        ("line", "channel, lane, rank, at, id, generation"),
        ("ready", "lane, tag, id, generation"),
        ("lease", "token, last_id"),
        ("backlog", "channel, lane, turn"),
        ("tick", "id"),
        ("queue", "only_row"),
        ("dispatch_lock", "only_row"),
        ("maintenance", "only_row"),
        ("dedupe", "channel, key, turn"),
        ("capacity", "channel, turn"),
        ("slots", "channel, turn"),
        ("sleep", "id"),
        ("tally", "channel"),
        ("credential", "role, name"),
        ("batch", "id"),
        ("batch_part", "batch_id, id"),
        ("batch_count", "batch_id, turn"),
    } <= set(rows)


def test_every_table_has_a_replica_identity(conn: psycopg.Connection) -> None:
    """Without one, a publication FOR ALL TABLES makes every update and delete of the table fail. Unlogged
    tables are not published.
    """
    conn.execute("SELECT * FROM queue_set(p_history => TRUE)")  # creates partitions
    rows = conn.execute(
        """
        SELECT c.relname, c.relreplident = 'f' OR EXISTS (
            SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisvalid
                AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END)
        FROM pg_class c WHERE c.relnamespace = 'lonnymq'::REGNAMESPACE AND c.relkind IN ('r', 'p')
            AND c.relpersistence = 'p'"""
    ).fetchall()
    tables: dict[str, bool] = dict(rows)
    assert sum(name.startswith("finished_2") for name in tables) == 8
    assert {name for name, has_identity in tables.items() if not has_identity} == set()
