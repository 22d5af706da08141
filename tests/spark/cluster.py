"""A standalone Spark cluster on the loopback interface: a master, and workers on different addresses.

It uses the Spark that pip installs, through `spark-class`. Workers on 127.0.0.1 and 127.0.0.2 are two hosts
to Spark.
"""

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark

from lonnymq.spark.sessions.java import find_java, home_for_spark

SPARK_HOME = Path(pyspark.__file__).parent
HOSTS = ("127.0.0.1", "127.0.0.2")
MARK = "LONNYMQ_TEST_CLUSTER"
MASTER_IS_UP = re.compile(r"Starting Spark master at (spark://\S+)")
WORKER_IS_UP = re.compile(r"Successfully registered with master")
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 20
SETTINGS: dict[str, Any] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


class Cluster:
    """Runs between enter and exit. `url` is the master to give to a session, with `SETTINGS`."""

    def __init__(
        self,
        folder: Path,
        *,
        hosts: Iterable[str] = HOSTS,
        cores: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.url = ""
        self.folder = folder
        self._hosts = tuple(hosts)
        self._cores = cores
        self._mark = uuid.uuid4().hex
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            **(environment or {}),
            MARK: self._mark,
            "JAVA_HOME": str(home_for_spark(find_java())),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_DAEMON_MEMORY": "256m",
        }

    def __enter__(self) -> Self:
        try:
            name = "org.apache.spark.deploy.master.Master"
            log = self._start("master", HOSTS[0], [name, "--host", HOSTS[0], "--port", "0"])
            self.url = self._await_line(log, MASTER_IS_UP)[1]
            logs = [self._start_worker(number, host) for number, host in enumerate(self._hosts)]
            for log in logs:
                self._await_line(log, WORKER_IS_UP)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the workers with their executors first, then their remaining Python processes."""
        for sent in (signal.SIGTERM, signal.SIGKILL):
            for daemon in reversed(self._daemons):
                _signal_group(daemon.pid, sent)
            if _until(lambda: not self.processes(), STOP_TIMEOUT_S):
                break
            for pid in self.processes():
                _signal(pid, signal.SIGKILL)
        for daemon in self._daemons:
            daemon.wait(STOP_TIMEOUT_S)

    def processes(self) -> dict[int, str]:
        """The running processes of the cluster, without drivers: pid and command line."""
        for daemon in self._daemons:
            daemon.poll()
        wanted = f"{MARK}={self._mark}".encode()
        return {pid: command for pid, command, environ in _running() if wanted in environ}

    def executors(self) -> list[int]:
        return [pid for pid, line in self.processes().items() if "CoarseGrainedExecutorBackend" in line]

    def python_workers(self) -> list[int]:
        return [pid for pid, line in self.processes().items() if "pyspark.daemon" in line]

    def _start_worker(self, number: int, host: str) -> Path:
        work = self.folder / f"work-{number}"
        arguments = ["--host", host, "--port", "0", "--cores", str(self._cores), "--memory", "1g"]
        arguments += ["--work-dir", str(work), self.url]
        name = "org.apache.spark.deploy.worker.Worker"
        return self._start(f"worker-{number}", host, [name, *arguments])

    def _start(self, name: str, host: str, arguments: list[str]) -> Path:
        log = self.folder / f"{name}.log"
        with log.open("wb") as file:
            daemon = subprocess.Popen(
                [SPARK_HOME / "bin" / "spark-class", *arguments, "--webui-port", "0"],
                env={**self._environment, "SPARK_LOCAL_IP": host},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._daemons.append(daemon)
        return log

    def _await_line(self, log: Path, pattern: re.Pattern[str]) -> re.Match[str]:
        found: list[re.Match[str]] = []

        def look() -> bool:
            found.extend(pattern.finditer(log.read_text(errors="replace")))
            return bool(found) or any(daemon.poll() is not None for daemon in self._daemons)

        _until(look, START_TIMEOUT_S)
        if not found:
            raise AssertionError(f"{log.name} does not match {pattern.pattern}:\n{log.read_text()[-3000:]}")
        return found[0]


def _until(is_so: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if is_so():
            return True
        time.sleep(0.1)
    return is_so()


def _running() -> Iterable[tuple[int, str, list[bytes]]]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environ = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # it has exited, or belongs to another user
            continue
        yield int(folder.name), command, environ


def _signal_group(group: int, sent: signal.Signals) -> None:
    try:
        os.killpg(group, sent)
    except ProcessLookupError:
        return


def _signal(pid: int, sent: signal.Signals) -> None:
    try:
        os.kill(pid, sent)
    except ProcessLookupError:
        return
