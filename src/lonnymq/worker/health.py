"""A file that says how the worker is, for whoever looks after it: rewritten every few seconds while the
loop turns.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PERIOD = 2.0


async def report(path: Path, state: Callable[[], Mapping[str, Any]]) -> None:
    """For ever. The file is replaced as a whole; its age says whether the worker is alive."""
    while True:
        write(path, state())
        await asyncio.sleep(PERIOD)


def write(path: Path, state: Mapping[str, Any]) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps({"pid": os.getpid(), "at": round(time.time(), 3), **state}) + "\n")
    fresh.replace(path)
