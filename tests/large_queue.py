"""Loads a queue of any size, quickly, by the engine's own calls: for tests of what a large queue costs.

One channel in a hundred has a limit, so that a list of blocked channels is not empty.
"""

from dataclasses import dataclass

import psycopg

BATCH = 20_000
DISPATCHED = 10_000
LIMITED = 100
"""One channel in this many has a policy: they are paused, limited to one message, or slow, in turn."""


@dataclass(frozen=True)
class LargeQueue:
    messages: int
    channels: int
    noisy: str
    """This channel has a tenth of the messages; the others have the rest, in equal parts."""


def channel_name(number: int) -> str:
    """In the order of names, channels are in the order of their numbers.

    >>> channel_name(7)
    'tenant-0000007'
    """
    return f"tenant-{number:07}"


def load(conn: psycopg.Connection, messages: int = 1_000_000, channels: int = 100_000) -> LargeQueue:
    """Create due messages and dispatch them. A million messages in 100,000 channels take about a minute.

    The connection is in autocommit mode, and its search_path is the schema of the queue. The messages of a
    channel are created in a row: a dispatch that finds few channels is quicker.
    """
    _limit(conn, channels)
    for start in range(0, messages, BATCH):
        last = min(messages, start + BATCH) - 1
        conn.execute(
            """
            SELECT COUNT(*) FROM message_create_many(
                ARRAY(SELECT 'tenant-' || lpad((CASE WHEN n %% 10 = 9 THEN 0
                        ELSE 1 + n * (%(channels)s - 1) / %(messages)s END)::TEXT, 7, '0')
                    FROM generate_series(%(start)s::BIGINT, %(last)s::BIGINT) n),
                array_fill('waits'::BYTEA, ARRAY[%(last)s - %(start)s::INT + 1]))""",
            {"channels": channels, "messages": messages, "start": start, "last": last},
        )
    while conn.execute("SELECT dispatch(%s)", (DISPATCHED,)).fetchone() == (True,):
        pass
    conn.execute("ANALYZE")
    return LargeQueue(messages, channels, channel_name(0))


def _limit(conn: psycopg.Connection, channels: int) -> None:
    policies = ("p_paused => TRUE", "p_max_concurrency => 1", "p_release_interval_us => 60000000")
    for turn, policy in enumerate(policies):
        conn.execute(
            "SELECT COUNT(*) FROM generate_series(%s::INT, %s::INT, %s::INT) n"
            f" CROSS JOIN LATERAL channel_set('tenant-' || lpad(n::TEXT, 7, '0'), {policy})",
            (LIMITED * (turn + 1) - 1, channels - 1, LIMITED * len(policies)),
        )
