"""A consumer that follows the protocol of sleep_begin: once it is sure, it looks only when it is notified."""

import select
import time

import psycopg

from tests import invariants
from tests.isolation.shared_database import TIMEOUT_S, dispatch, value

# A dequeue that knows of nothing says: ask again in a second. A sleeping consumer ignores that.
NO_REASON_MS = 900


class Sleeper:
    def __init__(self, conn: psycopg.Connection) -> None:
        self.conn = conn
        self.heard: list[psycopg.Notify] = []
        self.generation: int | None = None
        self.again_ms = 0.0
        conn.add_notify_handler(self.heard.append)
        conn.execute(f"LISTEN {value(conn, 'SELECT notify_channel FROM queue_get()')}")

    def await_wake(self) -> bool:
        """Notifications from before this call are covered by the look that follows it; later ones are not."""
        self.heard.clear()
        row = self.conn.execute(
            "SELECT generation, is_sure FROM sleep_begin(%s)", (self.generation,)
        ).fetchone()
        assert row is not None
        generation, is_sure = row
        if is_sure:
            self.generation = generation
        return bool(is_sure)

    def look(self) -> list[invariants.Delivery]:
        dispatch(self.conn)
        deliveries, again_at = invariants.dequeue(self.conn, 10, 3_600_000)
        self.again_ms = 0 if again_at is None else again_at - value(self.conn, "SELECT clock_ms()")
        return deliveries

    def try_to_sleep(self) -> bool:
        """Whether it may sleep. It asks more often than a consumer would."""
        for _ in range(4):
            is_sure = self.await_wake()
            assert self.look() == []
            if is_sure:
                return True
        return False

    def is_notified(self, seconds: float = TIMEOUT_S) -> bool:
        deadline = time.monotonic() + seconds
        while not self.heard:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.conn.fileno()], [], [], left)[0]:
                return False
            self.conn.execute("SELECT")
        return True

    def pick_up(self, *, is_asleep: bool = False) -> list[invariants.Delivery]:
        """Follow the protocol until something is delivered. `is_asleep`: start as a consumer that already
        sleeps.
        """
        if is_asleep:
            assert self.is_notified(), "it sleeps, and nobody tells it"
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            is_sure = self.await_wake()
            deliveries = self.look()
            if deliveries:
                return deliveries
            if not is_sure or self.again_ms < NO_REASON_MS:
                time.sleep(0.002)
            else:
                assert self.is_notified(), "it is sure that it would be told, and nobody tells it"
        raise AssertionError("nothing is delivered")
