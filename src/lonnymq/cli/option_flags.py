"""Flags of commands that are made from a description: the options of a message, the policy of a channel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer


def flag(kind: Any, text: str, least: float | None = None, most: float | None = None) -> Any:
    """The annotation of an optional flag."""
    limits: dict[str, Any] = {"min": least, "max": most}
    return Annotated[kind | None, typer.Option(help=text, show_default=False, **limits)]


def text_flag(read: Callable[[str], object], metavar: str, text: str) -> Any:
    """The annotation of an optional flag whose value `read` makes from text. It raises ValueError."""

    def parsed(given: str) -> object:
        try:
            return read(given)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return Annotated[Any, typer.Option(help=text, show_default=False, parser=parsed, metavar=metavar)]


def with_flags(flags: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the **options of a command by flags, given by name and annotation."""

    def made(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in flags.items()
        ]
        parameters = [found for found in signature.parameters.values() if found.kind is not found.VAR_KEYWORD]
        split = next(at for at, found in enumerate(parameters) if found.name == "dsn")
        parameters[split:split] = added  # before the options that every command has
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {found.name: found.annotation for found in parameters}
        return command

    return made
