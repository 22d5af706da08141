"""The clients: processes, as workers are, so that one's Python does not wait for another's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from lonnymq.cli.bench.protocol import Answer, Order, Site
from lonnymq.cli.failure import UNREACHABLE, Unreachable
from lonnymq.errors import LonnyMQError

PATIENCE_S = 5.0
# Not from the folder one happens to be in.
CLIENT = [sys.executable, "-P", "-m", "lonnymq.cli.bench.client_process"]

Processes = Sequence[subprocess.Popen[str]]


class ClientFailed(LonnyMQError):
    """A client ended, or something that it was told to do did."""


class Crew:
    def __init__(self, clients: Processes) -> None:
        self._clients = clients

    def one(self, order: Order) -> Answer:
        _tell(self._clients[0], asdict(order))
        return _heard(self._clients[0])

    def all(self, order: Order) -> list[Answer]:
        """At once."""
        for client in self._clients:
            _tell(client, asdict(order))
        return [_heard(client) for client in self._clients]


@contextmanager
def crew(site: Site, clients: int) -> Iterator[Crew]:
    """Ctrl-C is not for them: whoever started them ends them, and they end when that one does."""
    running: list[subprocess.Popen[str]] = []
    try:
        for _ in range(clients):
            running.append(_started())  # noqa: PERF401 - each is ended if the next cannot be started
        for client in running:
            _tell(client, asdict(site))
        yield Crew(running)
    except BaseException:
        for client in running:
            client.kill()
        raise
    finally:
        for client in running:
            _end(client)


def _started() -> subprocess.Popen[str]:
    return subprocess.Popen(
        CLIENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", process_group=0
    )


def _end(client: subprocess.Popen[str]) -> None:
    try:
        client.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        client.kill()
        client.communicate()


def _tell(client: subprocess.Popen[str], what: dict[str, object]) -> None:
    assert client.stdin is not None  # noqa: S101 - it is a pipe
    try:
        client.stdin.write(json.dumps(what) + "\n")
        client.stdin.flush()
    except BrokenPipeError:
        raise _ended(client) from None


def _heard(client: subprocess.Popen[str]) -> Answer:
    assert client.stdout is not None  # noqa: S101 - it is a pipe
    line = client.stdout.readline()
    if not line:
        raise _ended(client)
    answer = json.loads(line)
    if "error" in answer:
        kind = Unreachable if answer["code"] == UNREACHABLE else ClientFailed
        raise kind(answer["error"])
    return Answer(**answer)


def _ended(client: subprocess.Popen[str]) -> ClientFailed:
    return ClientFailed(f"a client ended, with {client.wait()}", "see what it said, and that memory suffices")
