"""The arguments of a task as the content of a message: a JSON object of them by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from lonnymq import payload
from lonnymq.errors import BrokenContent, InvalidArgument, MissingExtra, WrongArguments

NEW_ENOUGH = "a worker must be as new as the program that enqueues: deploy it, then retry the dead letter"
UNNAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


class Arguments:
    """With `validate`, arguments are converted and checked as their annotations say, when a call is enqueued
    and again when it runs. Otherwise a handler gets the decoded values as they are.
    """

    def __init__(self, function: Callable[..., Any], task: str, *, validate: bool = False) -> None:
        self._task = task
        self._signature = inspect.signature(function)
        parameters = self._signature.parameters.values()
        for parameter in parameters:
            if parameter.kind in UNNAMED:
                raise InvalidArgument(
                    f"the task {task!r} takes {parameter} by position", "give it a name of its own"
                )
        rest = [each.name for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD]
        self._rest = rest[0] if rest else None
        named = [each for each in parameters if each.name not in rest]
        self._names = frozenset(each.name for each in named)
        self._needed = frozenset(each.name for each in named if each.default is inspect.Parameter.empty)
        self._kinds = _kinds(function, task) if validate else {}
        self._rest_kind = self._kinds.pop(self._rest or "", None)

    def of_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name. Raises WrongArguments where the function would raise a TypeError. Arguments
        that are left out stay out, so that the worker's defaults apply.
        """
        try:
            given = dict(self._signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise WrongArguments(f"task {self._task!r}: {error}", f"it takes {self._signature}") from None
        if self._rest is not None:
            given |= given.pop(self._rest, {})
        for name, kind in self._kinds_of(given):
            given[name] = payload.simplify(given[name])
            self._converted(name, given[name], kind)
        return given

    def of_message(self, message: payload.Payloaded) -> dict[str, Any]:
        """The arguments by name, as the function expects them."""
        given = message.payload
        if not isinstance(given, dict):
            raise BrokenContent(
                f"the content is {type(given).__name__}, not the arguments of the task {self._task!r}",
                "send a JSON object",
            )
        if not given.keys() >= self._needed:
            missing = self._needed - given.keys()
            raise WrongArguments(
                f"task {self._task!r}: the message has no argument {_listed(missing)}", NEW_ENOUGH
            )
        if self._rest is None and not given.keys() <= self._names:
            unknown = given.keys() - self._names
            raise WrongArguments(f"task {self._task!r} takes no argument {_listed(unknown)}", NEW_ENOUGH)
        for name, kind in self._kinds_of(given):
            given[name] = self._converted(name, given[name], kind)
        return given

    def _kinds_of(self, given: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """The types of those given arguments that have one."""
        kinds = self._kinds
        if self._rest_kind is not None:
            kinds = kinds | dict.fromkeys(given.keys() - self._names, self._rest_kind)
        return [(name, kind) for name, kind in kinds.items() if name in given]

    def _converted(self, name: str, value: Any, kind: Any) -> Any:
        if type(value) is kind and kind in payload.PLAIN:  # most already have the right type
            return value
        try:
            return payload.convert(value, kind)
        except BrokenContent as error:
            raise WrongArguments(f"task {self._task!r}, argument {name!r}: {error.message}") from error


def _kinds(function: Callable[..., Any], task: str) -> dict[str, Any]:
    """The types that the annotations name. Raises MissingExtra if the library that checks them is missing."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise InvalidArgument(
            f"the annotations of the task {task!r} cannot be read: {error}",
            "import the types outside of TYPE_CHECKING, or leave out validate=True",
        ) from error
    kinds = {name: kind for name, kind in hints.items() if kind not in {Any, object} and name != "return"}
    for name, kind in kinds.items():
        _check_kind(task, name, kind)
    return kinds


def _check_kind(task: str, name: str, kind: Any) -> None:
    if payload.is_model(kind):
        return
    if payload.msgspec is None:
        raise MissingExtra(
            f"task {task!r}: validate=True needs msgspec for the argument {name!r}", payload.INSTALL
        )
    inspect_type = payload.msgspec.inspect
    try:
        is_supported = not isinstance(inspect_type.type_info(kind), inspect_type.CustomType)
    except TypeError:
        is_supported = False
    if not is_supported:
        raise InvalidArgument(
            f"task {task!r}, argument {name!r}: msgspec does not support {kind}, so it cannot be validated",
            "use a type that it supports, or leave out validate=True",
        )


def _listed(names: frozenset[str] | set[str]) -> str:
    return ", ".join(sorted(map(repr, names)))
