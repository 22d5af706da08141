"""Errors of ours that Spark has wrapped: what one of its Python processes raised comes back as a text with
tracebacks in it, which names our class and what it said.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager

from lonnymq.errors import LonnyMQError

OURS = re.compile(r"^\s*(lonnymq(?:\.\w+)*)\.(\w+): (.+)$", re.MULTILINE)


@contextmanager
def plainly() -> Iterator[None]:
    """Raise our own error where Spark would raise a page about it."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        ours = unwrapped(str(error))
        if ours is None:
            raise
        raise ours from error


def unwrapped(text: str) -> LonnyMQError | None:
    """
    >>> unwrapped("Job aborted.\\n  File x\\nlonnymq.errors.InvalidContent: too large (make it smaller)\\n")
    InvalidContent('too large (make it smaller)', None)
    >>> unwrapped("something else")
    """
    for module, name, message in reversed(OURS.findall(text)):
        cls = getattr(importlib.import_module(module), name, None)
        if isinstance(cls, type) and issubclass(cls, LonnyMQError):
            return cls(message.strip())
    return None
