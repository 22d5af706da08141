"""Structs, dataclasses and pydantic models as payloads. One that does not fit its type becomes a dead letter.

python examples/typed_payloads.py postgresql://...
"""

import os
import sys
from dataclasses import dataclass
from datetime import date

import msgspec
from pydantic import BaseModel, PositiveInt

from lonnymq import Delivery, Queue
from lonnymq.errors import PayloadError


class Order(msgspec.Struct):
    article: str
    pieces: int


@dataclass
class Refund:
    invoice: int
    on: date


class Payment(BaseModel):
    invoice: int
    euros: PositiveInt


KINDS: dict[str, type[Order | Refund | Payment]] = {"orders": Order, "refunds": Refund, "payments": Payment}


def handle(queue: Queue, message: Delivery) -> None:
    try:
        value = message.decode(KINDS[message.channel])
    except PayloadError as error:
        result = queue.retry(message, error=error)
        print(f"attempt {message.attempts} {result}: {error}")
    else:
        print(value)
        queue.complete(message)


def main(dsn: str) -> None:
    with Queue(dsn) as queue:
        queue.install()  # once, when you deploy

        queue.enqueue(Order("lamp", 2), channel="orders")
        queue.enqueue(Refund(7, date(2030, 1, 31)), channel="refunds", content_type="application/msgpack")
        queue.enqueue(Payment(invoice=7, euros=250), channel="payments")
        queue.enqueue({"article": "lamp", "pieces": "two"}, channel="orders", max_attempts=2)

        while messages := queue.dequeue(10):
            for message in messages:
                handle(queue, message)

        for dead in queue.dead.list():
            kept = queue.get(dead.id)
            print(f"dead after {dead.attempts} attempts, and kept: {kept.payload if kept else None}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["LONNYMQ_DSN"])
