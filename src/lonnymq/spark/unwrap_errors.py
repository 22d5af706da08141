"""Our own errors, taken out of the errors in which Spark wraps them.

When a Python process of Spark raises an error, the driver gets a text with tracebacks. The text contains the
name of our class and its message.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager

from lonnymq.errors import LonnyMQError

OURS = re.compile(r"^\s*(lonnymq(?:\.\w+)*)\.(\w+): (.+)$", re.MULTILINE)


@contextmanager
def unwrap_spark_errors() -> Iterator[None]:
    """Raise our own error in place of the Spark error that contains it."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        ours = find_error(str(error))
        if ours is None:
            raise
        raise ours from error


def find_error(text: str) -> LonnyMQError | None:
    """
    >>> find_error("Job aborted.\\n  File x\\nlonnymq.errors.InvalidContent: too large (make it smaller)\\n")
    InvalidContent('too large (make it smaller)')
    >>> find_error("something else")
    """
    for module, name, message in reversed(OURS.findall(text)):
        cls = getattr(importlib.import_module(module), name, None)
        if isinstance(cls, type) and issubclass(cls, LonnyMQError):
            return cls(message.strip())
    return None
