"""The SQL of docs/operations.md runs as it stands, and what the pages link to is there."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from tests.judge import dequeue, fold

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "operations.md"


def blocks() -> list[str]:
    return re.findall(r"^```sql\n(.*?)^```\n", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_it_runs_and_finds_what_there_is(conn: psycopg.Connection) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE)")
    for channel in ("megacorp", "acme"):
        for _ in range(4):
            conn.execute("SELECT message_create(%s, '')", (channel,))
    fold(conn)
    done, dead, *_ = dequeue(conn, 4)[0]
    conn.execute("SELECT message_complete(%s, %s)", (done.id, done.token))
    for _ in range(5):
        conn.execute(
            "SELECT message_defer(%s, %s, p_error => E'Traceback\\nno route')", (dead.id, dead.token)
        )
        fold(conn)
        if again := [each for each in dequeue(conn, 8)[0] if each.id == dead.id]:
            [dead] = again
    for channel in ("megacorp", "acme"):
        conn.execute("SELECT message_create(%s, '')", (channel,))
    fold(conn)
    stats, channels, held, died, waits, *_ = [
        conn.execute(block.encode()).fetchall() for block in blocks() if block.count(";") == 1
    ]
    assert stats[0][0:5] == (2, 2, 0, 6, 1)
    assert {row[0] for row in channels} == {"megacorp", "acme"}
    assert len(held) == 6
    assert [(row[1], row[2]) for row in died] == [("no route", 1)]
    assert [row[1] for row in waits] == [1]


def test_every_statement_runs(conn: psycopg.Connection) -> None:
    assert len(blocks()) > 5
    for block in blocks():
        conn.execute(block.encode())
    assert conn.execute("SELECT max_concurrency, paused FROM channel_get('megacorp')").fetchone() == (
        None,
        False,
    )


@pytest.mark.parametrize("page", ["concepts.md", "operations.md"])
def test_what_they_link_to_is_there(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^a-z ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for link in re.findall(r"\]\(([^)]+)\)", text):
        file, _, anchor = link.partition("#")
        assert (DOCS / file).exists() if file else anchor in anchors, link
