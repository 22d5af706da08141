"""The queue, its history and its dead letters in Spark, and the lake."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lonnymq.spark.archiving import archive
    from lonnymq.spark.loading import load
    from lonnymq.spark.replaying import replay
    from lonnymq.spark.reporting import report
    from lonnymq.spark.sessions import session

__all__ = ["archive", "load", "replay", "report", "session"]

_HOMES = {
    "archive": "archiving",
    "load": "loading",
    "replay": "replaying",
    "report": "reporting",
    "session": "sessions",
}


def __getattr__(name: str) -> object:
    """Loaded when it is asked for: Spark's own processes import this package, and need none of it."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"lonnymq.spark.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
