"""Worker processes that a test starts, stops and kills."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.worker.ledger import Ledger

TIMEOUT_S = 30.0
CHECKOUT = Path(__file__).parents[2]


def until(is_true: Callable[[], object], what: str, seconds: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, f"timed out waiting for {what}"
        time.sleep(0.01)


class WorkerProcess:
    """A `lonnymq worker` process."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str], arguments: list[str]) -> None:
        self.name = name
        self.health_file = folder / f"health-{name}"
        self._log_file = folder / f"log-{name}"
        self._gate = folder / f"open-{name}"
        with self._log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "lonnymq", "worker", *arguments, "--name", name],
                cwd=CHECKOUT,
                env=os.environ | environment | {"SHOP_NAME": name},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def log(self) -> str:
        return self._log_file.read_text(encoding="utf-8", errors="replace")

    @property
    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.health_file.read_text(encoding="utf-8"))
        return found

    @property
    def resident_bytes(self) -> int:
        """Its resident memory."""
        fields = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def wait_until_serving(self) -> Self:
        until(lambda: " serves " in self.log or not self.is_alive, f"{self.name} to serve")
        assert self.is_alive, self.log
        return self

    def open_gate(self) -> None:
        """Let its waiting handlers go on."""
        self._gate.touch()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(TIMEOUT_S)

    def wait_for_exit(self, seconds: float = TIMEOUT_S) -> int:
        """Wait for it to exit by itself. Returns the exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not exit: {self.log}") from None

    def stop(self) -> int:
        self.send(signal.SIGTERM)
        return self.wait_for_exit()


class Processes:
    """The worker processes of a test. At its end they are killed, and none may have logged a traceback."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.ledger = Ledger(folder / "ledger")
        self.workers: list[WorkerProcess] = []
        self._dsn = dsn
        self._folder = folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            if kind is not None:
                print(f"--- {worker.name}\n{worker.log}")
            else:
                assert "Traceback" not in worker.log, worker.log

    def start(
        self,
        app: str = "app",
        *,
        concurrency: int = 10,
        lease: float = 30,
        prefetch: float = 0.25,
        shutdown_timeout: float = 30,
        environment: Mapping[str, str] | None = None,
    ) -> WorkerProcess:
        """Start a worker on the tasks in tests/worker/shop.py, and do not wait until it serves."""
        name = f"worker-{len(self.workers) + 1}"
        given = {"SHOP_DSN": self._dsn, "SHOP_FOLDER": str(self._folder), **(environment or {})}
        arguments = [
            f"tests.worker.shop:{app}",
            *("--concurrency", str(concurrency)),
            *("--lease", str(lease)),
            *("--prefetch", str(prefetch)),
            *("--shutdown-timeout", str(shutdown_timeout)),
            *("--health-file", str(self._folder / f"health-{name}")),
        ]
        worker = WorkerProcess(name, self._folder, given, arguments)
        self.workers.append(worker)
        return worker

    def start_many(self, count: int, app: str = "app", **options: Any) -> list[WorkerProcess]:
        started = [self.start(app, **options) for _ in range(count)]
        return [worker.wait_until_serving() for worker in started]

    def open_gates(self) -> None:
        (self._folder / "open").touch()
