"""Queues full of rows that a call should not have to read. They are loaded by the engine's own calls."""

import psycopg
import pytest

BATCH = 10_000
FAR = 4_000_000_000_000  # in the future

# A part of the load shows a cost that grows with it as well as all of it does.
FULL = pytest.param(1.0, id="full", marks=pytest.mark.long)
loaded = pytest.mark.parametrize("load", [pytest.param(0.05, id="a twentieth"), FULL])
loaded_more = pytest.mark.parametrize("load", [pytest.param(0.1, id="a tenth"), FULL])


def create(
    conn: psycopg.Connection,
    messages: int,
    channels: int,
    prefix: str,
    dequeue_at: int | None = None,
    in_a_row: int = 1,
) -> None:
    """Into the channels in turn, `in_a_row` messages each, so that the heads of the channels are on the
    same pages.
    """
    for start in range(0, messages, BATCH):
        size = min(BATCH, messages - start)
        conn.execute(
            """
            SELECT COUNT(*) FROM message_create_many(
                ARRAY(SELECT %(prefix)s || (1 + n / %(row)s %% %(channels)s)
                    FROM generate_series(%(start)s::INT, %(last)s::INT) n),
                array_fill('waits'::BYTEA, ARRAY[%(size)s]), array_fill(%(at)s::BIGINT, ARRAY[%(size)s]))""",
            {
                "prefix": prefix,
                "row": in_a_row,
                "channels": channels,
                "start": start,
                "last": start + size - 1,
                "size": size,
                "at": dequeue_at,
            },
        )


def dispatch_in_bulk(conn: psycopg.Connection) -> None:
    while conn.execute("SELECT dispatch(10000)").fetchone() == (True,):
        pass


def limit_channels(conn: psycopg.Connection, channels: int, prefix: str, max_concurrency: int) -> None:
    conn.execute(
        "SELECT COUNT(*) FROM generate_series(1, %s::INT) n CROSS JOIN LATERAL channel_set(%s || n, %s)",
        (channels, prefix, max_concurrency),
    )


def make_indexes_tall(conn: psycopg.Connection, load: float = 0.1) -> None:
    """Load messages that are not due, so that the indexes already have their height when costs are first
    counted. Also creates more channels than a maintain reads.
    """
    limit_channels(conn, 2_000, "tall ", 1)
    create(conn, int(200_000 * load), 2_000, "tall ", FAR, in_a_row=int(100 * load))
    dispatch_in_bulk(conn)
