"""The prototype of LonnyMQ: a counter and a head in the channel's row, and one message per call."""

from pathlib import Path

import psycopg

from benchmarks.peers.peer import PAUSE, Commit, Script, commit_mode, content

SQL = Path(__file__).with_name("prototype.sql")


class Prototype:
    name = "prototype"
    has_limits = False
    has_held_snapshot = False
    search_path = "prototype"
    table = "message"
    sequence = "message_id_seq"

    def install(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(SQL.read_bytes())

    def open_channels(self, conn: psycopg.Connection, channels: int) -> None:
        conn.execute(f"INSERT INTO channel (name) SELECT 'c' || n FROM generate_series(1, {channels}) n")

    def create(self, channels: int, content_bytes: int) -> Script:
        text = content(content_bytes)
        return Script(f"\\set c random(1, {channels})\nSELECT message_create('{text}', 'c' || :c, NULL);\n")

    def create_many(self, channels: int, size: int, content_bytes: int) -> None:
        """It has no batches."""

    def consume(self, size: int, commit: Commit) -> Script | None:
        if size > 1:
            return None
        return Script(
            f"""\
SELECT COALESCE(MIN(channel), '') AS channel, COUNT(channel) AS got, SUM(get_byte(content, 0)) AS read
FROM {commit_mode(commit)} CROSS JOIN LATERAL message_dequeue() WHERE mode.set IS NOT NULL \\gset
\\if :got > 0
SELECT message_complete(:channel);
\\else
{PAUSE}
\\endif
"""
        )

    def fill(self, conn: psycopg.Connection, channels: int, messages: int, content_bytes: int) -> None:
        conn.execute(
            f"SELECT COUNT(message_create('{content(content_bytes)}', 'c' || 1 + n % {channels}, NULL)) "
            f"FROM generate_series(1, {messages}) n"
        )
