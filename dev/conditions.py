"""Where and when something was measured, for the pages that report it."""

import os
import platform
import subprocess
from datetime import UTC, datetime

from dev.environment import CHECKOUT


def conditions() -> str:
    """The machine, the date, and the commit of this checkout."""
    return ", ".join(filter(None, (machine(), datetime.now(UTC).date().isoformat(), commit())))


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}"


def commit() -> str:
    """Empty if this is not a checkout."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    return f"commit {done.stdout.strip()}" if done.returncode == 0 else ""
