"""pgmq: one queue in one table, without tenants. Its SQL is in the Python package `pgmq`."""

from importlib.resources import files

import psycopg

from benchmarks.peers.peer import LEASE_SECONDS, PAUSE, SMALL, Commit, Script, commit_mode, content

QUEUE = "bench"


def message(content_bytes: int) -> str:
    return f'{{"m": "{content(content_bytes)}"}}'


MESSAGE = message(SMALL)


def send_many(size: int, content_bytes: int) -> str:
    filled = f"array_fill('{message(content_bytes)}'::JSONB, ARRAY[{size}])"
    return f"SELECT COUNT(*) FROM pgmq.send_batch('{QUEUE}', {filled})"


class Pgmq:
    has_limits = False
    search_path = "public"
    table = f"pgmq.q_{QUEUE}"
    sequence = f"pgmq.q_{QUEUE}_msg_id_seq"

    def __init__(self, name: str = "pgmq", *, has_held_snapshot: bool = False) -> None:
        self.name = name
        self.has_held_snapshot = has_held_snapshot

    def install(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(files("pgmq").joinpath("sql", "pgmq.sql").read_bytes())
            conn.execute("SELECT pgmq.create(%s)", (QUEUE,))

    def open_channels(self, conn: psycopg.Connection, channels: int) -> None:
        """It has no channels."""

    def create(self, channels: int, content_bytes: int) -> Script:  # noqa: ARG002
        return Script(f"SELECT * FROM pgmq.send('{QUEUE}', '{message(content_bytes)}'::JSONB);\n")

    def create_many(self, channels: int, size: int, content_bytes: int) -> Script:  # noqa: ARG002
        return Script(f"{send_many(size, content_bytes)};\n")

    def consume(self, size: int, commit: Commit) -> Script:
        complete, got = (
            (f"SELECT pgmq.delete('{QUEUE}', CAST(:id AS BIGINT));", "COALESCE(MIN(msg_id), 0) AS id")
            if size == 1
            else (
                f"SELECT COUNT(*) FROM pgmq.delete('{QUEUE}', CAST(:ids AS BIGINT[]));",
                "COALESCE(array_agg(msg_id), '{}')::TEXT AS ids",
            )
        )
        return Script(
            f"""\
SELECT COUNT(msg_id) AS got, {got}, COUNT(message -> 'm') AS read
FROM {commit_mode(commit)}
CROSS JOIN LATERAL pgmq.read('{QUEUE}', {LEASE_SECONDS}, CASE WHEN mode.set <> '' THEN {size} END) \\gset
\\if :got > 0
{complete}
\\else
{PAUSE}
\\endif
"""
        )

    def fill(
        self,
        conn: psycopg.Connection,
        channels: int,  # noqa: ARG002
        messages: int,
        content_bytes: int,
    ) -> None:
        conn.execute(send_many(messages, content_bytes))
