"""A consumer that writes its result and completes the message in one transaction.

If it dies before the commit, neither has happened: the message is served again, the result written once.

python examples/complete_with_business_write.py postgresql://...
"""

import os
import subprocess
import sys

import psycopg

from lonnymq import Delivery, Queue, Result

TABLE = "CREATE TABLE IF NOT EXISTS receipt (invoice INT NOT NULL, attempt INT NOT NULL)"
LEASE = 0.5  # seconds; as long as the work may take


class NoLongerOurs(Exception):
    """The lease ran out, and somebody else may be at work on the message; or it was cancelled."""


def collect(dsn: str, queue: Queue, message: Delivery, *, dies: bool = False) -> None:
    with psycopg.connect(dsn) as conn:  # commits at the end of the block, or rolls back if it raises
        conn.execute(
            "INSERT INTO receipt (invoice, attempt) VALUES (%s, %s)",
            (message.payload["invoice"], message.attempts),
        )
        if (result := queue.complete(message, conn=conn)) != Result.COMPLETED:
            raise NoLongerOurs(result)
        if dies:
            os._exit(1)


def consume_one(dsn: str, *, dies: bool = False) -> None:
    with Queue(dsn) as queue:
        for message in queue.dequeue(lease=LEASE, wait=10):
            collect(dsn, queue, message, dies=dies)


def receipts(dsn: str) -> list[tuple[int, int]]:
    with psycopg.connect(dsn) as conn:
        return conn.execute("SELECT invoice, attempt FROM receipt ORDER BY invoice").fetchall()


def main(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute(TABLE)
    with Queue(dsn) as queue:
        queue.install()  # once, when you deploy
        queue.enqueue({"invoice": 7}, channel="acme")

        subprocess.run([sys.executable, __file__, dsn, "dies"], check=False)
        print(f"after the crash: receipts {receipts(dsn)}, messages {queue.stats().leased}")

        consume_one(dsn)  # waits for the lease of the one that died to end
        print(f"after another try: receipts {receipts(dsn)}, messages {queue.stats().leased}")


if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else os.environ["LONNYMQ_DSN"]
    if sys.argv[2:] == ["dies"]:
        consume_one(address, dies=True)
    else:
        main(address)
