"""The list of workers: what they report, what is requested of them, and when they are forgotten."""

from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.clock import FakeClock
from tests.database import Connect

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    return FakeClock(conn)


def report(
    conn: psycopg.Connection,
    worker: UUID,
    name: str = "w",
    *,
    host: str = "web",
    tasks: list[str] | None = None,
    running: int = 0,
    state: str = "serving",
    uptime_ms: int = 0,
    unknown: dict[str, tuple[int, int]] | None = None,
) -> Any:
    """`unknown`: for each task, how many messages were met, and for how many ms."""
    met = unknown or {}
    return conn.execute(
        "SELECT * FROM worker_report(%s, %s, %s, 7, '1.0', %s, %s, 10, %s, %s, NULL, %s, %s, %s)",
        (
            *(worker, name, host, uptime_ms, tasks or [], running, state),
            *(list(met), [count for count, _ in met.values()], [age for _, age in met.values()]),
        ),
    ).fetchone()


def listed(conn: psycopg.Connection) -> list[dict[str, Any]]:
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute("SELECT * FROM worker_list()").fetchall()


def request(conn: psycopg.Connection, name: str, state: str) -> list[tuple[str, bool]]:
    return conn.execute("SELECT name, is_alive FROM worker_request(%s, %s)", (name, state)).fetchall()


def test_a_worker_from_its_first_report_to_its_last(conn: psycopg.Connection, clock: FakeClock) -> None:
    one, two = uuid4(), uuid4()
    begun = clock.at
    assert report(conn, one, "b", tasks=["send"], uptime_ms=500) == ("serving", [])
    assert report(conn, two, "a") == ("serving", [])
    clock.advance(5 * SECOND)
    assert report(conn, one, "b", running=3, state="draining") == ("serving", [])
    first, second = listed(conn)
    assert (first["id"], second["id"]) == (two, one), "by name"
    assert second == {
        "id": one,
        "name": "b",
        "host": "web",
        "pid": 7,
        "version": "1.0",
        "started_at": begun - 500,
        "seen_at": clock.at,
        "is_alive": True,
        "state": "draining",
        "requested": "serving",
        "concurrency": 10,
        "running": 3,
        "lanes": None,
        "tasks": ["send"],
        "unknown_tasks": [],
    }
    assert conn.execute("SELECT worker_leave(%s), worker_leave(%s)", (one, one)).fetchone() == (True, False)
    assert [worker["name"] for worker in listed(conn)] == ["a"]


