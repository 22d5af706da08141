"""README.md and the pages of docs/ do what they show, every block of them."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lonnymq.embedded import Server
from tests.examples import wheelhouse
from tests.examples.page import CHECKOUT, NOT_RUN, RUNNERS, Block, blocks, check, runnable, why_not_run

PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
ON_A_QUEUE = ("python.md", "transactions.md", "worker.md")
ON_A_SERVER = ("cli.md",)
ON_NOTHING = ("README.md",)
ON_A_FRESH_MACHINE = ("quickstart.md",)
ELSEWHERE = {
    "operations.md": "tests/examples/test_operations_guide.py",
    "spark.md": "tests/spark/test_guide.py",
    "sql.md": "tests/sql/test_walkthrough.py",
    "testing.md": "tests/testing/test_guide.py",
}
SAY_NOTHING_ON_STDERR = ("python.md", "transactions.md")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not pytest's own: under root, the account that a server runs as cannot reach that one."""
    made = Path(tempfile.mkdtemp(prefix="lonnymq-page-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def own_server(folder: Path) -> Iterator[str]:
    """As people have it: durable, and with nothing installed."""
    server = Server(folder / "server")
    with server:
        yield server.dsn()
    server.erase()


def named(name: str) -> Path:
    (found,) = (page for page in PAGES if page.name == name)
    return found


@pytest.mark.parametrize("name", ON_A_QUEUE)
def test_on_a_queue(name: str, folder: Path, dsn: str) -> None:
    stderr = check(named(name), folder, dsn)
    assert stderr == "" or name not in SAY_NOTHING_ON_STDERR


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_A_SERVER)
def test_on_a_server(name: str, folder: Path, own_server: str) -> None:
    check(named(name), folder, own_server)


@pytest.mark.parametrize("name", ON_NOTHING)
def test_on_nothing(name: str, folder: Path) -> None:
    assert check(named(name), folder) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_A_FRESH_MACHINE)
def test_on_a_fresh_machine(name: str, folder: Path, tmp_path: Path) -> None:
    wheelhouse.fill(tmp_path, "lonnymq[binary,cli,embedded]", "hatchling")
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    check(named(name), CHECKOUT, HOME=str(folder), PYTHONWARNINGS="default", **pip)


def test_every_page_is_run() -> None:
    run = {*ON_A_QUEUE, *ON_A_SERVER, *ON_NOTHING, *ON_A_FRESH_MACHINE, *ELSEWHERE}
    assert {page.name for page in PAGES if blocks(page)} == run
    for name, test in ELSEWHERE.items():
        assert f'"docs" / "{name}"' in (CHECKOUT / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = blocks(page)
    outputs = sum(block.output is not None for block in found)
    assert len(re.findall(r"^\s*(?:```|~~~)", text, re.MULTILINE)) == 2 * (len(found) + outputs), (
        "a block is indented, or is not closed"
    )
    assert [
        where(page, block) for block in found if block not in runnable(page) and not why_not_run(page, block)
    ] == []


def where(page: Path, block: Block) -> str:
    return f"{page.name}, line {block.line}: {block.language or 'no language'}, which is none of {[*RUNNERS]}"


def test_what_is_not_run_is_there() -> None:
    for name, reasons in NOT_RUN.items():
        shown = [block for block in blocks(named(name)) if why_not_run(named(name), block)]
        assert len(shown) == len(reasons)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_it_links_to_is_there(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
