"""Dead letters grouped by what went wrong; retries of a group, spread over a time."""

import asyncio
import json
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg
import pytest

from tests.clock import FakeClock
from tests.invariants import check

SECOND, MINUTE = 1000, 60_000


def raised(action: Callable[[], object]) -> str:
    """The traceback of what the action raises."""
    try:
        action()
    except BaseException as error:  # noqa: BLE001 - an exception group need not be an Exception
        return "".join(traceback.format_exception(error)).rstrip()
    raise AssertionError("it raised nothing")


NOBODY: dict[str, int] = {}


def chained(*, is_traced: bool) -> str:
    """An exception with a cause. One that was never raised has no traceback of its own."""
    error = ValueError("order 7 is broken\nand has a second line")

    def fail() -> None:
        try:
            NOBODY["customer 7"]
        except KeyError as cause:
            raise error from cause

    text = raised(fail)
    return text if is_traced else "".join(traceback.format_exception(error.with_traceback(None)))


async def fail_together() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.wait_for(asyncio.sleep(60), 0.001))


def pattern_of(conn: psycopg.Connection, error: str | None) -> str | None:
    row = conn.execute("SELECT error_pattern(%s)", (error,)).fetchone()
    assert row is not None
    found: str | None = row[0]
    return found


TEXTS: dict[str | None, str | None] = {
    None: None,
    " \n ": None,
    "the lease ran out": "the lease ran out",
    "\n  no route to 10.0.0.7:5432\nretried 5 times": "no route to #",
    f"no customer {uuid4()} in 0x7F3a of 5f3c9a1e77b0": "no customer # in # of #",
    "a decade of facade in abcdef12xyz": "a decade of facade in abcdef#xyz",
    "it took 5.3 s, not -2,000 ms at 12:30:01": "it took # s, not -# ms at #",
    "can't open 'a \\' b', don't know b'x' or \"it's\"": "can't open '...', don't know b'...' or \"...\"",
    "wrong: '" + "x" * 5000: "wrong: '...'",
    "y" * 300: "y" * 200,
    'invalid input syntax for type integer: "seven"': 'invalid input syntax for type integer: "..."',
}


def test_the_pattern_of_an_error_leaves_out_what_varies(conn: psycopg.Connection) -> None:
    for error, pattern in TEXTS.items():
        assert pattern_of(conn, error) == pattern, error


def test_the_pattern_of_a_traceback_is_that_of_its_exception(conn: psycopg.Connection) -> None:
    conn.execute("CREATE TABLE public.one (id INT PRIMARY KEY)")
    twice = "INSERT INTO public.one VALUES (7), (7)"
    texts = {
        raised(lambda: NOBODY["customer 7"]): "KeyError: '...'",
        raised(lambda: json.loads('{"a" 1}')): (
            "json.decoder.JSONDecodeError: Expecting '...' delimiter: line # column # (char #)"
        ),
        raised(lambda: conn.execute(twice)): (
            'psycopg.errors.UniqueViolation: duplicate key value violates unique constraint "..."'
        ),
        raised(lambda: compile("a b", "x.py", "exec")): "SyntaxError: invalid syntax",
        raised(lambda: asyncio.run(fail_together())): "TimeoutError",
        chained(is_traced=True): "ValueError: order # is broken",
        chained(is_traced=False): "ValueError: order # is broken",
    }
    for error, pattern in texts.items():
        assert pattern_of(conn, error) == pattern, error


class Group(NamedTuple):
    pattern: str | None
    task: str | None
    channel: str | None
    messages: int
    channels: int
    first_dead_at: int
    last_dead_at: int
    example_id: int
    has_more: bool


def groups(conn: psycopg.Connection, arguments: str = "") -> list[Group]:
    columns = ", ".join(Group._fields)
    return [Group(*row) for row in conn.execute(f"SELECT {columns} FROM dead_groups({arguments})")]


def bury(conn: psycopg.Connection, *rows: tuple[str, str | None, str | None]) -> list[int]:
    """Make dead letters of a channel, a task and an error, the first a second after 1970."""
    ids = range(1, len(rows) + 1)
    for message_id, (channel, task, error) in zip(ids, rows, strict=True):
        conn.execute(
            "INSERT INTO dead (id, dequeue_at, created_at, dead_at, generation, attempts, cost, priority,"
            " lane, channel, error, headers, content)"
            " VALUES (%s, 0, 0, %s, 1, 1, 1, 0, 'default', %s, %s, %s, '')",
            (message_id, message_id * SECOND, channel, error, json.dumps({"task": task}) if task else None),
        )
    return list(ids)


@pytest.fixture
def dead(conn: psycopg.Connection) -> list[int]:
    return bury(
        conn,
        ("a", "mail", "no route to 1"),
        ("b", "mail", "no route to 2"),
        ("a", "mail", "no route to 3"),
        ("a", "bill", "no route to 4"),
        ("b", None, None),
    )


