"""The processes of the clients: starts them, kills and stops some, and replaces those that have died."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from chaos.client import UNREACHABLE, Settings
from chaos.journal import read

ROOT = Path(__file__).parents[1]
STOP_TIMEOUT_S = 30
PRODUCERS = ("producer", "spark_sink")


@dataclass
class Member:
    """One process, and what its replacement is started with."""

    program: str
    settings: Settings
    process: subprocess.Popen[bytes]

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None


class Crew:
    def __init__(self, settings: Settings, chance: random.Random) -> None:
        self._settings = settings
        self._random = chance
        self._numbers = 0
        self._lock = threading.Lock()
        self.members: list[Member] = []
        self.is_draining = False
        self.crashed: list[str] = []  # processes that ended by themselves

    def start(
        self, program: str, *, quota: int = 0, per_second: float = 0.0, notes_lsn: bool | None = None
    ) -> Member:
        """Every process has a name and a journal of its own."""
        settings = replace(
            self._settings,
            name=f"{program}-{self._numbers}",
            number=self._numbers,
            quota=quota,
            per_second=per_second,
            is_draining=self.is_draining,
            notes_lsn=self._settings.notes_lsn if notes_lsn is None else notes_lsn,
        )
        self._numbers += 1
        (Path(settings.folder) / f"{settings.name}.jsonl").touch(
            mode=0o600
        )  # it may be killed before it writes
        with (Path(settings.folder) / f"{settings.name}.log").open("wb") as log, drain_signal_blocked():
            process = subprocess.Popen(
                [sys.executable, "-m", f"chaos.{program}", json.dumps(asdict(settings))],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        member = Member(program, settings, process)
        self.members.append(member)
        return member

    def of(self, *programs: str) -> list[Member]:
        return [member for member in self.members if member.program in programs and member.is_running]

    def pick(self, *programs: str) -> Member | None:
        with self._lock:
            running = self.of(*programs)
        return self._random.choice(running) if running else None

    def kill(self, member: Member) -> None:
        """With SIGKILL; another process takes its place."""
        member.process.kill()
        member.process.wait()
        self.replace_dead()

    def replace_dead(self) -> list[Member]:
        """Start a new process for each that has died. A producer that has used up its quota has not."""
        with self._lock:
            dead = [m for m in self.members if not m.is_running and m.process.returncode != 0]
            for member in dead:
                self.members.remove(member)
                if member.process.returncode not in {-signal.SIGKILL, UNREACHABLE}:
                    self.crashed.append(f"{member.settings.name} exited with {member.process.returncode}")
                quota = member.settings.quota
                if member.program in PRODUCERS:
                    quota -= created(member.settings)
                    if quota <= 0:
                        continue
                self.start(member.program, quota=quota, per_second=member.settings.per_second)
            return dead

    def drain(self) -> None:
        """From now on, consumers work as fast as they can, and well."""
        self.is_draining = True
        for member in self.of("consumer"):
            member.process.send_signal(signal.SIGUSR1)

    def stop(self, *programs: str) -> None:
        members = self.of(*programs) if programs else [m for m in self.members if m.is_running]
        for member in members:
            member.process.send_signal(signal.SIGCONT)
            member.process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for member in members:
            try:
                member.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()

    def is_producing(self) -> bool:
        return bool(self.of(*PRODUCERS))


@contextmanager
def drain_signal_blocked() -> Iterator[None]:
    """A process that is started here gets the signal once it handles it, instead of ending."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def created(settings: Settings) -> int:
    """How many messages a producer has created, by its journal."""
    records = read(Path(settings.folder) / f"{settings.name}.jsonl")
    return sum(record["made"] for record in records if record.get("outcome") == "ok")


def freeze(pid: int, seconds: float) -> None:
    """Stop a process for a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)  # it is the fault itself
    finally:
        os.kill(pid, signal.SIGCONT)
