"""The Debian packages that some tests need. packages.txt lists them."""

import os
import shutil
import subprocess

from dev.environment import CHECKOUT, SetupFailed

OLDEST_POSTGRESQL = 15


def named_packages() -> list[str]:
    lines = (CHECKOUT / "packages.txt").read_text(encoding="utf-8").splitlines()
    return [name for line in lines if (name := line.split("#")[0].strip())]


def is_installed(package: str) -> bool:
    if shutil.which("dpkg-query") is None:
        return False
    found = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout == "installed"


def may_install() -> bool:
    return os.environ.get("CI") == "true" and os.geteuid() == 0 and shutil.which("apt-get") is not None


def install_missing() -> None:
    missing = [package for package in named_packages() if not is_installed(package)]
    if not missing:
        return
    print(f"installing Debian packages: {' '.join(missing)}", flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
        outcome = subprocess.run(
            ["apt-get", "-qq", *arguments], env=environment, capture_output=True, text=True, check=False
        )
        if outcome.returncode != 0:
            raise SetupFailed(f"apt-get {' '.join(arguments)} failed:\n{outcome.stdout}{outcome.stderr}")
