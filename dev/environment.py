"""Creates the environment in .venv when it is missing, and updates it when the requirements change."""

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
    """The environment could not be created."""


def make_ready() -> None:
    if _is_ready():
        return
    with _exclusive_lock() as lock:
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
    """Remove the stamp first and write it last, so that an environment left half-made is made again."""
    fingerprint = _fingerprint()
    steps = Steps(total=3)
    base_python = os.path.realpath(sys.executable)  # sys.executable may be in the .venv that is deleted below
    if not STAMP.exists() or not (BIN / "python").exists():
        steps.begin("create the virtual environment .venv")
        shutil.rmtree(VENV, ignore_errors=True)
        _run(steps, lock, [base_python, "-m", "venv", VENV])
    else:
        steps.begin("keep the virtual environment .venv")
    STAMP.unlink(missing_ok=True)
    total = len(re.findall(r"^[\w.-]+==", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE))
    steps.begin(f"install {total} packages and check their hashes")
    pip: list[str | Path] = [
        BIN / "python",
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "--no-compile",  # Python compiles what is used; pip would compile everything, for half a minute
    ]
    # dev.txt names every package, so pip does not have to resolve dependencies. If it did, an extra such as
    # psycopg[pool] would make older versions of pip choose the newest psycopg, whose hash is not in dev.txt.
    locked: list[str | Path] = ["--no-deps", "--progress-bar=off", "--require-hashes", "-r", REQUIREMENTS]
    _run(steps, lock, [*pip, *locked], count_to=total)
    steps.begin("install lonnymq as editable")
    _run(steps, lock, [*pip, "--no-deps", "--no-build-isolation", "-e", CHECKOUT])
    STAMP.write_text(fingerprint, encoding="ascii")
    steps.finish()


def _run(steps: Steps, lock: int, command: list[str | Path], count_to: int | None = None) -> None:
    """Run a command that inherits the lock: if this process is killed, others wait until the command ends."""
    output: list[str] = []
    counted: set[str] = set()
    with (
        steps.reporting(),
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
                steps.update(f"{len(counted)} of {count_to}: {package[1]}")
            elif line.startswith("Installing collected packages"):
                steps.update("all downloaded; unpacking")
    if process.returncode != 0:
        raise SetupFailed(f"could not set up .venv: {Path(command[0]).name} printed\n{''.join(output[-25:])}")


@contextmanager
def _exclusive_lock() -> Iterator[int]:
    with (CHECKOUT / ".venv.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another ./run is setting up this checkout; waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()
