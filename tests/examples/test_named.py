"""Commands and calls that the pages mention in their text exist, and so do the options that they mention."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from lonnymq import Queue
from lonnymq.cli.all_commands import app
from tests.examples.page import CHECKOUT, blocks

PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
COMMAND = get_command(app)


def inline(page: Path) -> list[str]:
    """All text in backticks outside of blocks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]


def commands(page: Path) -> Iterator[str]:
    in_blocks = [line for block in blocks(page) if block.language == "sh" for line in block.code.splitlines()]
    for line in [*inline(page), *in_blocks]:
        yield from re.findall(r"(?:^|[|;&] )lonnymq( [^|;&<>#]+)", line)


def calls(page: Path) -> Iterator[ast.Call]:
    for code in inline(page):
        if re.match(r"(queue\.|Queue\()", code):
            try:
                tree = ast.parse(code)
            except SyntaxError:
                continue
            yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_options_exist(page: Path) -> None:
    for line in commands(page):
        command: Any = COMMAND
        words = shlex.split(line)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert command is not COMMAND or words[0].startswith("-") or words[0].isupper(), f"lonnymq{line}"
        options = {name for parameter in command.params for name in parameter.opts + parameter.secondary_opts}
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given <= options | {"--help", "--debug"}, f"lonnymq{line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_calls_and_their_options_exist(page: Path) -> None:
    for call in calls(page):
        if (function := function_of(call.func)) is not None:
            known = inspect.signature(function).parameters
            given = {keyword.arg for keyword in call.keywords} - {None}
            assert given <= set(known), ast.unparse(call)


def function_of(name: ast.expr) -> Any:
    match name:
        case ast.Name("Queue"):
            return Queue
        case ast.Attribute(ast.Name("queue"), attribute):
            return getattr(Queue, attribute)
    return None
