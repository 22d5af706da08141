"""docs/testing.md: its blocks are the files of a project, and the project's tests pass."""

from __future__ import annotations

import re

from tests.examples.page import CHECKOUT, Block, blocks
from tests.testing.project import Project, Role

pytest_plugins = ["pytester"]

PAGE = CHECKOUT / "docs" / "testing.md"


def files() -> dict[str, Block]:
    return {block.code.partition("\n")[0].removeprefix("# "): block for block in blocks(PAGE)}


def test_its_tests_pass(project: Project, role: Role) -> None:
    project.runs_on(role.dsn)
    for name, block in files().items():
        path = project.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n" * block.line + block.code, encoding="utf-8")
    tests = sum(len(re.findall(r"^def test_", block.code, re.MULTILINE)) for block in files().values())
    assert tests > 9
    project.run().assert_outcomes(passed=tests)
    assert role.databases() == []


def test_every_block_is_a_file() -> None:
    assert len(blocks(PAGE)) == len(files())
    assert all(re.fullmatch(r"[a-z_/]+\.py", name) for name in files())


def test_it_lists_every_fixture(project: Project) -> None:
    result = project.run("--fixtures", "-q")
    fixtures = {line.split()[0] for line in result.outlines if line.startswith("lonnymq_")}
    listed = set(re.findall(r"^\| `(lonnymq_\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert fixtures == listed
