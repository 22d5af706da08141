"""message_place: how many messages are served before a message."""

import random
from typing import Any

import psycopg

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import dequeue, dispatch
from tests.sql.test_dequeue import fill
from tests.sql.test_stats import shown
from tests.sql.test_tenants import PASSWORD, drop_login, make_login


def place(conn: psycopg.Connection, message_id: int) -> dict[str, Any]:
    [row] = shown(conn, f"message_place({message_id})")
    return {name: value for name, value in row.items() if value is not None}


def create(conn: psycopg.Connection, channel: str, priority: int = 0, at: int | None = None) -> int:
    query = "SELECT id FROM message_create(%s, '', p_priority => %s, p_dequeue_at => %s)"
    [message_id] = conn.execute(query, (channel, priority, at)).fetchone() or ()
    assert isinstance(message_id, int)
    return message_id


def test_the_place_is_how_many_are_served_before(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    choose = random.Random(7)
    ids = []
    for _ in range(60):
        at = clock.at - choose.randrange(-20, 20)
        ids.append(create(conn, "a", choose.randrange(-2, 3), at))
        create(conn, "b", 5)
        conn.execute("SELECT message_create('a', '', p_lane => 'other')")
        if len(ids) % 25 == 0:  # the last ten are not dispatched
            dispatch(conn)
    clock.advance(30)  # some of them are still in the table of scheduled ones
    for _ in range(3):
        places = {message_id: place(conn, message_id)["place"] for message_id in ids}
        assert sorted(places.values()) == list(range(len(ids)))
        dispatch(conn)
    served: list[int] = []
    while len(served) < len(ids):
        messages, _ = dequeue(conn, 10)
        served += [found.id for found in messages if found.id in places]
        dispatch(conn)
        left = [message_id for message_id in ids if message_id not in served]
        now = {message_id: place(conn, message_id)["place"] for message_id in left}
        assert now == {message_id: places[message_id] - len(served) for message_id in left}
    assert served == sorted(ids, key=places.__getitem__)


def test_what_does_not_wait_has_no_place(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    later = create(conn, "a", at=clock.at + 1000)
    expected = {"id": later, "channel": "a", "lane": "default", "status": "scheduled", "reason": "scheduled"}
    assert place(conn, later) == expected | {"dequeue_at": clock.at + 1000, "is_capped": False}
    now = create(conn, "a")
    assert place(conn, now).items() >= {"place": 0, "reason": "not dispatched"}.items()
    dispatch(conn)
    assert place(conn, now).items() >= {"place": 0, "reason": "next", "ahead": 0}.items()
    dequeue(conn, 1)
    assert shown(conn, f"message_place({now})") == []
    assert shown(conn, "message_place(NULL)") == []


def test_what_is_ahead_of_its_channel(conn: psycopg.Connection) -> None:
    fill(conn, b=50)
    fill(conn, a=3)
    conn.execute("SELECT channel_set('a', p_max_concurrency => 1)")
    last = create(conn, "a")
    dispatch(conn)
    [explained] = shown(conn, "channel_explain('a')")
    assert explained["ahead"] > 0
    found = place(conn, last)
    assert (found["place"], found["reason"], found["ahead"]) == (3, "turn", explained["ahead"])


def test_it_counts_up_to_a_thousand(conn: psycopg.Connection) -> None:
    fill(conn, a=1000)
    last = create(conn, "a")
    more = create(conn, "a")
    for _ in range(2):
        assert (place(conn, last)["place"], place(conn, last)["is_capped"]) == (1000, False)
        assert (place(conn, more)["place"], place(conn, more)["is_capped"]) == (1000, True)
        dispatch(conn)


def test_a_tenant_does_not_learn_of_others(conn: psycopg.Connection, connect: Connect) -> None:
    fill(conn, b=50)
    fill(conn, a=2)
    [other] = conn.execute("SELECT MIN(id) FROM message WHERE channel = 'b'").fetchone() or ()
    [last] = conn.execute("SELECT MAX(id) FROM message WHERE channel = 'a'").fetchone() or ()
    login = make_login(conn)
    conn.execute("SELECT credential_bind(%s, '{a}')", (login,))
    try:
        with connect(user=login, password=PASSWORD) as tenant:
            assert place(tenant, last).items() >= {"place": 1, "reason": "turn"}.items()
            assert "ahead" not in place(tenant, last)
            assert shown(tenant, f"message_place({other})") == []
    finally:
        drop_login(conn, login)
