"""A consumer that writes its result and completes the message in one transaction.

If the consumer dies before the commit, neither happens: the message is served again, and the result is
written once.

python examples/complete_with_business_write.py postgresql://...
"""

import os
import subprocess
import sys

import psycopg

from lonnymq import Delivery, Queue, Result

TABLE = "CREATE TABLE IF NOT EXISTS receipt (invoice INT NOT NULL, attempt INT NOT NULL)"
LEASE_S = 0.5  # how long the work may take


class LeaseLost(Exception):
    """The lease ran out, so another consumer may have the message; or the message was cancelled."""


def collect(dsn: str, queue: Queue, message: Delivery, *, crash: bool = False) -> None:
    with psycopg.connect(dsn) as conn:  # commits at the end of the block, or rolls back if it raises
        conn.execute(
            "INSERT INTO receipt (invoice, attempt) VALUES (%s, %s)",
            (message.payload["invoice"], message.attempts),
        )
        if (result := queue.complete(message, conn=conn)) != Result.COMPLETED:
            raise LeaseLost(result)
        if crash:
            os._exit(1)


def consume_one(dsn: str, *, crash: bool = False) -> None:
    with Queue(dsn) as queue:
        for message in queue.dequeue(lease=LEASE_S, wait=10):
            collect(dsn, queue, message, crash=crash)


def receipts(dsn: str) -> list[tuple[int, int]]:
    with psycopg.connect(dsn) as conn:
        return conn.execute("SELECT invoice, attempt FROM receipt ORDER BY invoice").fetchall()


def main(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute(TABLE)
    with Queue(dsn) as queue:
        queue.install()  # once, when you deploy
        queue.enqueue({"invoice": 7}, channel="acme")

        subprocess.run([sys.executable, __file__, dsn, "crash"], check=False)
        print(f"after the crash: receipts {receipts(dsn)}, messages {queue.stats().leased}")

        consume_one(dsn)  # waits until the lease of the crashed consumer ends
        print(f"after the second attempt: receipts {receipts(dsn)}, messages {queue.stats().leased}")


if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else os.environ["LONNYMQ_DSN"]
    if sys.argv[2:] == ["crash"]:
        consume_one(address, crash=True)
    else:
        main(address)
