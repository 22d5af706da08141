"""Runs pgbench, from the same PostgreSQL installation as the server."""

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.peer import Script

CLIENTS_ABORTED = 2


class PgbenchFailed(Exception):
    """pgbench, or some of its clients, stopped early."""


@dataclass(frozen=True)
class Running:
    process: "subprocess.Popen[str]"
    script: Path

    def wait(self) -> int:
        """Wait for the end of the run. Returns the number of transactions."""
        output, errors = self._finish()
        done = re.search(r"number of transactions actually processed: (\d+)", output)
        if self.process.returncode != 0 or done is None:
            raise PgbenchFailed(f"pgbench exited with {self.process.returncode}:\n{errors[-2000:]}")
        return int(done[1])

    def wait_until_stopped(self) -> None:
        """Wait for scripts in which every client stops by dividing by zero."""
        _, errors = self._finish()
        stopped = errors.count("division by zero")
        if self.process.returncode != CLIENTS_ABORTED or stopped == 0 or "FATAL" in errors:
            raise PgbenchFailed(f"pgbench exited with {self.process.returncode}:\n{errors[-2000:]}")

    def _finish(self) -> tuple[str, str]:
        outputs = self.process.communicate()
        self.script.unlink()
        return outputs


@dataclass(frozen=True)
class Pgbench:
    """pgbench for the database that the environment variables name."""

    bin_dir: Path
    env: Mapping[str, str]
    search_path: str

    def start(self, script: Script, *, clients: int, seconds: int) -> Running:
        with tempfile.NamedTemporaryFile("w", suffix=".sql", delete=False) as file:
            file.write(script.text)
        command = [str(self.bin_dir / "pgbench"), "--no-vacuum", "--protocol=prepared", f"--file={file.name}"]
        command += [f"--define={name}={value}" for name, value in script.variables]
        command += [f"--client={clients}", f"--time={seconds}"]
        env = {**self.env, "PGOPTIONS": f"-c search_path={self.search_path}", "PATH": "/usr/bin:/bin"}
        process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        return Running(process, Path(file.name))
