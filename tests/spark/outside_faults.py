"""Faults from outside Spark at a known moment: answers held back, connections cut, processes killed.

A Gate is a proxy between Spark and PostgreSQL. While it holds the answer to a COPY or a COMMIT, PostgreSQL
has done the work but the client does not know. At that moment a test can kill the client or cut its
connection.
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
TIMEOUT_S = 240.0
COPIED, COMMITTED = b"CCOPY", b"CCOMMIT"
"""Messages of PostgreSQL's protocol: the type C (command complete), and the command."""
EXECUTOR = "CoarseGrainedExecutorBackend"
COUNT_STAGED = """SELECT SUM(cardinality(channel))::INT FROM staging_chunk
    GROUP BY batch ORDER BY MIN(staged_at), batch"""


def until(is_true: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline, f"timed out waiting for: {what}"
        time.sleep(0.01)


class HeldAnswer:
    """An answer that the gate holds back."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self._port: int = client.getpeername()[1]
        self._gate_port: int = client.getsockname()[1]
        self._released = threading.Event()

    @property
    def process(self) -> int:
        """The process that waits for the answer."""
        return process_at(self._port, self._gate_port)

    def release(self) -> None:
        self._released.set()

    def cut(self) -> None:
        """Close the connection without an answer."""
        _hang_up(self._client)
        self._released.set()

    def wait(self) -> None:
        self._released.wait()


class Gate:
    """A proxy that forwards everything, except for answers that a test told it to hold."""

    def __init__(self, dsn: str) -> None:
        self._direct = conninfo_to_dict(dsn)
        self._listener = socket.create_server((HOST, 0))
        self._lock = threading.Lock()
        self._answer = b""
        self._passing = self._holding = self._held_before = 0
        self._held: list[HeldAnswer] = []
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    @property
    def dsn(self) -> str:
        port = self._listener.getsockname()[1]
        plain = {"host": HOST, "port": port, "sslmode": "disable", "gssencmode": "disable"}
        return make_conninfo(**(self._direct | plain))

    def forward_to(self, dsn: str) -> None:
        """Forward new connections to this server: after a restart it has another port."""
        self._direct = conninfo_to_dict(dsn)

    def hold(self, answer: bytes, times: int = 1, *, after: int = 0) -> None:
        """Hold the next `times` answers of this kind, after letting `after` of them pass."""
        with self._lock:
            self._answer, self._passing, self._holding = answer, after, times
            self._held_before = len(self._held)

    def held(self, call: Future[None], number: int = 1) -> list[HeldAnswer]:
        """Wait until `number` answers are held during the call, and return them."""
        until(
            lambda: call.done() or len(self._held) - self._held_before >= number,
            f"{number} answers to be held",
        )
        assert not call.done(), call.exception() or "the call finished before an answer was held"
        return self._held[self._held_before :]

    @contextlib.contextmanager
    def running(
        self, call: Callable[..., object], spark: SparkSession, *arguments: Any
    ) -> Iterator[Future[None]]:
        """Run the call in a thread. At exit all held answers are released, so that it can finish."""

        def called() -> None:
            assert spark._jvm is not None
            # Without this, Spark finds no Python data source from this thread.
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
                if self._should_hold(head[:1] + answer[5:]):
                    held = HeldAnswer(client)
                    self._held.append(held)
                    held.wait()
                client.sendall(answer)
        _hang_up(client)

    def _should_hold(self, answer: bytes) -> bool:
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


def process_at(port: int, remote: int | None = None) -> int:
    """The local process that has a connection from this port (to the port `remote`)."""
    end = "" if remote is None else f":{remote:04X}"
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    [inode] = {
        fields[9]
        for fields in sockets
        if fields[1].endswith(f":{port:04X}") and fields[2].endswith(end) and fields[9] != "0"
    }
    for process in processes():
        with contextlib.suppress(OSError):
            for link in Path(f"/proc/{process}/fd").iterdir():
                if str(link.readlink()) == f"socket:[{inode}]":
                    return process
    raise AssertionError(f"no process has port {port}")


def processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def parent(process: int) -> int:
    """The parent's pid; 0 if the process is gone."""
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
    """The client's port of a PostgreSQL session."""
    [(port,)] = conn.execute("SELECT client_port FROM pg_stat_activity WHERE pid = %s", (backend,)).fetchall()
    return int(port)


def waiting_sessions(conn: psycopg.Connection, statement: str) -> list[int]:
    """The sessions that wait for a lock in this statement."""
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
    """The executor (a Java process) that started this Python process."""
    return next(above for above in ancestors(process) if EXECUTOR in command(above))


def is_alive(process: int) -> bool:
    return parent(process) != 0 and bool(command(process))


def kill(*victims: int) -> None:
    """Kill with SIGKILL, and wait until the processes are gone."""
    for process in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    until(lambda: not any(map(is_alive, victims)), "the killed processes to be gone")


def kill_tree(process: int) -> None:
    """Kill a process and all its descendants."""
    kill(process, *(other for other in processes() if process in ancestors(other)))


@contextlib.contextmanager
def stopped_tree(process: int) -> Iterator[None]:
    """Stop a process and all its descendants (SIGSTOP), and continue them afterwards."""
    stopped = [process, *(other for other in processes() if process in ancestors(other))]
    for one in stopped:
        os.kill(one, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)


def staged(conn: psycopg.Connection) -> list[int]:
    """The number of unpublished rows of each attempt."""
    return [number for (number,) in conn.execute(COUNT_STAGED)]


def enqueued(conn: psycopg.Connection) -> list[str]:
    """The contents of all messages, without the dots that fill them."""
    query = "SELECT convert_from(rtrim(content, '.'), 'UTF8') FROM message ORDER BY 1"
    return [text for (text,) in conn.execute(query)]


def in_the_lake(lake: str) -> list[int]:
    return sorted(DeltaTable(f"{lake}/history").to_pyarrow_table(columns=["id"])["id"].to_pylist())
