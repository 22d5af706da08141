"""The arguments of a task as the content of a message: a JSON object of them by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from lonnymq import payload
from lonnymq.errors import BrokenContent, InvalidArgument

UNNAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


class Arguments:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature = inspect.signature(function)
        parameters = self._signature.parameters.values()
        for parameter in parameters:
            if parameter.kind in UNNAMED:
                raise InvalidArgument(
                    f"the task {function.__name__} takes {parameter} by position", "give it a name of its own"
                )
        rest = [each.name for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD]
        self._rest = rest[0] if rest else None
        named = [each for each in parameters if each.name not in rest]
        self._names = frozenset(each.name for each in named)
        self._needed = frozenset(each.name for each in named if each.default is inspect.Parameter.empty)
        self._kinds = {name: kind for name, kind in _kinds(function).items() if name in self._names}

    def of_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """By name; TypeError where the function would raise it. Those left out stay out: the worker's
        defaults count.
        """
        given = dict(self._signature.bind(*args, **kwargs).arguments)
        if self._rest is not None:
            given |= given.pop(self._rest, {})
        return given

    def of_message(self, message: payload.Payloaded) -> dict[str, Any]:
        """As the function wants them."""
        given = message.payload
        if not isinstance(given, dict):
            raise BrokenContent(
                f"the content is {type(given).__name__}, not the arguments of a task", "send a JSON object"
            )
        if not given.keys() >= self._needed:
            missing = self._needed - given.keys()
            raise BrokenContent(f"the message lacks {_listed(missing)}", "send all that the task needs")
        if self._rest is None and not given.keys() <= self._names:
            unknown = given.keys() - self._names
            raise BrokenContent(
                f"the task takes no {_listed(unknown)}", "let workers be as new as those who enqueue"
            )
        for name, kind in self._kinds.items():
            if name in given and type(given[name]) is not kind:  # most are what they should be
                given[name] = payload.convert(given[name], kind)
        return given


def _kinds(function: Callable[..., Any]) -> dict[str, Any]:
    """What the annotations ask for; nothing where they cannot be read, or where all is as it came."""
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        return {}
    return {name: kind for name, kind in hints.items() if kind not in {Any, object} and name != "return"}


def _listed(names: frozenset[str] | set[str]) -> str:
    return ", ".join(sorted(map(repr, names)))
