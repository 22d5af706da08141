"""The environment in .venv: made when it is missing, brought up to date when its sources have changed."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.progress import Steps

CHECKOUT = Path(__file__).resolve().parent.parent
VENV = CHECKOUT / ".venv"
BIN = VENV / "bin"
STAMP = VENV / "made-from"
REQUIREMENTS = CHECKOUT / "requirements" / "dev.txt"
MADE_FROM = (REQUIREMENTS, CHECKOUT / "pyproject.toml")


class SetupFailed(Exception):
    """The environment could not be made."""


def make_ready() -> None:
    if _is_ready():
        return
    with _alone() as lock:
        if not _is_ready():
            _make(lock)


def _is_ready() -> bool:
    return (
        (BIN / "python").exists() and STAMP.exists() and STAMP.read_text(encoding="ascii") == _fingerprint()
    )


def _fingerprint() -> str:
    content = hashlib.sha256()
    for path in MADE_FROM:
        content.update(path.read_bytes())
    return content.hexdigest()


def _make(lock: int) -> None:
    """The stamp is taken away first and written last: what is killed half-way is made anew."""
    fingerprint = _fingerprint()
    steps = Steps(total=3)
    base_python = os.path.realpath(sys.executable)  # ours may be in the .venv that is about to go
    if not STAMP.exists() or not (BIN / "python").exists():
        steps.begin("a virtual environment in .venv")
        shutil.rmtree(VENV, ignore_errors=True)
        _run(steps, lock, [base_python, "-m", "venv", VENV])
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
    # The lock names every package, so pip need not resolve any. If it did, an extra like psycopg[pool] would
    # make older versions of pip take the newest psycopg, and refuse it because its hash is not in the lock.
    locked: list[str | Path] = ["--no-deps", "--progress-bar=off", "--require-hashes", "-r", REQUIREMENTS]
    _run(steps, lock, [*pip, *locked], count_to=total)
    steps.begin("lonnymq itself, editable")
    _run(steps, lock, [*pip, "--no-deps", "--no-build-isolation", "-e", CHECKOUT])
    STAMP.write_text(fingerprint, encoding="ascii")
    steps.end()


def _run(steps: Steps, lock: int, command: list[str | Path], count_to: int | None = None) -> None:
    """The command holds the lock with us: if we are killed, it still keeps others out until it ends."""
    output: list[str] = []
    counted: set[str] = set()
    with (
        steps.speaking(),
        subprocess.Popen(
            command,
            cwd=CHECKOUT,
            pass_fds=[lock],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        for line in process.stdout or ():
            output.append(line)
            package = re.match(r"(?:Collecting|Requirement already satisfied:) ([\w.-]+)", line)
            if package and count_to:
                counted.add(package[1])
                steps.now(f"{len(counted)} of {count_to}: {package[1]}")
            elif line.startswith("Installing collected packages"):
                steps.now("all are here; unpacking")
    if process.returncode != 0:
        raise SetupFailed(f"setting up failed: {Path(command[0]).name} said\n{''.join(output[-25:])}")


@contextmanager
def _alone() -> Iterator[int]:
    with (CHECKOUT / ".venv.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another ./run is setting up this checkout; waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()
