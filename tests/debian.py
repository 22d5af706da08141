"""Tests that need a Debian package, and what becomes of them without it."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

NAMED = Path(__file__).parent.parent / "packages.txt"


def require(package: str) -> None:
    """Skip the test, with the line that installs what it needs, when the package is not there."""
    if package not in named_packages():
        pytest.fail(f"{package} is not named in packages.txt")
    if not is_installed(package):
        pytest.skip(f"needs Debian's {package}: apt-get install {package}")


@cache
def named_packages() -> tuple[str, ...]:
    lines = (line.split("#")[0].strip() for line in NAMED.read_text(encoding="utf-8").splitlines())
    return tuple(line for line in lines if line)


@cache
def is_installed(package: str) -> bool:
    dpkg_query = shutil.which("dpkg-query")
    if dpkg_query is None:
        return False
    answer = subprocess.run(
        [dpkg_query, "--show", "--showformat=${db:Status-Status}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout == "installed"
