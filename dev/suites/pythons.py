"""Finds Pythons, and makes a virtual environment for each suite and each version of Python."""

import hashlib
import json
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from dev.environment import CHECKOUT, REQUIREMENTS
from dev.suites.description import Suite, SuiteError

FOLDERS = ("/usr/local/bin", "/usr/bin", "/opt/homebrew/bin")
BUILD_SYSTEM = "hatchling"  # installs our checkout
ALWAYS = ("binary",)  # these extras


def find_python(version: str) -> Path | None:
    """Look where ./run looks."""
    for folder in _folders():
        candidate = folder / f"python{version}"
        if os.access(candidate, os.X_OK) and _is_suitable(candidate, version):
            return candidate
    return None


def _folders() -> Iterator[Path]:
    yield from (Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder)
    yield from map(Path, FOLDERS)
    homes = [os.environ.get("HOME", ""), pwd.getpwuid(os.getuid()).pw_dir]
    for home in (Path(home) for home in homes if home):
        yield home / ".local" / "bin"
        yield from sorted(home.glob(".pyenv/versions/*/bin"))


def _is_suitable(python: Path, version: str) -> bool:
    """pyenv, for example, puts programs on the PATH that only say that a version is not active."""
    script = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def environment_for(suite: Suite, version: str, python: Path, folder: Path) -> Path:
    """The Python of an environment with our checkout and what the suite needs."""
    place = folder / f"{suite.name}-{version}"
    stamp = place / "made-from"
    constraints = _constraints(suite)
    content = [version, suite.extras, suite.requirements, constraints, _pyproject()]
    fingerprint = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    made = place / "bin" / "python"
    if made.exists() and stamp.exists() and stamp.read_text(encoding="ascii") == fingerprint:
        return made
    shutil.rmtree(place, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    _run([python, "-m", "venv", place])
    constraints_file = place / "constraints.txt"
    constraints_file.write_text("\n".join(constraints), encoding="utf-8")
    pip: list[str | Path] = [made, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    pip += ["--quiet", "--constraint", constraints_file]
    _run([*pip, BUILD_SYSTEM])
    ours = f"{CHECKOUT}[{','.join([*ALWAYS, *suite.extras])}]"
    _run([*pip, "--no-build-isolation", "--editable", ours, *suite.requirements])
    stamp.write_text(fingerprint, encoding="ascii")
    return made


def _constraints(suite: Suite) -> list[str]:
    """The versions that our own environment has, except for packages that the suite pins itself."""
    pinned = {
        _normal(re.split(r"[\[=<>~! ;@]", requirement, maxsplit=1)[0]) for requirement in suite.requirements
    }
    locked = re.findall(r"^([\w.-]+)==([^\s;\\]+)", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE)
    return [f"{name}=={version}" for name, version in locked if _normal(name) not in pinned]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pyproject() -> str:
    return (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        lines = done.stdout.splitlines()[-25:]
        raise SuiteError(
            f"could not make an environment: {Path(command[0]).name} printed\n" + "\n".join(lines)
        )
