"""docs/django.md: its blocks are the files of a project, and the commands that run it."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.examples.page import CHECKOUT, blocks

PAGE = CHECKOUT / "docs" / "django.md"
MANAGE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
ADDRESS = """
DATABASES["default"] |= {{
    "HOST": {host!r}, "PORT": {port!r}, "NAME": {dbname!r}, "USER": {user!r}, "PASSWORD": {password!r}
}}
"""


@pytest.fixture
def project(dsn: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "manage.py").write_text(MANAGE)
        for block in blocks(PAGE):
            if block.language == "python":
                path = folder / block.code.partition("\n")[0].removeprefix("# ")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.code)
        (folder / "shop/migrations").mkdir()
        (folder / "shop/migrations/__init__.py").touch()
        given = {"password": "", **conninfo_to_dict(dsn)}
        with (folder / "shop/settings.py").open("a") as settings:
            settings.write(ADDRESS.format(**given))
        yield folder


def test_its_commands_do_what_it_shows(project: Path) -> None:
    run(project, "python manage.py makemigrations shop --verbosity 0")
    for block in blocks(PAGE):
        if block.language == "sh":
            said = run(project, block.code).replace(f"{project}/", "")
            assert said.strip() == (block.output or "").strip(), f"line {block.line}"


def run(project: Path, commands: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=project,
        env=os.environ | {"PATH": path, "PYTHONPATH": os.pathsep.join([str(CHECKOUT / "src")])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ended.returncode == 0, f"{commands}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def test_every_file_has_a_name_and_every_option_is_described() -> None:
    files = [block.code.partition("\n")[0] for block in blocks(PAGE) if block.language == "python"]
    assert all(re.fullmatch(r"# [a-z_/]+\.py", file) for file in files)
    text = PAGE.read_text(encoding="utf-8")
    source = (CHECKOUT / "src/lonnymq/django/backend_options.py").read_text(encoding="utf-8")
    options = re.findall(r"^    (\w+): .* = ", source.partition("@classmethod")[0], re.MULTILINE)
    assert len(options) > 10
    assert [name for name in options if f"| `{name}`" not in text] == []