def fingerprint_of(conn: psycopg.Connection, message_id: int) -> str:
    row = conn.execute(
        "SELECT fingerprint FROM dead_groups() WHERE example_id = %s", (message_id,)
    ).fetchone()
    assert row is not None
    found: str = row[0]
    return found


@pytest.mark.usefixtures("dead")
def test_groups_have_a_task_and_a_pattern_the_largest_first(conn: psycopg.Connection) -> None:
    mail = Group("no route to #", "mail", None, 3, 2, 1000, 3000, 3, has_more=False)
    bill = Group("no route to #", "bill", None, 1, 1, 4000, 4000, 4, has_more=False)
    unknown = Group(None, None, None, 1, 1, 5000, 5000, 5, has_more=False)
    assert groups(conn) == [mail, unknown, bill]
    assert groups(conn, "p_limit => 1") == [mail]
    assert groups(conn, "p_channel => 'b'") == [
        unknown,
        mail._replace(messages=1, channels=1, first_dead_at=2000, last_dead_at=2000, example_id=2),
    ]
    assert [(each.channel, each.messages) for each in groups(conn, "p_by_channel => TRUE")] == [
        *(("a", 2), ("b", 1), ("a", 1)),
        ("b", 1),
    ]
    assert groups(conn, "'nobody'") == []


@pytest.mark.usefixtures("dead")
def test_groups_of_the_newest_say_that_there_are_more(conn: psycopg.Connection) -> None:
    assert [(each.example_id, each.has_more) for each in groups(conn, "p_scan => 2")] == [
        (5, True),
        (4, True),
    ]
    assert [each.has_more for each in groups(conn, "p_scan => 5")] == [False] * 3
    assert [(each.example_id, each.has_more) for each in groups(conn, "'a', p_scan => 2")] == [
        *((4, True), (3, True)),
    ]


def test_a_group_is_listed_retried_and_discarded(conn: psycopg.Connection, dead: list[int]) -> None:
    def ids(call: str, *parameters: Any) -> list[int]:
        return [row[0] for row in conn.execute("SELECT id FROM " + call, parameters)]

    mail, unknown = fingerprint_of(conn, dead[2]), fingerprint_of(conn, dead[4])
    assert ids("dead_list(p_fingerprint => %s)", mail) == dead[:3]
    assert ids("dead_list('a', p_fingerprint => %s)", mail) == [dead[0], dead[2]]
    retry = "SELECT * FROM dead_retry_all('a', p_fingerprint => %s, p_dry_run => %s)"
    assert conn.execute(retry, (mail, True)).fetchone() == (2, 0, None)
    assert ids("dead_list()") == dead, "a dry run changes nothing"
    assert conn.execute(retry, (mail, False)).fetchone() == (2, 0, None)
    assert ids("dead_list()") == [dead[1], dead[3], dead[4]]
    discard = "SELECT * FROM dead_discard_all(p_fingerprint => %s)"
    assert conn.execute(discard, (unknown,)).fetchone() == (1, None)
    assert conn.execute(discard, ("0" * 12,)).fetchone() == (0, None), "the group may be gone by now"
    assert ids("dead_list()") == [dead[1], dead[3]]
    check(conn)


def test_a_dry_run_has_pages(conn: psycopg.Connection, dead: list[int]) -> None:
    dry_run = "SELECT * FROM dead_retry_all(p_dry_run => TRUE, p_limit => 3, p_after => %s)"
    assert conn.execute(dry_run, (0,)).fetchone() == (3, 0, dead[2])
    assert conn.execute(dry_run, (dead[2],)).fetchone() == (2, 0, None)


def due_times(conn: psycopg.Connection) -> list[int]:
    return [row[0] for row in conn.execute("SELECT dequeue_at FROM message ORDER BY id")]


def test_retries_are_spread_evenly_in_the_order_of_ids(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    bury(conn, *[("a", None, "no")] * 4)
    conn.execute("SELECT dead_retry_all(p_spread_ms => %s)", (MINUTE,))
    assert due_times(conn) == [clock.at + part * MINUTE // 4 for part in range(4)]
    check(conn)


def test_retries_in_pieces_are_spread_evenly_together(conn: psycopg.Connection) -> None:
    """Each piece is spread over the whole time, and does not make its messages due together with others."""
    clock = FakeClock(conn)
    bury(conn, *[("a", None, "no")] * 45)
    after: int | None = 0
    while after is not None:
        row = conn.execute(
            "SELECT next_after FROM dead_retry_all(p_dequeue_at => %s, p_after => %s, p_limit => 10,"
            " p_spread_ms => %s)",
            (clock.at + SECOND, after, MINUTE),
        ).fetchone()
        assert row is not None
        after = row[0]
    passed = [at - clock.at - SECOND for at in due_times(conn)]
    assert passed[0] == 0
    assert all(0 <= time < MINUTE for time in passed)
    for piece in (passed[start : start + 10] for start in range(0, 45, 10)):
        step = MINUTE // len(piece)
        assert [time - piece[0] for time in piece] == [step * nth for nth in range(len(piece))]
        assert piece[0] < step
    assert any(passed[10:40:10]), "later pieces begin at random"
    check(conn)
