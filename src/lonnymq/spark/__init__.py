"""The queue, its history and its dead letters in Spark, and the lake."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lonnymq.spark.lake.archive import archive
    from lonnymq.spark.load_files import load
    from lonnymq.spark.replay_messages import replay
    from lonnymq.spark.reports.build import report
    from lonnymq.spark.sessions.spark_session import session

__all__ = ["archive", "load", "replay", "report", "session"]

_HOMES = {
    "archive": "lake.archive",
    "load": "load_files",
    "replay": "replay_messages",
    "report": "reports.build",
    "session": "sessions.spark_session",
}


def __getattr__(name: str) -> object:
    """Loaded when it is asked for: Spark's own processes import this package, and need none of it."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"lonnymq.spark.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
