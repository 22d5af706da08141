"""For the tests of programs that use LonnyMQ.

The fixtures of lonnymq.testing.plugin are there in every pytest, which imports this package for them. So what
is named here is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lonnymq.testing.draining import Drained, drain, drain_async

__all__ = ["Drained", "drain", "drain_async"]


if not TYPE_CHECKING:  # else any name would seem to be there

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module("lonnymq.testing.draining"), name)


def __dir__() -> list[str]:
    return __all__
