"""Writes a row and enqueues a message about it in one SQLAlchemy session: both exist, or neither does.

python examples/sqlalchemy_session.py postgresql://...
"""

import os
import sys

from sqlalchemy import create_engine, func, make_url, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from lonnymq import Queue

CREDIT = 1000


class Base(DeclarativeBase):
    pass


class Invoice(Base):
    __tablename__ = "invoice"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    euros: Mapped[int]


class CreditRefused(Exception):
    pass


def bill(session: Session, queue: Queue, customer: str, euros: int) -> int:
    invoice = Invoice(customer=customer, euros=euros)
    session.add(invoice)
    session.flush()  # now it has an id
    queue.enqueue({"invoice": invoice.id}, channel=customer, conn=session)
    if euros > CREDIT:
        raise CreditRefused(customer)
    return invoice.id


def main(dsn: str) -> None:
    engine = create_engine(make_url(dsn).set(drivername="postgresql+psycopg"))
    Base.metadata.create_all(engine)
    queue = Queue(engine)
    queue.install()  # once, when you deploy

    with Session(engine) as session, session.begin():
        number = bill(session, queue, "acme", 250)
    print(f"committed: invoice {number}, {queue.channel('acme').stats().waiting} message")

    try:
        with Session(engine) as session, session.begin():
            bill(session, queue, "bluebird", 5000)
    except CreditRefused:
        with Session(engine) as session:
            invoices = session.scalar(select(func.count()).where(Invoice.customer == "bluebird"))
        print(f"rolled back: {invoices} invoices, {queue.channel('bluebird').stats().waiting} messages")

    for message in queue.dequeue(10):
        print(f"send invoice {message.payload['invoice']} to {message.channel}")
        queue.complete(message)
    engine.dispose()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["LONNYMQ_DSN"])
