"""The environment in .venv: made when it is missing, brought up to date when its sources have changed."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
VENV = CHECKOUT / ".venv"
BIN = VENV / "bin"
STAMP = VENV / "made-from"
REQUIREMENTS = CHECKOUT / "requirements" / "dev.txt"
MADE_FROM = (REQUIREMENTS, CHECKOUT / "pyproject.toml")
QUIET_SECONDS = 5.0


class SetupFailed(Exception):
    """The environment could not be made."""


def make_ready() -> None:
    if _is_ready():
        return
    with _alone():
        if not _is_ready():
            _make()


def _is_ready() -> bool:
    return (
        (BIN / "python").exists() and STAMP.exists() and STAMP.read_text(encoding="ascii") == _fingerprint()
    )


def _fingerprint() -> str:
    content = hashlib.sha256()
    for path in MADE_FROM:
        content.update(path.read_bytes())
    return content.hexdigest()


def _make() -> None:
    """The stamp is taken away first and written last: what is killed half-way is made anew."""
    fingerprint = _fingerprint()
    steps = Steps(total=3)
    if not STAMP.exists() or not (BIN / "python").exists():
        steps.begin("a virtual environment in .venv")
        shutil.rmtree(VENV, ignore_errors=True)
        _run(steps, [_base_python(), "-m", "venv", VENV])
    else:
        steps.begin("the virtual environment in .venv is there")
    STAMP.unlink(missing_ok=True)
    total = len(re.findall(r"^[\w.-]+==", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE))
    steps.begin(f"{total} packages, each checked against its hash")
    pip: list[str | Path] = [
        BIN / "python",
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
    ]
    _run(steps, [*pip, "--progress-bar=off", "--require-hashes", "-r", REQUIREMENTS], count_to=total)
    steps.begin("lonnymq itself, editable")
    _run(steps, [*pip, "--no-deps", "--no-build-isolation", "-e", CHECKOUT])
    STAMP.write_text(fingerprint, encoding="ascii")
    steps.end()


def _base_python() -> str:
    """The interpreter outside of any environment: the one we run in may be the .venv about to be remade."""
    return os.path.realpath(sys.executable)


def _run(steps: "Steps", command: list[str | Path], count_to: int | None = None) -> None:
    output: list[str] = []
    counted: set[str] = set()
    process = subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    if process.stdout is None:
        raise AssertionError
    for line in process.stdout:
        output.append(line)
        package = re.match(r"(?:Collecting|Requirement already satisfied:) ([\w.-]+)", line)
        if package and count_to:
            counted.add(package[1])
            steps.progress(f"{len(counted)}/{count_to} {package[1]}")
        elif line.startswith("Installing collected packages"):
            steps.progress("unpacking")
    if process.wait() != 0:
        raise SetupFailed(f"setting up failed: {Path(command[0]).name} said\n{''.join(output[-25:])}")


@contextmanager
def _alone() -> Iterator[None]:
    with (CHECKOUT / ".venv.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another ./run is setting up this checkout; waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Steps:
    """Progress on stderr: a line a step, and within a long step what it has come to."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._number = 0
        self._started = self._spoke = time.monotonic()

    def begin(self, what: str) -> None:
        self._number += 1
        self._say(f"[{self._number}/{self._total}] {what}")

    def progress(self, what: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K      {self._elapsed()} {what}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._spoke > QUIET_SECONDS:
            self._say(f"      {what}")

    def end(self) -> None:
        self._say("ready")

    def _say(self, what: str) -> None:
        start = "\r\033[K" if sys.stderr.isatty() else ""
        print(f"{start}{self._elapsed()} {what}", file=sys.stderr, flush=True)
        self._spoke = time.monotonic()

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._started:4.0f} s"
