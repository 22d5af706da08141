"""Runs the ```python blocks of a page, top to bottom, as one program; `await` may stand outside functions.

python -m tests.examples.page PAGE DSN prints, as JSON, what each block prints.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

CHECKOUT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:```text\n(?P<output>.*?)^```\n)?", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    code: str
    output: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["code"], found["output"] or "", text.count("\n", 0, found.start()) + 1)
        for found in BLOCK.finditer(text)
    ]


def run_apart(page: Path, dsn: str) -> tuple[list[str], str]:
    """What each block prints, and what all of them say on stderr. In a process of its own: Django is set up
    once in each.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.examples.page", page, dsn],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def configure_django(dsn: str) -> None:
    found = conninfo_to_dict(dsn)
    names = {"HOST": "host", "PORT": "port", "NAME": "dbname", "USER": "user", "PASSWORD": "password"}
    database = {setting: str(found.get(name, "")) for setting, name in names.items()}
    settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **database}})
    django.setup()


def run(page: Path, dsn: str) -> list[str]:
    configure_django(dsn)
    names: dict[str, Any] = {"__name__": "__main__", "dsn": dsn}
    printed = []
    with asyncio.Runner() as runner:
        for block in blocks(page):
            code = compile(
                "\n" * block.line + block.code, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            )
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                awaited = eval(code, names)  # noqa: S307
                if inspect.iscoroutine(awaited):
                    runner.run(awaited)
            printed.append(output.getvalue())
    return printed


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), sys.argv[2])))
