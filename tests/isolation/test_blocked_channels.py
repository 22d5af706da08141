"""Channels that may not release at the moment do not cost other channels their turns."""

import time

import pytest

from tests.isolation.shared_database import SharedDatabase, dispatch, end, take, value, wait_until_expired

BLOCKED = 40
CALLS = 400


@pytest.mark.parametrize(
    "why", ["full", "full, limited later", "full, and the lease's end is held open", "its messages are held"]
)
def test_blocked_channels_take_nobody_elses_turn(database: SharedDatabase, why: str) -> None:
    """Of many calls for one message, all but a few for each blocked channel are served."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    names = [f"blocked {number}" for number in range(BLOCKED)]
    for name in names:
        observer.execute("SELECT message_create_many(%s, %s)", ([name] * 2, [b"a", b"b"]))
        if why.startswith("full") and "later" not in why:
            observer.execute("SELECT channel_set(%s, p_max_concurrency => 1)", (name,))
    dispatch(observer)
    one.execute("BEGIN")
    if why.startswith("full"):
        lease_ms = 1 if "open" in why else 3_600_000
        leases = [lease for _ in range(BLOCKED // 20) for lease in take(observer, 20, lease_ms=lease_ms)]
        assert {lease.channel for lease in leases} == set(names)
        if "later" in why:
            for name in names:
                observer.execute("SELECT channel_set(%s, p_max_concurrency => 1)", (name,))
        if "open" in why:
            wait_until_expired(observer, leases)
            one.execute(
                "SELECT message_complete_many(%s, %s)",
                ([lease.id for lease in leases], [lease.token for lease in leases]),
            )
    else:
        one.execute("SELECT id FROM message FOR UPDATE")
    value(two, "SELECT COUNT(*) FROM message_create_many(%s, %s)", ["free"] * CALLS, [b"free"] * CALLS)
    dispatch(two)
    served, start = 0, time.monotonic()
    for _ in range(CALLS):
        two.execute("SELECT dispatch()")
        served += len(take(two, 1))
    end(one, "rollback")
    if why == "its messages are held":  # each of them is tried once per second
        assert served >= CALLS - 2 * BLOCKED * (2 + time.monotonic() - start)
    else:
        assert served >= CALLS - 3 * BLOCKED
