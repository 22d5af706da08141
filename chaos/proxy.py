"""The TCP proxy between clients and server, which can cut, freeze, delay and half-open their connections.

It runs in its own process and reads one JSON command per line: `{"do": "cut", "share": 0.5}`.
"""

import asyncio
import json
import random
import subprocess
import sys
import threading
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

CHUNK = 1 << 16


class Link:
    """One client's connection, and the connection to the server that belongs to it."""

    def __init__(self, proxy: "Proxy", client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.proxy = proxy
        self.client = client
        self.server = server
        self.is_half_open = False

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.CancelledError):
            while data := await reader.read(CHUNK):
                if self.proxy.delay_s:
                    await asyncio.sleep(self.proxy.delay_s)
                await self.proxy.flows.wait()
                writer.write(data)
                await writer.drain()
        if not self.is_half_open:
            self.close()

    def close(self) -> None:
        self.client.close()
        self.server.close()


class Proxy:
    def __init__(self) -> None:
        self.target = ("127.0.0.1", 0)
        self.flows = asyncio.Event()
        self.flows.set()
        self.delay_s = 0.0
        self.refuses = False
        self._links: set[Link] = set()
        self._later: set[asyncio.Task[None]] = set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.refuses:
                raise ConnectionRefusedError
            server_reader, server_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.close()
            return
        link = Link(self, writer, server_writer)
        self._links.add(link)
        try:
            await asyncio.gather(link.forward(reader, server_writer), link.forward(server_reader, writer))
        finally:
            self._links.discard(link)

    def command(self, command: dict[str, Any]) -> None:
        getattr(self, f"do_{command.pop('do')}")(**command)

    def do_target(self, host: str, port: int) -> None:
        self.target = (host, port)

    def do_cut(self, share: float) -> None:
        for link in self._some(share):
            link.close()

    def do_freeze(self, *, on: bool) -> None:
        if on:
            self.flows.clear()
        else:
            self.flows.set()

    def do_delay(self, seconds: float) -> None:
        self.delay_s = seconds

    def do_refuse(self, *, on: bool) -> None:
        self.refuses = on
        if on:
            self.do_cut(1.0)

    def do_half_open(self, share: float, side: str, seconds: float) -> None:
        """Close one side; the other one sees nothing for so many seconds."""
        for link in self._some(share):
            link.is_half_open = True
            (link.server if side == "server" else link.client).close()
            self._start(self._close_later(link, seconds))

    async def _close_later(self, link: Link, seconds: float) -> None:
        await asyncio.sleep(seconds)
        link.close()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def _some(self, share: float) -> list[Link]:
        return [link for link in self._links if random.random() < share]


async def _serve() -> None:
    proxy = Proxy()
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        proxy.command(json.loads(line))
        print("done", flush=True)
    server.close()
    proxy.do_cut(1.0)


class ProxyProcess:
    """Starts the proxy, and tells it what to do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # several tracks of faults use it
        self._process = subprocess.Popen(
            [sys.executable, "-m", "chaos.proxy"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
            process_group=0,  # Ctrl-C in a terminal does not reach it: the run still needs it to stop
        )
        self.pid = self._process.pid
        self.port = int(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def tell(self, do: str, **arguments: Any) -> None:
        """Return when it is done."""
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps({"do": do} | arguments) + "\n")
            self._process.stdin.flush()
            if self._read() != "done\n":
                raise RuntimeError(f"the proxy died at {do!r}")

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()


if __name__ == "__main__":
    asyncio.run(_serve())