def test_a_worker_that_does_not_report_is_lost_and_then_forgotten(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    dead, alive = uuid4(), uuid4()
    report(conn, dead, "dead", tasks=["send"])
    clock.advance(30 * SECOND)
    report(conn, alive, "alive")
    assert [(worker["name"], worker["is_alive"]) for worker in listed(conn)] == [
        ("alive", True),
        ("dead", False),
    ]
    assert conn.execute("SELECT workers FROM queue_stats()").fetchone() == (1,)
    clock.advance(HOUR - 30 * SECOND)
    assert conn.execute("SELECT maintain()").fetchone() == (0,)
    clock.advance(1)
    report(conn, alive, "alive")
    assert conn.execute("SELECT maintain()").fetchone() == (1,)
    assert [worker["name"] for worker in listed(conn)] == ["alive"]


def test_a_lost_worker_is_not_listed_once_another_one_has_its_name_on_its_host(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    lost, second, elsewhere = uuid4(), uuid4(), uuid4()
    report(conn, lost, "mail")
    report(conn, second, "mail")
    clock.advance(20 * SECOND)
    report(conn, second, "mail")
    clock.advance(10 * SECOND)
    report(conn, elsewhere, "mail", host="other")
    ids = [lost, second, elsewhere]
    assert sorted(row["id"] for row in listed(conn)) == sorted(ids), "the others do not replace it"

    new = uuid4()
    report(conn, new, "mail", uptime_ms=SECOND)
    assert sorted(row["id"] for row in listed(conn)) == sorted([second, elsewhere, new])
    assert request(conn, "mail", "paused") == [("mail", True)] * 3
    assert report(conn, lost, "mail") == ("paused", []), "it was only suspended"
    assert sorted(row["id"] for row in listed(conn)) == sorted([*ids, new])


def test_a_report_is_one_small_update(conn: psycopg.Connection, connect: Connect) -> None:
    """It replaces the row in its page, and does not write the tasks again, however many there are."""
    worker = uuid4()
    tasks = [f"{n:x}".ljust(40, "x") + uuid4().hex for n in range(1000)]
    report(conn, worker, tasks=tasks)
    [([found],)] = conn.execute(
        "EXPLAIN (ANALYZE, WAL, FORMAT JSON)"
        " SELECT worker_report(%s, 'w', 'h', 7, '1', 0, %s, 1, 0, 'paused')",
        (worker, tasks),
    ).fetchall()
    assert 0 < found["Plan"]["WAL Bytes"] < 20_000, "the tasks are more"
    with connect(autocommit=False) as own:
        hot = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'worker'"
        for n in range(20):
            report(own, worker, tasks=tasks, running=n)
        [(updates, hot_updates)] = own.execute(hot).fetchall()
        assert (updates >= 20, hot_updates) == (True, updates)


def test_requests_are_answered_with_the_next_report(conn: psycopg.Connection, clock: FakeClock) -> None:
    one, two, other = uuid4(), uuid4(), uuid4()
    report(conn, one, "mail_1", host="left")
    report(conn, two, "mail_2", host="right")
    report(conn, other, "mailX1", host="right")
    assert request(conn, "mail_*", "paused") == [("mail_1", True), ("mail_2", True)]
    assert request(conn, "mail", "paused") == []
    assert request(conn, "MAIL_1", "paused") == []
    assert report(conn, one, "mail_1") == ("paused", [])
    assert report(conn, other, "mailX1") == ("serving", [])
    assert [worker["requested"] for worker in listed(conn)] == ["serving", "paused", "paused"]
    assert request(conn, "right", "draining") == [("mailX1", True), ("mail_2", True)]
    assert report(conn, two, "mail_2") == ("draining", [])
    assert request(conn, "mail_1", "serving") == [("mail_1", True)]
    assert report(conn, one, "mail_1") == ("serving", [])
    clock.advance(MINUTE)
    assert request(conn, "*", "paused") == [("mailX1", False), ("mail_1", False), ("mail_2", False)]


def test_a_paused_worker_that_was_forgotten_stays_paused(conn: psycopg.Connection) -> None:
    worker = uuid4()
    report(conn, worker)
    request(conn, "w", "paused")
    conn.execute("DELETE FROM worker")
    assert report(conn, worker, state="paused") == ("paused", [])
    conn.execute("DELETE FROM worker")
    assert report(conn, worker, state="draining") == ("serving", []), "nobody has requested that"


def test_a_report_does_not_wait_for_a_request(conn: psycopg.Connection, connect: Connect) -> None:
    worker = uuid4()
    report(conn, worker, running=1)
    conn.execute("SET lock_timeout TO '5s'")
    with connect(autocommit=False) as admin:
        request(admin, "w", "paused")
        assert report(conn, worker, running=2) == ("serving", [])
        assert listed(conn)[0]["running"] == 1
        admin.commit()
    assert report(conn, worker, running=2) == ("paused", [])
    assert listed(conn)[0]["running"] == 2


def test_tasks_that_no_live_worker_knows(conn: psycopg.Connection, clock: FakeClock) -> None:
    old, older, new = uuid4(), uuid4(), uuid4()
    met = clock.at
    clock.advance(9 * SECOND)
    assert report(conn, old, "old", tasks=["a"], unknown={"new": (3, 9 * SECOND), "": (1, 0)}) == (
        "serving",
        ["new", ""],
    )
    assert report(conn, older, "older", unknown={"a": (1, 0), "new": (2, SECOND)}) == ("serving", ["new"])
    rows = conn.execute("SELECT * FROM unknown_task_list()").fetchall()
    assert rows == [
        ("", 1, clock.at, 1, False),
        ("a", 1, clock.at, 1, True),
        ("new", 5, met, 2, False),
    ]
    unknown = "SELECT unknown_tasks FROM queue_stats()"
    assert conn.execute(unknown).fetchone() == (["", "new"],)
    assert report(conn, new, "new", tasks=["new", ""]) == ("serving", [])
    assert conn.execute(unknown).fetchone() == ([],)
    clock.advance(30 * SECOND)
    report(conn, old, "old", unknown={"new": (3, MINUTE)})
    assert conn.execute(unknown).fetchone() == (["new"],), "the worker that knew it is gone"
    clock.advance(30 * SECOND)
    assert conn.execute(unknown).fetchone() == ([],), "and so is everybody who met it"


ME = "'00000000-0000-0000-0000-000000000001'"
NOW = "'{0}'"


@pytest.mark.parametrize(
    ("call", "sqlstate", "says"),
    [
        (f"worker_report({ME}, '', 'h', 1, '1', 0, '{{}}', 1, 0, 'serving')", "LM010", "1 to 255 bytes"),
        (f"worker_report({ME}, NULL, 'h', 1, '1', 0, '{{}}', 1, 0, 'serving')", "LM010", "1 to 255 bytes"),
        ("worker_report(NULL, 'w', 'h', 1, '1', 0, '{}', 1, 0, 'serving')", "LM010", "see docs/sql.md"),
        (f"worker_report({ME}, 'w', 'h', 1, '1', 0, NULL, 1, 0, 'serving')", "LM010", "10,000 tasks"),
        (f"worker_report({ME}, 'w', 'h', 1, '1', -1, '{{}}', 1, 0, 'serving')", "LM010", "see docs/sql.md"),
        (
            f"worker_report({ME}, 'w', 'h', 1, '1', (-2^63)::BIGINT, '{{}}', 1, 0, 'serving')",
            "LM010",
            "see docs/sql.md",
        ),
        (f"worker_report({ME}, 'w', 'h', 1, '1', 0, '{{}}', 0, 0, 'serving')", "LM010", "see docs/sql.md"),
        (f"worker_report({ME}, 'w', 'h', 1, '1', 0, '{{}}', 1, 0, 'idle')", "LM010", "serving, paused or"),
        (
            f"worker_report({ME}, 'w', 'h', 1, '1', 0, '{{}}', 1, 0, 'serving', NULL, '{{x}}', '{{1}}')",
            "LM006",
            "one element",
        ),
        (
            f"worker_report({ME}, 'w', '', 1, '', 0, '{{}}', 1, 0, 'paused', NULL, '{{x}}', '{{0}}', {NOW})",
            "LM010",
            "100 unknown tasks",
        ),
        ("worker_request('w', 'stopped')", "LM010", "serving, paused or draining"),
        ("worker_request('w', NULL)", "LM010", "serving, paused or draining"),
        ("worker_request(NULL, 'paused')", "LM010", "* for all workers"),
    ],
)
def test_refusals(conn: psycopg.Connection, call: str, sqlstate: str, says: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        conn.execute(f"SELECT * FROM {call}".encode())
    assert refused.value.sqlstate == sqlstate
    assert says in (refused.value.diag.message_hint or "")
    assert listed(conn) == []
