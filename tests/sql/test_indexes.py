"""The indexes that everything stands on."""

import psycopg


def test_what_must_be_unique(conn: psycopg.Connection) -> None:
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
        ("ring", "channel, turn"),
        ("tick", "id"),
        ("queue", "only_row"),
        ("fold_lock", "only_row"),
        ("upkeep", "only_row"),
        ("dedupe", "channel, key"),
        ("capacity", "channel, turn"),
        ("queue_slot", "number, turn"),
        ("sleep", "id"),
        ("tally", "channel"),
        ("credential", "role"),
    } <= set(rows)
