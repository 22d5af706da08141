"""LonnyMQ, from this checkout or another one."""

import subprocess
import sys
from pathlib import Path

import psycopg

from benchmarks.peers.peer import LEASE_SECONDS, PAUSE, Commit, Script, content

SCHEMA = "lonnymq"
QUIET_MS = 10
LEASE_MS = LEASE_SECONDS * 1000
FILL_SIZE = 10_000
INSTALL = """
import sys, psycopg
from lonnymq.install import install
with psycopg.connect(sys.argv[1], autocommit=True) as conn:
    install(conn, schema=sys.argv[2])
"""


class LonnyMQ:
    search_path = SCHEMA
    table = "message"
    sequence = "message_id_seq"

    def __init__(
        self,
        checkout: Path,
        name: str = "lonnymq",
        *,
        limits: str | None = None,
        has_held_snapshot: bool = False,
    ) -> None:
        self.name = name
        self.has_held_snapshot = has_held_snapshot
        self._checkout = checkout
        self._limits = limits
        self.has_limits = limits is not None

    def install(self, dsn: str) -> None:
        """Use the installer of that checkout, which may be older."""
        env = {"PYTHONPATH": str(self._checkout / "src"), "PATH": "/usr/bin:/bin"}
        subprocess.run([sys.executable, "-c", INSTALL, dsn, SCHEMA], check=True, env=env)

    def open_channels(self, conn: psycopg.Connection, channels: int) -> None:
        if self._limits is not None:
            conn.execute(
                f"SELECT channel_set('c' || n, {self._limits}) FROM generate_series(1, {channels}) n"
            )

    def create(self, channels: int, content_bytes: int) -> Script:
        text = content(content_bytes)
        return Script(f"\\set c random(1, {channels})\nSELECT * FROM message_create('c' || :c, '{text}');\n")

    def create_many(self, channels: int, size: int, content_bytes: int) -> Script:
        return Script(
            f"\\set c random(1, {channels})\n"
            "SELECT COUNT(*) FROM message_create_many(\n"
            f"    ARRAY(SELECT 'c' || 1 + (:c + n) % {channels} FROM generate_series(1, {size}) n),\n"
            f"    array_fill('{content(content_bytes)}'::BYTEA, ARRAY[{size}]));\n"
        )

    def consume(self, size: int, commit: Commit) -> Script:
        """Consume as described in docs/sql.md: dispatch when the last dequeue returned an `again_at`."""
        if size == 1:
            lease = "MIN(id) AS id, MIN(token::TEXT) AS token"
            complete = "SELECT message_complete(CAST(:id AS BIGINT), CAST(:token AS UUID))"
        else:
            lease = "array_agg(id) FILTER (WHERE id IS NOT NULL) AS ids, (array_agg(token))[1] AS token"
            one_for_all = "ARRAY[CAST(:token AS UUID)]"
            complete = f"SELECT COUNT(*) FROM message_complete_many(CAST(:ids AS BIGINT[]), {one_for_all})"
        return Script(
            f"""\
\\if :needs_dispatch
SELECT dispatch(1000, {QUIET_MS});
\\endif
SELECT COUNT(id) AS got, {lease}, COUNT(again_at) AS needs_dispatch, SUM(get_byte(content, 0)) AS read
FROM message_dequeue({size}, {LEASE_MS}, p_async_commit => {commit == "async"}) \\gset
\\if :got > 0
{complete};
\\else
{PAUSE}
\\endif
""",
            (("needs_dispatch", "1"),),
        )

    def fill(self, conn: psycopg.Connection, channels: int, messages: int, content_bytes: int) -> None:
        for _ in range(0, messages, FILL_SIZE):
            conn.execute(
                f"""
                SELECT COUNT(*) FROM message_create_many(
                    ARRAY(SELECT 'c' || 1 + n % {channels} FROM generate_series(1, {FILL_SIZE}) n),
                    array_fill('{content(content_bytes)}'::BYTEA, ARRAY[{FILL_SIZE}]))"""
            )
        while conn.execute("SELECT dispatch()").fetchone() == (True,):
            pass
