"""A connection that reconnects, and calls that are noted before and after."""

import json
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.pq import TransactionStatus

from chaos.journal import Journal, Outcome
from chaos.world import SCHEMA, World, make_world

CONNECT_TIMEOUT_S = 5
LSN: LiteralString = "SELECT (pg_current_wal_insert_lsn() - '0/0')::BIGINT"
UNREACHABLE = 3  # the exit code of a worker that cannot connect when it starts; lonnymq worker has the same


@dataclass(frozen=True)
class Settings:
    """What a client process is told when it is started."""

    name: str
    seed: str
    dsn: str
    folder: str
    messages: int
    seconds: float
    lease_ms: int
    notes_lsn: bool = False
    number: int = 0
    quota: int = 0
    per_second: float = 0.0
    batch: int = 100
    is_draining: bool = False
    with_spark: bool = False

    @classmethod
    def from_arguments(cls) -> "Settings":
        return cls(**json.loads(sys.argv[1]))

    @property
    def world(self) -> World:
        return make_world(self.messages, self.seconds, self.lease_ms, with_spark=self.with_spark)


class Failed(Exception):
    """The server refused the call, so it did not take effect; or the call's outcome is unknown."""


class RolledBack(Exception):
    """Raised to roll back the transaction."""


class Call:
    """A call that is being made: what to note about it once it has ended."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.facts: dict[str, Any] = {}
        self.outcome: Outcome = "unknown"


class Client:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.world = settings.world
        self.random = random.Random(f"{settings.seed}/{settings.name}")
        self.journal = Journal(Path(settings.folder) / f"{settings.name}.jsonl", settings.name)
        self.is_stopping = False
        self.is_draining = settings.is_draining
        self._connection: psycopg.Connection | None = None
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGUSR1, self._drain)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})  # see Crew.start

    def _stop(self, *_: object) -> None:
        self.is_stopping = True

    def _drain(self, *_: object) -> None:
        self.is_draining = True

    @property
    def connection(self) -> psycopg.Connection:
        """Connects again, as often as it takes, unless the process is to stop."""
        while self._connection is None or self._connection.closed:
            try:
                self._connection = psycopg.connect(
                    self.settings.dsn,
                    autocommit=True,
                    options=f"-c search_path={SCHEMA}",
                    application_name=self.settings.name,
                    connect_timeout=CONNECT_TIMEOUT_S,
                )
            except psycopg.OperationalError:
                if self.is_stopping:
                    raise Failed from None
                self.pause(0.05)
        return self._connection

    def drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # between attempts, and to keep to a pace

    def rows(self, query: LiteralString, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(query, parameters).fetchall()

    def attempt(self, action: Callable[[], object]) -> bool:
        """Do something whose failure has no consequence, such as a dispatch."""
        try:
            action()
        except psycopg.Error:
            self._clean_up()
            return False
        return True

    @contextmanager
    def call(self, kind: str, *, in_transaction: bool = False, **facts: Any) -> Iterator[Call]:
        """Note a call. Raises Failed if it had no effect, or if nobody knows.

        With `in_transaction`, the call is made in one, which RolledBack rolls back.
        """
        self.connection  # noqa: B018 connect before the call, so that its time does not include that
        call = Call(self.journal.before(kind, **facts))
        error = ""
        try:
            if in_transaction:
                with self.connection.transaction():
                    yield call
            else:
                yield call
            call.outcome = "ok"
        except RolledBack:
            call.outcome = "rolled back"
        except psycopg.Error as raised:
            error = raised.sqlstate or type(raised).__name__
            call.outcome = "failed" if self._is_usable() else "unknown"
            self._clean_up()
        if call.outcome == "ok" and self.settings.notes_lsn:
            self.attempt(lambda: call.facts.update(lsn=self.rows(LSN)[0][0]))
        facts = call.facts | ({"error": error} if error else {})
        self.journal.after(call.number, call.outcome, **facts)
        if call.outcome in {"failed", "unknown"}:
            raise Failed

    def _is_usable(self) -> bool:
        """Whether the server answered with an error and rolled back, instead of going away."""
        return self._connection is not None and self._connection.info.transaction_status in {
            TransactionStatus.IDLE,
            TransactionStatus.INERROR,
        }

    def _clean_up(self) -> None:
        if (
            self._connection is not None
            and self._connection.info.transaction_status != TransactionStatus.IDLE
        ):
            self.drop_connection()

    def run(self, step: Callable[[], None]) -> None:
        """Repeat a step until the process is to stop."""
        while not self.is_stopping:
            try:
                step()
            except Failed:
                pass  # the journal has it
            except psycopg.Error:
                self._clean_up()
        self.drop_connection()
        self.journal.write({"kind": "stop"})
        self.journal.close()
