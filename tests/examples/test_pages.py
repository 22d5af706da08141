"""Every block of README.md and of the pages of docs/ runs, and prints what the page shows."""

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
from tests.examples.page import CHECKOUT, NOT_RUN, RUNNERS, blocks, check, runnable, why_not_run

PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
ON_A_QUEUE = (
    "celery.md",
    "dashboard.md",
    "fastapi.md",
    "from_procrastinate.md",
    "monitoring.md",
    "outgrowing.md",
    "python.md",
    "taskiq.md",
    "transactions.md",
    "worker.md",
)
ON_A_SERVER = ("cli.md",)
ON_NOTHING = ("README.md",)
ON_A_FRESH_MACHINE = ("quickstart.md",)
ELSEWHERE = {
    "chaos.md": "tests/chaos/test_guide.py",
    "django.md": "tests/django/test_guide.py",
    "deployment.md": "tests/examples/test_deployment_guide.py",
    "model.md": "tests/e2e/test_model.py",
    "operations.md": "tests/examples/test_operations_guide.py",
    "soak.md": "tests/e2e/test_soak.py",
    "spark.md": "tests/spark/test_guide.py",
    "suites.md": "tests/e2e/test_suites.py",
    "sql.md": "tests/sql/test_walkthrough.py",
    "testing.md": "tests/testing/test_guide.py",
}
SILENT_ON_STDERR = ("outgrowing.md", "python.md", "transactions.md")
# Languages that are parsed, not run.
CHECKED_ELSEWHERE = {
    "django.md": "tests/django/test_guide.py",
    "dashboard.md": ("nginx",),
    "deployment.md": ("ini", "yaml"),
    "monitoring.md": ("yaml",),
    "suites.md": ("toml",),
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not tmp_path: under root, the account that the server runs as cannot read that one."""
    made = Path(tempfile.mkdtemp(prefix="lonnymq-page-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def own_server(folder: Path) -> Iterator[str]:
    """A server as readers have it: durable, and without a queue."""
    server = Server(folder / "server")
    with server:
        yield server.dsn()
    server.erase()


def page_of(name: str) -> Path:
    (found,) = (page for page in PAGES if page.name == name)
    return found


@pytest.mark.parametrize("name", ON_A_QUEUE)
def test_on_a_queue(name: str, folder: Path, dsn: str) -> None:
    stderr = check(page_of(name), folder, dsn)
    assert stderr == "" or name not in SILENT_ON_STDERR


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_A_SERVER)
def test_on_a_server(name: str, folder: Path, own_server: str) -> None:
    check(page_of(name), folder, own_server)


@pytest.mark.parametrize("name", ON_NOTHING)
def test_on_nothing(name: str, folder: Path) -> None:
    assert check(page_of(name), folder) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_A_FRESH_MACHINE)
def test_on_a_fresh_machine(name: str, folder: Path, tmp_path: Path) -> None:
    wheelhouse.fill(tmp_path, "lonnymq[binary,cli,embedded]", "hatchling")
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    check(page_of(name), CHECKOUT, HOME=str(folder), PYTHONWARNINGS="default", **pip)


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
    checked = CHECKED_ELSEWHERE.get(page.name, ())
    assert [
        f"{page.name}, line {block.line}: language {block.language!r} is not one of {[*RUNNERS]}"
        for block in found
        if block not in runnable(page) and not why_not_run(page, block) and block.language not in checked
    ] == []


def test_every_block_that_is_not_run_exists() -> None:
    for name, reasons in NOT_RUN.items():
        shown = [block for block in blocks(page_of(name)) if why_not_run(page_of(name), block)]
        assert len(shown) == len(reasons)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_links_lead_somewhere(page: Path) -> None:
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
