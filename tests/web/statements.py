"""What a page costs the database: the statements it runs, run again and counted."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import RawCursor

from lonnymq import Queue
from lonnymq.client.calls import Pair
from lonnymq.client.observers import Observer
from lonnymq.commands import Delivery
from lonnymq.statement import Command, Statement


class Statements(Observer):
    """Keeps the statements of all calls."""

    def __init__(self) -> None:
        self.made: list[Statement] = []

    def begin(self, schema: str, step: Any, messages: Sequence[Delivery]) -> None:  # noqa: ARG002
        commands = (step.first, step.second) if isinstance(step, Pair) else (step,)
        self.made += [one.statement(schema) for one in commands if isinstance(one, Command)]


@contextmanager
def statements_of(queue: Queue) -> Iterator[list[Statement]]:
    statements = Statements()
    queue.observe(*queue.observers, statements)
    yield statements.made
    queue.observe(*(one for one in queue.observers if one is not statements))


def buffers(conn: psycopg.Connection, statements: Sequence[Statement]) -> int:
    """How many buffers they touch together. The second run counts: the first one plans, too."""
    total = 0
    for statement in statements:
        for _ in range(2):
            with RawCursor(conn) as cursor:
                cursor.execute(
                    f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {statement.text}".encode(),
                    statement.parameters,
                )
                plan = cursor.fetchone()[0][0]["Plan"]  # type: ignore[index]
            counted = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        total += counted
    return total
