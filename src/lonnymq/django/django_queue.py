"""A queue whose calls run on Django's own connection, in the transaction that is open there."""

from __future__ import annotations

from typing import Any

from django.db import connections

from lonnymq.adapters import drivers
from lonnymq.client.calls import Answer, Caller, Request, walk
from lonnymq.client.interface import DeadCalls, QueueCalls
from lonnymq.client.observers import Observer, observed
from lonnymq.django.database import address_of


class DjangoQueue(QueueCalls, Caller):
    """The calls of a Queue that neither wait nor stream. Each is part of `transaction.atomic()`, if one is
    open for the database; otherwise it commits at once.
    """

    def __init__(self, database: str, schema: str) -> None:
        self.database = database
        self.schema = schema
        self.observers: tuple[Observer, ...] = ()
        self.dead = DeadLetters(self)

    def observe(self, *observers: Observer) -> None:
        """As Queue.observe."""
        self.observers = observers

    def address(self) -> str:
        """As Queue.address."""
        return address_of(self.database)

    def perform(self, request: Request[Answer]) -> Answer:
        steps: Any = request.steps
        if self.observers:
            steps = observed(self.observers, self.schema, steps, request.messages)
        connection = connections[self.database]
        answer: Answer = walk(steps, lambda command: drivers.run(connection, self.schema, command))
        return answer


class DeadLetters(DeadCalls, Caller):
    def __init__(self, queue: DjangoQueue) -> None:
        self._queue = queue

    def perform(self, request: Request[Answer]) -> Answer:
        return self._queue.perform(request)
