"""A file that says how the worker is, for whoever looks after it: rewritten every few seconds while the
loop turns.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

log = logging.getLogger("lonnymq.worker")

PERIOD = 2.0


async def report(path: Path, state: Callable[[], Mapping[str, Any]]) -> None:
    """For ever. The file is replaced as a whole; its age says whether the worker is alive. Where it cannot be
    written from the beginning, that is raised.
    """
    write(path, state())
    while True:
        await asyncio.sleep(PERIOD)
        write_if_possible(path, state())


def write_if_possible(path: Path, state: Mapping[str, Any]) -> None:
    try:
        write(path, state)
    except OSError as error:  # a full disk is no reason to stop
        log.warning("%s is not up to date: %s", path, error)


def write(path: Path, state: Mapping[str, Any]) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps({"pid": os.getpid(), "at": round(time.time(), 3), **state}) + "\n")
    fresh.replace(path)
