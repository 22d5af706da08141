"""For tests of programs that use LonnyMQ.

Every run of pytest imports this package, because of the fixtures in lonnymq.testing.plugin. So the names
here are loaded when they are first used. No module here may have one of these names: importing it would
hide the function.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lonnymq.testing.drain_app import Drained, NotDrained, drain, drain_async
    from lonnymq.testing.fake_job import FakeJob, job

__all__ = ["Drained", "FakeJob", "NotDrained", "drain", "drain_async", "job"]


if not TYPE_CHECKING:  # otherwise any name would seem to exist

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = "fake_job" if name in {"FakeJob", "job"} else "drain_app"
        return getattr(importlib.import_module(f"lonnymq.testing.{module}"), name)


def __dir__() -> list[str]:
    return __all__
