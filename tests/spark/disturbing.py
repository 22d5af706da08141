"""What breaks Spark from outside, at a moment that is known: answers held back, processes killed.

A Gate stands between Spark and PostgreSQL. When it holds the answer to a COPY or a COMMIT, PostgreSQL has
done it, and the process that asked does not know: that process can be killed, or its connection cut.
"""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import psycopg
from deltalake import DeltaTable
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyspark.sql import SparkSession

HOST = "127.0.0.1"
PATIENCE_S = 240.0
COPIED, COMMITTED = b"CCOPY", b"CCOMMIT"
"""Answers of PostgreSQL's protocol: the kind C, for a command that is complete, and which one it was."""
EXECUTOR = "CoarseGrainedExecutorBackend"
COUNT_STAGED = "SELECT COUNT(*) FROM staging GROUP BY batch ORDER BY MIN(staged_at), batch"


def until(is_true: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not is_true():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.01)


class Held:
    """An answer that is held back."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self._port: int = client.getpeername()[1]
        self._let_go = threading.Event()

    @property
    def process(self) -> int:
        """Who waits for it."""
        return process_at(self._port)

    def release(self) -> None:
        self._let_go.set()

    def cut(self) -> None:
        """Never answer, and hang up."""
        _hang_up(self._client)
        self._let_go.set()

    def wait(self) -> None:
        self._let_go.wait()


class Gate:
    """Passes everything on, but for answers that it is to hold."""

    def __init__(self, dsn: str) -> None:
        self._direct = conninfo_to_dict(dsn)
        self._listener = socket.create_server((HOST, 0))
        self._lock = threading.Lock()
        self._answer = b""
        self._passing = self._holding = self._held_before = 0
        self._held: list[Held] = []
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    @property
    def dsn(self) -> str:
        port = self._listener.getsockname()[1]
        plain = {"host": HOST, "port": port, "sslmode": "disable", "gssencmode": "disable"}
        return make_conninfo(**(self._direct | plain))

    def lead_to(self, dsn: str) -> None:
        """From now on: a server that was started again has another port."""
        self._direct = conninfo_to_dict(dsn)

    def hold(self, answer: bytes, times: int = 1, *, after: int = 0) -> None:
        """The next so many of these answers, or those behind `after` others."""
        with self._lock:
            self._answer, self._passing, self._holding = answer, after, times
            self._held_before = len(self._held)

    def held(self, call: Future[None], number: int = 1) -> list[Held]:
        """So many, as soon as they are held during the call."""
        until(
            lambda: call.done() or len(self._held) - self._held_before >= number,
            f"{number} answers to be held",
        )
        assert not call.done(), call.exception() or "it ended, and nothing was held"
        return self._held[self._held_before :]

    @contextlib.contextmanager
    def running(
        self, call: Callable[..., object], spark: SparkSession, *arguments: Any
    ) -> Iterator[Future[None]]:
        """The call, in a thread. In the end nothing is held any more, so that it can end."""

        def called() -> None:
            assert spark._jvm is not None
            # Else this thread finds no format that is made in Python.
            spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)
            call(spark, *arguments)

        with ThreadPoolExecutor(1) as pool:
            try:
                yield pool.submit(called)
            finally:
                self.release()

    def release(self) -> None:
        with self._lock:
            self._holding = 0
        for held in self._held:
            held.release()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        _hang_up(self._listener)
        self._listener.close()
        self.release()
        while self._threads:
            for one in list(self._sockets):
                _hang_up(one)
            self._threads.pop().join()
        for one in self._sockets:
            one.close()

    def _start(self, target: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            try:
                server = socket.create_connection((str(self._direct["host"]), int(str(self._direct["port"]))))
            except OSError:  # it is down
                _hang_up(client)
                continue
            self._sockets.append(server)
            self._start(self._ask, client, server)
            self._start(self._answers, server, client)

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while octets := client.recv(65536):
                server.sendall(octets)
        _hang_up(server)

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError), server.makefile("rb") as answers:
            while head := answers.read(5):
                answer = head + answers.read(int.from_bytes(head[1:]) - 4)
                if self._is_to_be_held(head[:1] + answer[5:]):
                    held = Held(client)
                    self._held.append(held)
                    held.wait()
                client.sendall(answer)
        _hang_up(client)

    def _is_to_be_held(self, answer: bytes) -> bool:
        with self._lock:
            if not self._holding or not answer.startswith(self._answer):
                return False
            if self._passing:
                self._passing -= 1
                return False
            self._holding -= 1
            return True


def _hang_up(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def process_at(port: int) -> int:
    """The process on this machine whose end of a connection has the port."""
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    [inode] = {fields[9] for fields in sockets if fields[1].endswith(f":{port:04X}")}
    for process in processes():
        with contextlib.suppress(OSError):
            for link in Path(f"/proc/{process}/fd").iterdir():
                if str(link.readlink()) == f"socket:[{inode}]":
                    return process
    raise AssertionError(f"no process is at port {port}")


def processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def parent(process: int) -> int:
    """0 of one that is gone."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0
    return int(status.rpartition(")")[2].split()[1])


def command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def port_of(conn: psycopg.Connection, backend: int) -> int:
    """The client's end of a session of PostgreSQL's."""
    [(port,)] = conn.execute("SELECT client_port FROM pg_stat_activity WHERE pid = %s", (backend,)).fetchall()
    return int(port)


def sessions_in_wait(conn: psycopg.Connection, statement: str) -> list[int]:
    """Those that wait for a lock during this statement."""
    rows = conn.execute(
        "SELECT pid FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE %s",
        (f"%{statement}%",),
    )
    return [pid for (pid,) in rows]


def ancestors(process: int) -> Iterator[int]:
    while process := parent(process):
        yield process


def executor_of(process: int) -> int:
    """The Java that a Python process of an executor works for."""
    return next(above for above in ancestors(process) if EXECUTOR in command(above))


def is_alive(process: int) -> bool:
    return parent(process) != 0 and bool(command(process))


def kill(*victims: int) -> None:
    """With SIGKILL. Returns when they are gone."""
    for process in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    until(lambda: not any(map(is_alive, victims)), "what was killed to be gone")


def kill_with_all_below(process: int) -> None:
    kill(process, *(other for other in processes() if process in ancestors(other)))


def staged(conn: psycopg.Connection) -> list[int]:
    """How many rows each attempt has staged that was not published."""
    return [number for (number,) in conn.execute(COUNT_STAGED)]


def enqueued(conn: psycopg.Connection) -> list[str]:
    """What the messages say, less what fills them up."""
    said = "SELECT convert_from(rtrim(content, '.'), 'UTF8') FROM message ORDER BY 1"
    return [text for (text,) in conn.execute(said)]


def in_the_lake(lake: str) -> list[int]:
    return sorted(DeltaTable(f"{lake}/history").to_pyarrow_table(columns=["id"])["id"].to_pylist())
