"""The exception class in a stored error, which is the text of a traceback."""

from __future__ import annotations

import builtins
import re

from lonnymq.django.task_framework import TaskError

TRACEBACK = "Traceback (most recent call last):"
EXCEPTION_LINE = re.compile(r"([^\W\d][\w.]*)(?::|$)")
OF_THE_QUEUE = "lonnymq.errors.MessageDead"
"""The class for an error that no exception of the task caused: its worker died, or no worker knew it."""


def task_error(text: str) -> TaskError:
    """The error as Django has it. The text of a traceback ends with a line break there."""
    return TaskError(exception_class_path=class_path(text), traceback=f"{text.rstrip()}\n")


def class_path(text: str) -> str:
    """The path of the class of the last exception in a traceback.

    >>> class_path("Traceback (most recent call last):\\n  File ...\\nshop.errors.NoStock: sold out\\nsorry")
    'shop.errors.NoStock'
    >>> class_path("ValueError: no"), class_path("the lease ran out")
    ('builtins.ValueError', 'lonnymq.errors.MessageDead')
    """
    path = EXCEPTION_LINE.match(exception_line(text))
    if path is None:
        return OF_THE_QUEUE
    if "." in path[1]:
        return path[1]
    kind = getattr(builtins, path[1], None)
    if isinstance(kind, type) and issubclass(kind, BaseException):
        return f"builtins.{path[1]}"
    return f"__main__.{path[1]}" if TRACEBACK in text else OF_THE_QUEUE


def exception_line(text: str) -> str:
    """The line that names the last exception and begins its message; for another text, its first line."""
    _, _, last = text.rpartition(TRACEBACK)
    lines = last.strip("\n").splitlines()
    return next((line for line in lines if not line.startswith(" ")), "")
