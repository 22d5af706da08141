"""One round of everything that producers and consumers do, with each call counted.

A round leaves as many messages waiting as it found, and uses the same number of channels whatever else
there is.
"""

from enum import Flag, auto
from typing import Any

import psycopg

from tests.invariants import dispatch
from tests.plans.buffers import Costs, Meter

HOUR = 3_600_000
ROUNDS = 5
# The first calls of a session read the catalogue, and PostgreSQL tries five plans before it keeps one.
WARM_UP_ROUNDS = 6

# The calls that are counted, and how often each descends an index: to find a row, or to add an entry for a
# new version of it.
DESCENTS = {
    "create": 3,  # a message, its notice, and whether a consumer sleeps
    "create_many of 10": 10 + 3,
    # Its message; the last entry of its channel (twice), line, policy and slots; two index entries. A line
    # has one index entry, its backlog two.
    "dispatch of 11 notices": 11 * 11,
    "dispatch of nothing": 8,
    "dispatch of a dequeue": 15,  # with a search for expired leases, if the last one was a second ago
    "dispatch of 10 leases that ran out": 10
    * 15,  # the lease, the message three times; then like any other message
    "look": 10,
    "look at nothing": 10,
    "dequeue of nothing": 8,
    "dequeue of 1": 8,
    "dequeue of 10": 10 + 8,  # the messages; the entries of ready are on the same pages
    "dequeue of 50": 50 + 8,
    "dequeue of 20, 10 of them urgent": 20 + 8,
    "extend": 6,
    "extend_many of 10": 10 * 4,
    "retry": 6,
    "retry_many of 10": 10 * 4,
    "complete": 3,
    "discard": 6,
    "complete_many of 50": 50 * 3,  # each may be on another page than the one before
    "maintain": 20,
}
UNCOUNTED = "not counted"


class Workload(Flag):
    NARROW = auto()  # ten channels and more
    WIDE = auto()  # 250 and more: more than any call reads
    DRAINED = auto()  # nothing is due when a round begins
    LIMITED = auto()  # the channels have a max_concurrency
    ONE_TIME = auto()  # all messages have the same dequeue_at


def names(count: int) -> str:
    return "ARRAY[" + ", ".join(f"'c{number}'" for number in range(1, count + 1)) + "]"


def creation(channels: int, dequeue_at: int | None) -> str:
    """A call that creates one message in each of this many channels."""
    ats = "NULL" if dequeue_at is None else f"array_fill({dequeue_at}::BIGINT, ARRAY[{channels}])"
    return f"message_create_many({names(channels)}, array_fill('x'::BYTEA, ARRAY[{channels}]), {ats})"


def listed(messages: list[Any]) -> str:
    ids = ", ".join(str(message["id"]) for message in messages)
    tokens = ", ".join(f"'{message['token']}'" for message in messages)
    return f"ARRAY[{ids}]::BIGINT[], ARRAY[{tokens}]::UUID[]"


def alone(messages: list[Any]) -> str:
    (message,) = messages
    return f"{message['id']}, '{message['token']}'"


def dequeue(meter: Meter, limit: int, name: str = UNCOUNTED, lease_ms: int = HOUR) -> list[Any]:
    messages = meter.count(name, f"message_dequeue({limit}, {lease_ms})")
    assert [message["id"] is None for message in messages] == [False] * limit, messages
    return messages


def run_round(meter: Meter, workload: Workload) -> None:
    dispatch(meter.conn)
    usual_at = 0 if Workload.ONE_TIME in workload else None
    if Workload.NARROW in workload:
        run_singly_and_by_tens(meter, usual_at)
    if Workload.WIDE in workload:
        run_by_fifties(meter, usual_at)
    if Workload.DRAINED in workload:
        dispatch(meter.conn)  # a list of slots may be due for another look
        # Right after a dispatch, a dequeue does not check whether another one is due.
        meter.conn.execute("UPDATE tick SET at = at - 1000")
        (row,) = meter.count("dequeue of nothing", "message_dequeue(10)")
        assert row["id"] is None, row
        (row,) = meter.count("look at nothing", "sleep_look()")
        assert not row["is_due"], row


def run_singly_and_by_tens(meter: Meter, usual_at: int | None) -> None:
    conn, count = meter.conn, meter.count
    count("create", f"message_create('c1', 'x', {'NULL' if usual_at is None else usual_at})")
    count("create_many of 10", creation(10, usual_at))
    count("dispatch of 11 notices", "dispatch()")
    count("dispatch of nothing", "dispatch()")
    count("look", "sleep_look()")

    message = dequeue(meter, 1, "dequeue of 1")
    dispatch(conn)
    count("extend", f"message_extend({alone(message)}, {2 * HOUR})")
    count("complete", f"message_complete({alone(message)})")

    messages = dequeue(meter, 10, "dequeue of 10")
    count("dispatch of a dequeue", "dispatch()")
    count("extend_many of 10", f"message_extend_many({listed(messages)}, {2 * HOUR})")
    count("retry_many of 10", f"message_retry_many({listed(messages)})")
    dispatch(conn)

    message = dequeue(meter, 1)
    count("retry", f"message_retry({alone(message)})")
    dispatch(conn)

    (*_, last) = dequeue(meter, 10, lease_ms=1)
    until_ended(conn, last["lease_end_at"])
    count("dispatch of 10 leases that ran out", "dispatch()")
    dispatch(conn)

    count(UNCOUNTED, creation(10, -1))
    dispatch(conn)
    *messages, last = dequeue(meter, 20, "dequeue of 20, 10 of them urgent")
    count("discard", f"message_discard({alone([last])})")
    count(UNCOUNTED, f"message_complete_many({listed(messages)})")
    dispatch(conn)


def run_by_fifties(meter: Meter, usual_at: int | None) -> None:
    meter.count(UNCOUNTED, creation(50, usual_at))
    dispatch(meter.conn)
    messages = dequeue(meter, 50, "dequeue of 50")
    meter.count("complete_many of 50", f"message_complete_many({listed(messages)})")
    dispatch(meter.conn)
    meter.count("maintain", "maintain(10)")


def until_ended(conn: psycopg.Connection, lease_end_at: int) -> None:
    while conn.execute("SELECT clock_ms() <= %s", (lease_end_at,)).fetchone() == (True,):
        pass


def measure(meter: Meter, workload: Workload) -> Costs:
    run_round(meter, workload)  # not counted: it dispatches what others did meanwhile
    meter.forget()
    for _ in range(ROUNDS):
        run_round(meter, workload)
    return {name: cost for name, cost in meter.costs().items() if name != UNCOUNTED}
