"""The health file: the worker's state as JSON, rewritten every two seconds while its event loop runs."""

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

PERIOD_S = 2.0


async def report(path: Path, state: Callable[[], Mapping[str, Any]]) -> None:
    """Run until cancelled. The file is replaced as a whole; its age says whether the worker is alive.
    Raises an error of the first write, and logs later ones.
    """
    write(path, state())
    while True:
        await asyncio.sleep(PERIOD_S)
        write_or_log(path, state())


def write_or_log(path: Path, state: Mapping[str, Any]) -> None:
    try:
        write(path, state)
    except OSError as error:  # such as a full disk, which need not stop the worker
        log.warning("could not write the health file %s: %s", path, error)


def write(path: Path, state: Mapping[str, Any]) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(json.dumps({"pid": os.getpid(), "at": round(time.time(), 3), **state}) + "\n")
    new.replace(path)
