"""The reference, which is generated from the code: every public name is in it and has a docstring."""

from __future__ import annotations

import html
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, get_origin

import griffe
import pytest
import typer.main

from dev.reference import ReferenceExtension
from lonnymq.cli.all_commands import app
from tests.docs.html import Page

pytestmark = pytest.mark.slow

PUBLIC = (
    "lonnymq",
    "lonnymq.commands",
    "lonnymq.embedded",
    "lonnymq.errors",
    "lonnymq.fastapi",
    "lonnymq.install",
    "lonnymq.litestar",
    "lonnymq.otel",
    "lonnymq.payload",
    "lonnymq.prometheus",
    "lonnymq.client.async_queue",
    "lonnymq.client.queue",
    "lonnymq.spark",
    "lonnymq.taskiq",
    "lonnymq.testing",
)


@pytest.fixture(scope="module")
def package() -> griffe.Module:
    loaded = griffe.load(
        "lonnymq", extensions=griffe.load_extensions(ReferenceExtension), resolve_aliases=True
    )
    assert isinstance(loaded, griffe.Module)
    return loaded


@pytest.fixture(scope="module")
def anchors(pages: dict[Path, Page]) -> set[str]:
    return {anchor for page in pages.values() for anchor in page.anchors}


def public_names(module: str) -> list[str]:
    """The names in `__all__`, or the public classes and functions that the module defines."""
    found = importlib.import_module(module)
    if hasattr(found, "__all__"):
        return [name for name in found.__all__ if name != "__version__"]
    return [
        name
        for name, value in vars(found).items()
        if not name.startswith("_") and callable(value) and value.__module__ == module
    ]


def defining_module(module: str, name: str) -> str:
    """The module that defines it, if it is a class or a function."""
    value = getattr(importlib.import_module(module), name)
    is_defined = get_origin(value) is not Annotated  # an Annotated type has the module of its type
    return str(getattr(value, "__module__", module)) if is_defined else module


def methods_of(found: griffe.Object | griffe.Alias) -> Iterator[griffe.Object | griffe.Alias]:
    for member in found.all_members.values() if found.is_class else ():
        if not member.name.startswith("_") and (member.is_function or "property" in member.labels):
            yield member


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_shown_with_a_docstring(
    module: str, package: griffe.Module, anchors: set[str]
) -> None:
    names = public_names(module)
    assert names
    for name in names:
        paths = {f"{place}.{name}" for place in ("lonnymq", module, defining_module(module, name))}
        assert paths & anchors, f"{name} is not on any page of docs/reference"
        found = package[f"{defining_module(module, name)}.{name}".removeprefix("lonnymq.")]
        assert found.has_docstring, f"{found.path} has no docstring"
        for method in methods_of(found):
            assert method.has_docstring, f"{method.path} has no docstring"
            assert {f"{path}.{method.name}" for path in paths} & anchors, f"{method.path} is not shown"


def test_the_calls_of_a_queue_are_shown_as_methods(site_folder: Path) -> None:
    shown = re.sub("<[^>]+>", "", (site_folder / "docs/reference/queue.html").read_text(encoding="utf-8"))
    signatures = re.sub(r"\s+", "", html.unescape(shown))
    assert "cancel(message_id:int,*,conn:object|None=None)->Result" in signatures
    assert "stats(*,cap:int=10000,conn:object|None=None)->ChannelStatistics" in signatures  # Channel.stats
    assert "Request[" not in signatures


def commands_of(command: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    for name, within in getattr(command, "commands", {}).items():
        yield from commands_of(within, (*path, name))


def test_every_command_is_shown(anchors: set[str]) -> None:
    paths = list(commands_of(typer.main.get_command(app), ("lonnymq",)))
    assert ("lonnymq", "channels", "set") in paths
    assert [path for path in paths[1:] if "-".join(path) not in anchors] == []
