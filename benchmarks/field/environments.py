"""Makes an environment for each library: their dependencies conflict, and some need a newer Python."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from dev.suites.pythons import find_python

CHECKOUT = Path(__file__).resolve().parents[2]
REQUIREMENTS = CHECKOUT / "requirements"
PYTHONS = ("3.13", "3.12", "3.11")  # the first that is found runs all of them
PIP = [
    "-m",
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
    "--no-input",
    "--no-deps",
    "--require-hashes",
]


class NotInstalled(Exception):
    """A library cannot be installed here. The text says why."""


def python_for(environment: str, folder: Path) -> Path:
    """The Python of the environment, which is made when it is missing or its requirements have changed."""
    base = next(filter(None, map(find_python, PYTHONS)), None)
    if base is None:
        raise NotInstalled(f"no Python of {', '.join(PYTHONS)} was found")
    locked = REQUIREMENTS / f"field-{environment}.txt"
    fingerprint = hashlib.sha256(locked.read_bytes() + str(base).encode()).hexdigest()
    place = folder / environment
    stamp, python = place / "made-from", place / "bin" / "python"
    if stamp.exists() and stamp.read_text(encoding="ascii") == fingerprint:
        return python
    shutil.rmtree(place, ignore_errors=True)
    _run([base, "-m", "venv", place])
    _run([python, *PIP, "-r", locked])
    stamp.write_text(fingerprint, encoding="ascii")
    return python


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        errors = [line for line in done.stdout.splitlines() if line.startswith("ERROR")]
        raise NotInstalled((errors or done.stdout.splitlines() or [f"it exited with {done.returncode}"])[0])
